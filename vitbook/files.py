"""Where the book's own files lie, and writing so that a reader never meets half of one."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path


def data_folder() -> Path:
    """``data/`` of the checkout, or the copy inside an installed package.

    There the ledger's rows of one kind are one file, ``results.json.xz`` in the place of
    ``results/``, which ``tools/pack_ledger.py`` makes.
    """
    here = Path(__file__).resolve().parent
    checkout = here.parent / "data"
    return checkout if (checkout / "results").is_dir() else here / "_data"


def write_atomically(path: str | Path, content: bytes) -> Path:
    """Write beside the target, then rename: the old file stays whole until the new one is.

    Args:
        path: of a file, or of a link to one, which stays a link.

    Raises:
        OSError: the disk is full, the folder not writable, or no plain file is there; names the
            file and what was needed.
    """
    path = Path(path)
    temporary = None
    try:
        path = _plain_file(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp keeps its files to their owner
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise could_not_write(path, error, len(content)) from error
    return path


def check_writable(folder: str | Path) -> None:
    """Before the work begins: could its result be written there? Nothing is left there.

    Raises:
        OSError: a file is in the way, or the folder, or the one to make it in, is not writable, or
            no folder can have that name.
    """
    folder = Path(folder).absolute()
    try:
        there = next(path for path in (folder, *folder.parents) if _is_there(path))
        if not there.is_dir():
            raise OSError(errno.ENOTDIR, f"{there}: {os.strerror(errno.ENOTDIR)}")
        if not os.access(there, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, f"{there}: {os.strerror(errno.EACCES)}")
        try:  # permissions do not tell of /proc, or of a share that has gone
            tempfile.TemporaryFile(dir=there).close()
        except OSError as error:
            reason = errno.EACCES if error.errno == errno.ENOENT else error.errno
            raise OSError(reason, f"{there}: no file can be made there") from error
    except OSError as error:
        raise could_not_write(folder, error) from error


def check_file_writable(path: str | Path) -> None:
    """:func:`check_writable` for one file: also, no folder, pipe or device is in its place.

    Args:
        path: of a file, or of a link to one.

    Raises:
        OSError: as :func:`write_atomically` would.
    """
    path = Path(path)
    try:
        target = _plain_file(path)
    except OSError as error:
        raise could_not_write(path, error) from error
    check_writable(target.parent)


def _plain_file(path: Path) -> Path:
    """Where a path and its links lead to: a plain file, or the place for one."""
    try:
        target = path.resolve()
    except (RuntimeError, ValueError):  # links in a circle; a null in the name
        target = path
    if target.is_symlink():
        raise OSError(errno.ELOOP, "its links lead nowhere")
    if _is_there(target) and not target.is_file():  # a device would be gone for all
        raise OSError(errno.EEXIST, "it is no plain file")
    return target


def _is_there(path: Path) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValueError as error:
        raise OSError(errno.EINVAL, "the name holds a null character") from error
    return True


def could_not_write(path: Path, error: OSError, num_bytes: int | None = None) -> OSError:
    """The same error in one sentence: which file, how much of it was needed, what to do."""
    needed = "" if num_bytes is None else f" ({num_bytes / 1e6:.1f} MB)"
    advice = "choose another folder"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = "free some space or choose another folder"
    elif error.errno == errno.ENAMETOOLONG:
        advice = "choose a shorter name"
    return type(error)(
        error.errno,
        f"could not write {path}{needed}: {error.strerror or error}; {advice}; what was there "
        "before is untouched",
    )


@contextmanager
def writing(path: Path, num_bytes: int | None = None) -> Iterator[None]:
    """What cannot be written inside the block is told by :func:`could_not_write`."""
    try:
        yield
    except OSError as error:
        raise could_not_write(path, error, num_bytes) from error


def modules_saying(package: str, words: str) -> list[str]:
    """Names of the modules under a package whose source has these words; none is imported."""
    (home,) = find_spec(package).submodule_search_locations
    named = {}
    for file in sorted(Path(home).rglob("*.py")):
        parts = file.relative_to(home).with_suffix("").parts
        name = ".".join((package, *(part for part in parts if part != "__init__")))
        named[name] = words in file.read_text("utf-8")
    return [name for name, says in named.items() if says]
