"""Data sets as many small files, to carry to another machine."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from vitbook.datasets.catalog import IMAGE_SETS, ImageSet
from vitbook.datasets.dataset import DatasetError
from vitbook.datasets.images import encode_png, open_image, square
from vitbook.datasets.stored.reading import alterations, read_through
from vitbook.datasets.stored.shard_writer import ShardWriter
from vitbook.datasets.stored.shards import Packed, Row, Shards, shard_name, stored_splits
from vitbook.files import could_not_write, write_atomically

MANIFEST = "manifest.json"

_ROOM = 100_000  # bytes of a file that are not images: names of classes, places of pages
_ROW = 32  # bytes of a row that are not its image: label, lengths
_MOST = 1000  # rows that are compressed and read together


def pack(
    image_set: ImageSet,
    root: Path,
    out: Path,
    max_bytes: int = 12_000_000,
    image_size: int | None = None,
) -> dict[str, int]:
    """Write what is here of a data set to ``<out>/<name>/``, no file over ``max_bytes``.

    ``VITBOOK_DATA=<out>`` then loads the same images under the same name and digest; what was
    missing is still said to be. ``<out>/manifest.json`` lists every file with its size and sha256.

    Images stay as they are encoded: 18 MB for the JPEG copy of CIFAR-10, whose pixels would be
    184 MB. With ``image_size`` the others become squares of that size, as lossless PNG; those that
    are of that size stay as they are.

    Returns:
        Split -> the number of files written.

    Raises:
        DatasetError: nothing to pack, something in the way, or an image larger than a file.
        OSError: the disk is full or the folder not writable.
    """
    target, making = out / image_set.name, out / f".{image_set.name}.making"
    splits = stored_splits(image_set, root)
    if target.exists():
        raise DatasetError(f"{target} is there already: remove it or choose another folder")
    shutil.rmtree(making, ignore_errors=True)
    try:
        making.mkdir(parents=True)
        written = {
            split: _pack_split(image_set, split, shards, making, max_bytes, image_size)
            for split, shards in splits.items()
        }
        for path in (root / image_set.name).glob("*"):
            if path.name in ("class_names.json", "LICENSE.txt"):
                write_atomically(making / path.name, path.read_bytes())
        making.rename(target)
        _list_files(out)
    except OSError as error:
        if error.filename is None:  # could_not_write has said it in a sentence
            raise
        raise could_not_write(target, error) from error
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return written


def _pack_split(
    image_set: ImageSet,
    split: str,
    shards: Shards,
    folder: Path,
    max_bytes: int,
    image_size: int | None,
) -> int:
    packed, rows = shards.origin, (row for shard in shards.found for row in shard.rows())
    if image_size is not None:
        contents = read_through(shards)  # how the images are before they are changed
        packed = Packed(alterations(image_set, shards, contents), packed.found, packed.missing)
        rows = (_resized(row, image_size) for row in rows)
    files: list[ShardWriter] = []
    for group, needed in _groups(rows, max_bytes // 8):
        if not files or files[-1].num_bytes + needed + _ROOM > max_bytes:
            if files:
                files[-1].close()
            path = folder / f"{len(files)}.parquet"
            files.append(ShardWriter(path, shards.class_names, packed))
        files[-1].write(group)
    files[-1].close()
    for index, file in enumerate(files):
        if (size := file.path.stat().st_size) > max_bytes:
            raise DatasetError(
                f"a file of {image_set.title} would have {size:,} bytes, expected at most "
                f"{max_bytes:,}: a single image is too large for it; allow larger files"
            )
        file.path.rename(folder / shard_name(split, index, len(files)))
    return len(files)


def _resized(row: Row, size: int) -> Row:
    image = open_image(row.encoded)
    if image.size == (size, size):
        return row
    name = str(Path(row.path).with_suffix(".png")) if row.path else ""
    return Row(encode_png(square(image, size)), name, row.label)


def _groups(rows: Iterator[Row], max_bytes: int) -> Iterator[tuple[list[Row], int]]:
    """Rows in their order, some at a time, and the bytes that they need at most."""
    group, needed = [], 0
    for row in rows:
        more = len(row.encoded) + len(row.path.encode()) + _ROW
        if group and (needed + more > max_bytes or len(group) == _MOST):
            yield group, needed
            group, needed = [], 0
        group.append(row)
        needed += more
    yield group, needed


def _list_files(out: Path) -> None:
    files = {
        path.relative_to(out).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for name in IMAGE_SETS
        for path in sorted((out / name).glob("*"))
    }
    write_atomically(out / MANIFEST, json.dumps(files, indent=1).encode() + b"\n")
