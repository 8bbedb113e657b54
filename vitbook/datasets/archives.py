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
            kind = None if member.isfile() or member.isdir() else _TAR_KINDS.get(member.type, "?")
            _check(path, member.name, kind)
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if member.isfile() and wanted(member.name):
                content = archive.extractfile(member)
                assert content is not None  # it is a file
                yield member.name, content.read()


_TAR_KINDS = {
    tarfile.SYMTYPE: "symbolic link",
    tarfile.LNKTYPE: "hard link",
    tarfile.CHRTYPE: "device",
    tarfile.BLKTYPE: "device",
    tarfile.FIFOTYPE: "pipe",
}


def _read_zip(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where made on Windows
            plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
            if member.flag_bits & 1:
                raise DatasetError(
                    f"{path} is encrypted, from member {member.filename!r} on: expected the "
                    "archive of the official address, which is not; remove it and fetch it again"
                )
            _check(path, member.filename, None if plain else _ZIP_KINDS.get(kind, "?"))
        for member in archive.infolist():
            if not member.is_dir() and wanted(member.filename):
                yield member.filename, archive.read(member)


_ZIP_KINDS = {
    stat.S_IFLNK: "symbolic link",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFIFO: "pipe",
}


def _check(path: Path, name: str, odd_kind: str | None) -> None:
    """``odd_kind``: what a member is, if it is neither a file nor a folder."""
    windows = PureWindowsPath(name)  # takes both slashes, and knows drives
    if odd_kind is not None:
        what = f"is a {odd_kind}" if odd_kind != "?" else "is of an unknown kind"
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
