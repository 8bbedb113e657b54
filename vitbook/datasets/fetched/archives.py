"""Reading a tar or zip archive in place: nothing of it is ever unpacked to the disk.

An archive is what its makers offered, by its digest, before it comes here: see ``download``.
"""

import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path


def read_members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Name and content of each wanted file of a ``.tar.gz``, ``.tgz`` or ``.zip``, in its order."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if not name.endswith("/") and wanted(name):
                    yield name, archive.read(name)
        return
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if member.isfile() and wanted(member.name):
                yield member.name, archive.extractfile(member).read()
