"""``vitbook data``: what is here, fetch, check, pack."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from vitbook import datasets
from vitbook.datasets.catalog import IMAGE_SETS, ImageSet
from vitbook.datasets.cluttered import source_of
from vitbook.datasets.fetched.fetch import fetch
from vitbook.datasets.folders import data_root, is_path
from vitbook.datasets.own.kept import adopt, find_adopted, list_adopted
from vitbook.datasets.stored.pack import MANIFEST, pack
from vitbook.datasets.stored.reading import check_classes, provenance, read_through
from vitbook.datasets.stored.shards import find_splits, stored_splits
from vitbook.errors import UnknownNameError, first_few

app = typer.Typer(help="Data sets: what is here, fetch, check, pack.", no_args_is_help=True)

DataName = Annotated[str, typer.Argument(help="A name from `vitbook data list`.")]
Root = Annotated[
    Path | None, typer.Option(help="Folder of the data sets; by default VITBOOK_DATA, else data/.")
]


@app.command(name="list")
def list_data(root: Root = None) -> None:
    """Say of every data set whether it is here: rows, missing files, size, terms."""
    folder = data_root(root)
    typer.echo(f"in {folder}")
    for name in datasets.list_datasets():
        here = _what_is_here(IMAGE_SETS[name], folder) if name in IMAGE_SETS else _fileless(name)
        typer.echo(f"{name:<16} {here}")
    for image_set in list_adopted(folder):
        parts = ", ".join(f"{split} {count:,}" for split, count in image_set.splits.items())
        size = image_set.archive.num_bytes / 1e6
        typer.echo(f"{image_set.name:<16} {parts}; {size:.1f} MB; {image_set.rule}")


def _fileless(name: str) -> str:
    """Where a set comes from that has no files of its own."""
    if (source := source_of(name)) != name:
        return f"made of {source}: needs no other file"
    return "inside scikit-learn and scikit-image: needs no file"


def _what_is_here(image_set: ImageSet, root: Path) -> str:
    try:
        splits = find_splits(root / image_set.name, image_set.splits)
    except datasets.DatasetError as error:
        return str(error)
    if not splits:
        size = image_set.archive.num_bytes / 1e6
        return f"not here, {size:.0f} MB to fetch; {image_set.terms}"
    parts = []
    for split, shards in splits.items():
        part = f"{split} {shards.num_rows:,}"
        if lost := len(shards.origin.missing):
            part += f" of {image_set.splits[split]:,} ({lost} file{'s' * (lost > 1)} missing)"
        parts.append(part)
    size = sum(shards.num_bytes for shards in splits.values()) / 1e6
    return f"{', '.join(parts)}; {size:.1f} MB; {image_set.terms}"


@app.command(name="fetch")
def fetch_data(name: DataName, root: Root = None) -> None:
    """Download a data set from its official address and convert it to Parquet.

    VITBOOK_MIRROR=http://host/ takes the place of the official host.
    """
    image_set = _image_set(name)
    folder = fetch(image_set, data_root(root))
    if lacking := _lacking(image_set, folder):
        raise datasets.DatasetError(
            f"{folder} holds only a part of {image_set.title}, without {first_few(lacking)}: it "
            "loads as it is, and says so; to fetch it whole, move that folder away"
        )
    typer.echo(f"{image_set.title} is in {folder}")


def _lacking(image_set: ImageSet, folder: Path) -> list[str]:
    """The splits and files that are not there."""
    splits = find_splits(folder, image_set.splits)
    return [split for split in image_set.splits if split not in splits] + [
        name for shards in splits.values() for name in shards.origin.missing
    ]


@app.command(name="keep")
def keep_data(
    path: Annotated[Path, typer.Argument(help="A folder of pictures, or a table of paths.")],
    seed: Annotated[
        int, typer.Option(min=0, help="Draws what is held out, where nobody has split them.")
    ] = 0,
    root: Root = None,
) -> None:
    """Keep pictures of your own as a data set, and print its name.

    Any command keeps a path that is given in the place of a name; this one takes a seed. What is
    kept lies in DATA/folders and may be removed.
    """
    typer.echo(adopt(path, root, seed))


@app.command(name="check")
def check_data(name: DataName, root: Root = None) -> None:
    """Read every file, decode every image and count the classes."""
    if name not in datasets.list_datasets() and ("@" in name or is_path(name)):
        image_set = find_adopted(datasets.name_of(name, root), root)
        folder, anyones = data_root(root) / "folders", True
    else:
        image_set, folder, anyones = _image_set(name), data_root(root), False
    for split, shards in stored_splits(image_set, folder).items():
        found = read_through(shards, anyones)
        check_classes(split, shards, found)
        about = provenance(image_set, split, shards, found, image_set.image_size)
        counts = np.bincount(found.labels, minlength=len(shards.class_names))
        low, high = min(counts), max(counts)
        sizes = [f"{width} x {height}" for width, height in found.sizes]
        typer.echo(
            f"{split}: {about['name']}, {about['pictures']:,} images ({about['format']},"
            f" {sizes[0] if len(sizes) == 1 else f'{len(sizes)} sizes'}) of {len(counts)} classes,"
            f" {f'{low:,}' if low == high else f'{low:,} to {high:,}'} each; {about['digest'][:23]}"
        )
        if "missing" in about:
            typer.echo(f"{split}: missing {about['missing']}")


@app.command(name="pack")
def pack_data(
    names: Annotated[list[str], typer.Argument(help="Names from `vitbook data list`.")],
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    max_mb: Annotated[float, typer.Option(help="Largest file, in 10^6 bytes.")] = 12,
    image_size: Annotated[
        int | None, typer.Option(help="Re-encode to PNG squares of this size.")
    ] = None,
    root: Root = None,
) -> None:
    """Write data sets as files of a limited size; VITBOOK_DATA=OUT then loads them.

    Images stay as they are encoded: the JPEG copy of CIFAR-10 is 18 MB, its pixels are 184 MB.
    """
    if not 0 < max_mb < float("inf"):
        raise ValueError(f"--max-mb {max_mb}: expected more than 0, in 10^6 bytes")
    for image_set in [_image_set(name) for name in names]:
        written = pack(image_set, data_root(root), out, int(max_mb * 1e6), image_size)
        files = ", ".join(f"{count} of {split}" for split, count in written.items())
        typer.echo(f"{image_set.title}: files {files} in {out / image_set.name}")
    typer.echo(f"sizes and sums are in {out / MANIFEST}; load with VITBOOK_DATA={out}")


def _image_set(name: str) -> ImageSet:
    if name not in datasets.list_datasets():
        raise UnknownNameError("data set", name, IMAGE_SETS)
    if name not in IMAGE_SETS:
        raise ValueError(f"{name} is {_fileless(name)}; known: {', '.join(IMAGE_SETS)}")
    return IMAGE_SETS[name]
