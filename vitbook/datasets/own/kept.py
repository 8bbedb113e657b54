"""A folder of one's own as a data set: kept once as Parquet, called after what is in it.

``<root>/folders/NAME@DIGEST/`` holds the pictures of a folder as they were encoded, one Parquet
file a split, and ``about.json``; beside them the squares of each size that was asked for. The
digest is of splits, classes, names and bytes. ``<root>/folders/met/`` remembers by paths, sizes and
times of change which name a folder has, so that it is read once.
"""

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path
from statistics import median_low

import msgspec

from vitbook.datasets.catalog import Archive, ImageSet
from vitbook.datasets.dataset import Dataset, DatasetError
from vitbook.datasets.folders import data_root
from vitbook.datasets.images import ANYONES, ImageError, as_shown, open_image
from vitbook.datasets.own.folder import LAYOUTS, SPLITS, Listing, list_folder
from vitbook.datasets.own.squares import keep_squares, read_squares
from vitbook.datasets.own.table import list_shards, list_table
from vitbook.datasets.stored.reading import read_split
from vitbook.datasets.stored.shard_writer import ShardWriter
from vitbook.datasets.stored.shards import Row, find_shards, find_splits, shard_name
from vitbook.errors import first_few
from vitbook.extras import from_extra
from vitbook.files import write_atomically

with from_extra("data"):
    from filelock import FileLock
    from tqdm import tqdm

_USUAL_SIZE = 224  # pixels a side, at most, where nobody says a size
_GROUP = 32_000_000  # bytes that are written together


class About(msgspec.Struct, forbid_unknown_fields=True):
    """``about.json``: what is to be known of a kept folder without reading its pictures."""

    source: str
    splits: dict[str, int]
    image_size: int
    original_size: int | None
    rule: str
    num_bytes: int
    digest: str


def is_name(name: str) -> bool:
    """Whether a name is one that :func:`adopt` gave, here or elsewhere."""
    return re.fullmatch(r"[\w-]{1,40}@[0-9a-f]{8}", name, re.ASCII) is not None


def adopt(path: str | Path, root: str | Path | None = None, seed: int = 0) -> str:
    """Keep what is at a path as a data set, unless it is kept already; return its name.

    One line on ``stderr`` says how many pictures there are, how they were split and what was left
    out.

    Args:
        path: of a folder (``FOLDER/CLASS/...``, ``FOLDER/train/CLASS/...`` with ``test``, ``val``,
            ``valid`` or ``validation`` beside it, or the Hub's Parquet files), or of a table (.csv,
            .parquet) with the columns path, label and maybe split.
        root: as :func:`vitbook.datasets.load` takes it.
        seed: draws the fifth of each class that is held out, where nobody has split them.

    Raises:
        DatasetError: nothing there, another layout, classes that cannot be, pictures that cannot
            be read; names them. The folder of the data sets is full or not writable.
    """
    path = Path(os.path.expanduser(path)).absolute()
    home = data_root(root) / "folders"
    listing = list_pictures(path, seed)
    stamp = hashlib.sha256(os.fsencode(f"{path}\n{listing.rule}\n{listing.stamp}")).hexdigest()
    met = home / "met" / stamp[:32]
    try:
        met.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(home / "adopting.lock"):  # of several processes one works
            name = met.read_text() if met.is_file() else ""
            if find_adopted(name, root) is None:
                name = _keep(path, listing, home)
                write_atomically(met, name.encode())
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be kept in {home} ({error.strerror or error}): free some space, or set "
            "VITBOOK_DATA to a folder that can be written"
        ) from error
    counts = " and ".join(f"{count:,} of {split}" for split, count in listing.counts.items())
    told = "".join(f"; {each}" for each in (listing.rule, *listing.told))
    _say(f"{name}: pictures {counts}, {len(listing.class_names)} classes{told}")
    return name


def find_adopted(name: str, root: str | Path | None = None) -> ImageSet | None:
    """A data set that :func:`adopt` has kept; None if there is none of this name."""
    folder = data_root(root) / "folders" / name
    return _image_set(folder) if is_name(name) and (folder / "about.json").is_file() else None


def list_adopted(root: str | Path | None = None) -> list[ImageSet]:
    """All that :func:`adopt` has kept, by name."""
    folders = sorted((data_root(root) / "folders").glob("*@*"))
    return [found for each in folders if (found := find_adopted(each.name, root)) is not None]


def load_adopted(
    image_set: ImageSet, split: str, root: str | Path | None = None, size: int | None = None
) -> Dataset:
    """The squares of one size as they were kept; made and kept where they are not."""
    size = image_set.image_size if size is None else size
    folder = data_root(root) / "folders" / image_set.name
    kept = folder / f"{split}-{size}px.safetensors"
    if (found := read_squares(kept)) is not None:
        return found
    with FileLock(folder / "squares.lock"):
        if (found := read_squares(kept)) is not None:  # that another process has made meanwhile
            return found
        if (shards := find_shards(folder, split)) is None:
            raise DatasetError(f"{folder} lost its pictures of {split}: remove it, and begin anew")
        dataset = read_split(image_set, split, shards, size, anyones=True)
        keep_squares(kept, dataset)
        return dataset


def list_pictures(path: Path, seed: int) -> Listing:
    """What is at a path, whatever its layout."""
    if path.is_dir() and (shards := find_splits(path, dict.fromkeys(SPLITS.values()))):
        return list_shards(path, shards)
    if path.is_dir():
        return list_folder(path, seed)
    if path.exists():
        return list_table(path, seed)
    raise DatasetError(
        f"no folder or table {path}: expected {LAYOUTS}, or a name from `vitbook data list`"
    )


def _keep(path: Path, listing: Listing, home: Path) -> str:
    """Read every picture, be sure of it, and write it down; the set appears by one rename."""
    _say(f"reading the pictures of {path} into {home}, once")
    making = home / ".making"
    shutil.rmtree(making, ignore_errors=True)  # of a process that was killed
    making.mkdir()
    try:
        about = _write(path, listing, making)
        name = f"{_safe(path)}@{about.digest[:8]}"
        if not (home / name).exists():
            making.rename(home / name)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return name


def _write(path: Path, listing: Listing, making: Path) -> About:
    """All splits, and what is to be known of them."""
    total, num_bytes, sizes, sides = hashlib.sha256(), 0, set(), []
    broken: list[str] = []
    bar = tqdm(total=sum(listing.counts.values()), unit="picture", disable=None)
    for split in listing.counts:
        writer = ShardWriter(making / shard_name(split, 0, 1), listing.class_names)
        rows, waiting = [], 0
        for each in listing.pictures(split):
            bar.update()
            try:
                encoded = each.read()
                size = as_shown(open_image(encoded, ANYONES)).size
            except (ImageError, OSError) as error:
                broken.append(f"{each.name} ({getattr(error, 'strerror', None) or error})")
                continue
            label = listing.class_names[each.label]
            content = hashlib.sha256(encoded).hexdigest()
            total.update(f"{split}\t{label}\t{each.name}\t{content}\n".encode())
            sizes.add(size)
            sides.append(min(size))
            rows.append(Row(encoded, each.name, each.label))
            waiting, num_bytes = waiting + len(encoded), num_bytes + len(encoded)
            if waiting > _GROUP:
                writer.write(rows)
                rows, waiting = [], 0
        writer.write(rows)
        writer.close()
    bar.close()
    if broken:
        raise DatasetError(
            f"{path}: {len(broken):,} of {bar.total:,} pictures cannot be read: "
            f"{first_few(broken, 3)}: expected whole {', '.join(ANYONES)}; mend or remove them"
        )
    width, height = next(iter(sizes))
    about = About(
        source=_safe(path),
        splits=listing.counts,
        image_size=min(_USUAL_SIZE, median_low(sides)),
        original_size=width if len(sizes) == 1 and width == height else None,
        rule=listing.rule,
        num_bytes=num_bytes,
        digest=total.hexdigest(),
    )
    write_atomically(making / "about.json", msgspec.json.encode(about))
    return about


def _safe(path: Path) -> str:
    """A name that files can be called after, of no more than the last part of a path."""
    path = path.resolve()
    name = path.stem if path.is_file() else path.name
    return re.sub(r"[^\w-]+", "_", name, flags=re.ASCII)[:40].strip("_") or "pictures"


def _image_set(folder: Path) -> ImageSet:
    try:
        about = msgspec.json.decode((folder / "about.json").read_bytes(), type=About)
    except msgspec.DecodeError as error:
        raise DatasetError(
            f"{folder} is damaged ({error}): remove it, and give the folder of pictures again"
        ) from error
    return ImageSet(
        name=folder.name,
        title=folder.name,
        splits=about.splits,
        image_size=about.image_size,
        lossless=False,
        original_size=about.original_size,
        archive=Archive(f"{about.source}, one's own", about.num_bytes, about.digest),
        terms="one's own",
        rule=about.rule,
    )


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
