"""Where the book's own files lie, and writing so that a reader never meets half of one."""

import errno
import os
import tempfile
from pathlib import Path


def data_folder() -> Path:
    """``data/`` of the checkout, or the copy inside an installed package."""
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
        path = path.resolve()
        if path.exists() and not path.is_file():  # a device would be gone for the whole machine
            raise OSError(errno.EEXIST, "it is no plain file")
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
    """Before the work begins: could its result be written there? Nothing is made.

    Raises:
        OSError: a file is in the way, or the folder, or the one to make it in, is not writable.
    """
    folder = Path(folder).absolute()
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not there.is_dir():
        reason = errno.ENOTDIR
    elif not os.access(there, os.W_OK | os.X_OK):
        reason = errno.EACCES
    else:
        return
    raise could_not_write(folder, OSError(reason, f"{there}: {os.strerror(reason)}"))


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
