"""From the official archive of a data set to Parquet files, once."""

import os
import shutil
import sys
from pathlib import Path

from vitbook.datasets.catalog import ImageSet
from vitbook.datasets.dataset import DatasetError
from vitbook.datasets.fetched.cifar import convert_cifar10, convert_cifar100
from vitbook.datasets.fetched.conversion import write_converted
from vitbook.datasets.fetched.download import address, download
from vitbook.datasets.fetched.tf_flowers import convert_tf_flowers
from vitbook.datasets.fetched.tiny_imagenet import convert_tiny_imagenet
from vitbook.datasets.stored.shards import find_splits, shard_name
from vitbook.extras import from_extra

with from_extra("data"):
    from filelock import FileLock, Timeout

_CONVERT = {
    "cifar10": convert_cifar10,
    "cifar100": convert_cifar100,
    "tf_flowers": convert_tf_flowers,
    "tiny_imagenet": convert_tiny_imagenet,
}


def fetch(image_set: ImageSet, root: Path) -> Path:
    """Download and convert a data set, unless some of it is there; return its folder.

    The archive lies in ``<root>/downloads/`` meanwhile, and stays there only if it was put there
    by hand. A set appears whole, by one rename: a kill at any time leaves none of it, and the next
    call goes on. Of several processes one works and the others wait for it.

    Raises:
        DownloadError: no connection, another file than expected, a wrong checksum.
        DatasetError: an archive that is not safe to read, or the folder cannot be written.
        OSError: the disk is full.
    """
    folder, downloads = root / image_set.name, root / "downloads"
    if find_splits(folder, image_set.splits):
        return folder
    lock = FileLock(downloads / f"{image_set.name}.lock")
    try:
        downloads.mkdir(parents=True, exist_ok=True)
        _acquire(lock, image_set)
    except OSError as error:
        raise DatasetError(
            f"{image_set.title} is not in {folder}, and {root} cannot be written "
            f"({error.strerror or error}): set VITBOOK_DATA to a folder that can be, or to one "
            f"that holds {image_set.name}/"
        ) from error
    try:
        if not find_splits(folder, image_set.splits):
            _fetch(image_set, folder, downloads)
    finally:
        lock.release()
    return folder


def _acquire(lock: FileLock, image_set: ImageSet) -> None:
    try:
        lock.acquire(timeout=1)
    except Timeout:
        _say(f"another process is fetching {image_set.title}: waiting for it")
        lock.acquire()


def _fetch(image_set: ImageSet, folder: Path, downloads: Path) -> None:
    archive = image_set.archive
    if odd := sorted(path.name for path in folder.glob("*")):
        raise DatasetError(
            f"{folder} holds other files ({', '.join(odd[:3])}): expected "
            f"{shard_name('train', 0, 1)} and so on, or nothing; move them away"
        )
    by_hand = (downloads / archive.name).exists()
    if not by_hand:
        _say(
            f"{image_set.title} is not in {folder}: fetching {archive.num_bytes / 1e6:.1f} MB from "
            f"{address(archive)} ({image_set.terms})"
        )
    path = download(archive, downloads)
    _say(f"converting {path} to Parquet files in {folder}")
    making = downloads / f"{image_set.name}.making"
    shutil.rmtree(making, ignore_errors=True)  # of a process that was killed
    making.mkdir()
    try:
        write_converted(making, _CONVERT[image_set.name](path), image_set.shards)
        if folder.exists():
            folder.rmdir()  # empty
        os.rename(making, folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    if not by_hand:
        path.unlink()


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
