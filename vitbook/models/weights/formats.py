"""What a file of weights is, told by its bytes: a reader that cannot take it says so truly.

Nothing that comes to this reader is unpickled: a pickle may run whatever it likes.
"""

import tarfile
import zipfile
from pathlib import Path

ENDINGS = (".safetensors", ".npz")  # of files that are read


class WeightsError(ValueError):
    """A file that holds no weights which its reader takes."""


ZIP, TORCH = b"PK\x03\x04", "a PyTorch file, whose pickle is not read here"
FROM_TORCH = (
    "torch.load(path, weights_only=True) gives its weights, for "
    "vitbook.models.weights.authors.load_deit and its like, or for safetensors.torch.save_file"
)
AGAIN = "copy or fetch it again"
UNKNOWN_ZIP = "a zip archive", "unpack it, or convert it where it was written"
FLAX = (
    "a msgpack file, Flax' weights",
    "flax.serialization.msgpack_restore reads it, numpy.savez keeps it by Google's names",
)
# first bytes -> (what the file is, what to do)
BEGINNINGS = {
    b"version https://git-lfs": (
        "a Git LFS pointer, which stands for the weights", "fetch the file itself, git lfs pull"),
    b"<!doctype html": ("a web page", "fetch the file itself, by its download link"),
    b"<html": ("a web page", "fetch the file itself, by its download link"),
    b"<?xml": ("an XML answer of a server", "fetch the file itself, by its download link"),
    b"{": ("text, JSON", "fetch the weights that it is about"),
    b"\x89hdf\r\n\x1a\n": (
        "an HDF5 file, Keras' weights", "write its arrays with safetensors.torch.save_file, by "
        "timm's names"),
    b"\x93numpy": ("one array of numpy's", "expected an archive of several, .npz"),
    b"\x1f\x8b": ("packed with gzip", "unpack it, gunzip"),
}  # fmt: skip


def is_npz(path: Path) -> bool:
    """Whether a file is a whole archive of numpy's arrays, whatever its name ends with."""
    return _in_zip(path, ".npy")


def refusal(path: Path, expected: str, otherwise: str) -> str:
    """Why a file is none of what was expected, in one sentence: what it is, and what to do.

    Args:
        expected: in words.
        otherwise: the sentence on a file whose bytes do not tell what it is.
    """
    if not (words := _what_it_is(path)):
        return otherwise
    what, advice = words
    return f"{path} is {what}: expected {expected}; {advice}"


def _what_it_is(path: Path) -> tuple[str, str] | None:
    with path.open("rb") as file:
        begin = file.read(64)
    if not begin or begin[8:9] == b"{":  # safetensors: a length of 8 bytes, then words
        return None
    for first, words in BEGINNINGS.items():
        if begin.lstrip().lower().startswith(first):
            return words
    if begin.startswith(ZIP):
        if not zipfile.is_zipfile(path):
            size = path.stat().st_size
            return f"a zip archive (.npz, or PyTorch's) cut short at {size:,} bytes", AGAIN
        if _in_zip(path, "data.pkl"):
            return TORCH, FROM_TORCH
        return ("numpy's arrays", "load_checkpoint reads Google's") if is_npz(path) else UNKNOWN_ZIP
    if begin[0] == 0x80 and 2 <= begin[1] <= 5:  # what a pickle begins with
        return TORCH, FROM_TORCH
    if path.suffix == ".msgpack":
        return FLAX
    return ("a tar archive", "unpack it") if tarfile.is_tarfile(path) else None


def _in_zip(path: Path, ending: str) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(ending) for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False
