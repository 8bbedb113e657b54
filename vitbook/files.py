"""Writing files so that a reader never meets half of one."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: str | Path, content: bytes) -> Path:
    """Write beside the target, then rename: the old file stays whole until the new one is.

    Raises:
        OSError: the disk is full or the folder not writable; names the file and what was needed.
    """
    path = Path(path)
    temporary = None
    try:
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


def could_not_write(path: Path, error: OSError, num_bytes: int | None = None) -> OSError:
    """The same error in one sentence: which file, how much of it was needed, what to do."""
    needed = "" if num_bytes is None else f" ({num_bytes / 1e6:.1f} MB)"
    return type(error)(
        error.errno,
        f"could not write {path}{needed}: {error.strerror or error}; "
        "free some space or choose another folder; what was there before is untouched",
    )
