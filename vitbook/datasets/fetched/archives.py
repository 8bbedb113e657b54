"""Reading a tar or zip archive in place: nothing of it is ever unpacked to the disk."""

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from vitbook.datasets.dataset import DatasetError

_FAULTS = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError)


def read_members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Name and content of each wanted file of a ``.tar.gz``, ``.tgz`` or ``.zip``, in its order.

    Every member is looked at before the first is given out.

    Raises:
        DatasetError: a member that would leave its folder (absolute, or with ``..``) or that is
            no plain file or folder (a link, a device); an archive cut short.
    """
    read = _read_zip if path.suffix == ".zip" else _read_tar
    try:
        yield from read(path, wanted)
    except _FAULTS as error:
        raise DatasetError(
            f"{path} is damaged or cut short ({error}): remove it and fetch it again"
        ) from error


def _read_tar(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            _check(path, member.name, is_plain=member.isfile() or member.isdir())
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if member.isfile() and wanted(member.name):
                content = archive.extractfile(member)
                assert content is not None  # it is a file
                yield member.name, content.read()


def _read_zip(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where made on Windows
            if member.flag_bits & 1:
                raise DatasetError(
                    f"{path} is encrypted, from member {member.filename!r} on: expected the "
                    "archive of the official address, which is not; remove it and fetch it again"
                )
            _check(path, member.filename, is_plain=kind in (0, stat.S_IFREG, stat.S_IFDIR))
        for member in archive.infolist():
            if not member.is_dir() and wanted(member.filename):
                yield member.filename, archive.read(member)


# tarfile.data_filter knows no zip, lets links inside the folder pass and mends absolute paths.
def _check(path: Path, name: str, *, is_plain: bool) -> None:
    """Refuse a member that is no plain file or folder, or whose name leads out of the archive."""
    windows = PureWindowsPath(name)  # takes both slashes, and knows drives
    if not is_plain:
        what = "is a link, a device or a pipe"
    elif PurePosixPath(name).is_absolute() or windows.is_absolute() or windows.anchor:
        what = "has an absolute path"
    elif ".." in windows.parts:
        what = "leaves its folder"
    else:
        return
    raise DatasetError(
        f"{path} is refused, nothing of it was read: member {name!r} {what}, expected plain files "
        "inside the archive's folder; fetch the archive from its official address"
    )
