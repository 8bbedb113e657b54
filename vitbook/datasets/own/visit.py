"""Going through folders of anyone's: what is a picture, what is not, what was met before."""

import errno
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from vitbook.datasets.dataset import DatasetError

ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


@dataclass
class Visit:
    """Files met on the way, each in one place; what is no picture is counted."""

    stamp: list[str] = field(default_factory=list)
    skipped: Counter = field(default_factory=Counter)
    places: dict[tuple[int, int], tuple[str, Path]] = field(default_factory=dict)

    def is_hidden(self, path: Path) -> bool:
        hidden = path.name.startswith((".", "__MACOSX", "@eaDir"))
        self.skipped["hidden"] += hidden
        return hidden

    def is_picture(self, path: Path) -> bool:
        if self.is_hidden(path):
            return False
        fits = path.suffix.lower() in ENDINGS
        self.skipped[path.suffix.lower() or "without ending"] += not fits
        return fits

    def below(self, folder: Path, above: Iterable[Path]) -> list[Path]:
        """Pictures of a folder, nested ones too, by name. Links are followed, no folder twice."""
        met, waiting, found = set(map(_identity, above)), [folder], []
        while waiting:
            if _identity(here := waiting.pop()) in met:
                self.skipped["folders that lead back"] += 1
                continue
            met.add(_identity(here))
            for path in children(here):
                if path.is_dir():
                    waiting += [] if self.is_hidden(path) else [path]
                elif self.is_picture(path):
                    found.append(path)
        return sorted(found)

    def note(self, path: Path, place: str) -> None:
        """Remember a file by what it was when it was met."""
        try:
            about = path.stat()
        except OSError:  # a link that leads nowhere: named when it is read
            self.stamp.append(f"{as_text(path)} gone")
            return
        self.stamp.append(f"{as_text(path)} {about.st_size} {about.st_mtime_ns}")
        where, other = self.places.setdefault((about.st_dev, about.st_ino), (place, path))
        if where != place:
            raise DatasetError(
                f"{path} and {other} are one file, in {place} and in {where}: expected it in one "
                "class of one split; remove one"
            )


def children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DatasetError(
            f"{folder} cannot be read ({error.strerror or error}): mend its permissions, or move "
            "it away"
        ) from error


def as_text(path: str | Path) -> str:
    """As a table and a page can hold it, whatever bytes a name is of; with forward slashes."""
    path = path.as_posix() if isinstance(path, Path) else path
    return unicodedata.normalize("NFC", os.fsencode(path).decode("utf-8", "replace"))


def read_plain(path: Path) -> bytes:
    """A whole file; a pipe or device, which might never end, is refused."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "no plain file")
    return path.read_bytes()


def _identity(folder: Path) -> tuple[int, int]:
    about = folder.stat()
    return about.st_dev, about.st_ino
