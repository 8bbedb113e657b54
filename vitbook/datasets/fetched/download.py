"""Fetching one large file: resumed where it stopped, verified, and only then given its name."""

import hashlib
import os
import ssl
import time
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from vitbook.datasets.catalog import Archive
from vitbook.datasets.dataset import DatasetError
from vitbook.extras import from_extra
from vitbook.files import writing

with from_extra("data"):
    from tqdm.auto import tqdm

TIMEOUT_S = 30  # without a single byte
PAUSE_S = 2  # before the line is tried again, then twice that
TRIES = 3  # in a row that bring nothing

_CHUNK = 1 << 18
_LINE_FAULTS = (URLError, HTTPException, TimeoutError, ConnectionError, ssl.SSLError)


class DownloadError(DatasetError):
    """A file that could not be fetched whole: how far it came, and what to do."""


def address(archive: Archive) -> str:
    """The official address, or that of the mirror in ``VITBOOK_MIRROR``: ``http://host:8000/``
    takes the place of scheme and host, the path after them stays."""
    mirror = os.environ.get("VITBOOK_MIRROR")
    return mirror.rstrip("/") + urlsplit(archive.url).path if mirror else archive.url


def download(archive: Archive, folder: Path) -> Path:
    """Put the archive into a folder, whole and verified, and return where it is.

    A file of its name that is there already is only verified. What an earlier call left behind is
    continued with a Range request; a part of another version is found by the checksum, and removed.

    Raises:
        DownloadError: no connection, another file than expected, a wrong checksum.
        OSError: the disk is full or the folder not writable.
    """
    target, part = folder / archive.name, folder / f"{archive.name}.part"
    if target.exists():
        _verify(target, archive, "remove it, and it will be fetched anew")
        return target
    _receive(archive, part, target)
    try:
        _verify(part, archive, "it was removed; try again, or set VITBOOK_MIRROR to another source")
    except DownloadError:
        part.unlink()
        raise
    os.replace(part, target)
    return target


def _receive(archive: Archive, part: Path, target: Path) -> None:
    """Until ``part`` is as long as the archive."""
    idle, reason = 0, ""
    with tqdm(total=archive.num_bytes, unit="B", unit_scale=True, desc=archive.name) as bar:
        while (have := _length(part)) < archive.num_bytes:
            if idle == TRIES:
                raise DownloadError(_stopped(archive, have, reason, target))
            if idle:
                time.sleep(PAUSE_S * idle)
            bar.n = have
            try:
                _continue(archive, part, bar)
                reason = "the connection closed"
            except HTTPError as error:
                reason = f"{error.code} {error.reason}"
                error.close()
                if error.code == 416:  # the server has nothing after what we have
                    part.unlink(missing_ok=True)
                elif error.code < 500 and error.code not in (408, 429):
                    idle = TRIES - 1  # will be the same next time
            except _LINE_FAULTS as error:
                reason = str(getattr(error, "reason", None) or error or type(error).__name__)
            idle = 0 if _length(part) > have else idle + 1


def _continue(archive: Archive, part: Path, bar: tqdm) -> None:
    """One request, its bytes written after those that are there."""
    have = _length(part)
    request = Request(address(archive), headers={"User-Agent": "vitbook"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urlopen(request, timeout=TIMEOUT_S) as response:
        if response.status != 206:
            have = 0
        _check_length(archive, response, have)
        with writing(part, archive.num_bytes):
            file = part.open("ab" if have else "wb", buffering=0)
        with file:
            bar.n = have
            while have < archive.num_bytes and (chunk := response.read1(_CHUNK)):
                with writing(part, archive.num_bytes):
                    file.write(chunk)
                have += len(chunk)
                bar.update(len(chunk))


def _check_length(archive: Archive, response: HTTPResponse, have: int) -> None:
    length = response.headers.get("Content-Length")
    if length is not None and have + int(length) != archive.num_bytes:
        raise DownloadError(
            f"{response.url} offers {have + int(length):,} bytes, expected the "
            f"{archive.num_bytes:,} of {archive.name}: the file moved or changed; set "
            "VITBOOK_MIRROR to another source"
        )


def _verify(path: Path, archive: Archive, advice: str) -> None:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest() != archive.sha256:
        raise DownloadError(
            f"{path} has sha256 {digest.hexdigest()[:16]}..., expected {archive.sha256[:16]}... of "
            f"{archive.name}: it was damaged or is another file; {advice}"
        )


def _stopped(archive: Archive, have: int, reason: str, target: Path) -> str:
    source, total = address(archive), f"{archive.num_bytes / 1e6:.1f} MB"
    by_hand = f"fetch {archive.url} ({total}) elsewhere and put it at {target}"
    if have:
        return (
            f"{source} stopped after {have / 1e6:.1f} of {total} ({reason}): call again and it "
            f"goes on from there, or {by_hand}"
        )
    return f"{urlsplit(source).netloc} cannot be reached ({reason}): {by_hand}, then call again"


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
