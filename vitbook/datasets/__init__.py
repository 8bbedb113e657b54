"""Real images, one face: ``load(name, split)``.

Sets that come inside packages (`embedded`), those that are `fetched` and then lie as Parquet
(`stored`), a folder of the reader's `own`, and `cluttered` ones that are made of these become one
`Dataset` of uint8 images and labels, checked once. What changes images while a model trains belongs
in `training`; what is drawn on them, in `plots`.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from vitbook.datasets.catalog import IMAGE_SETS
from vitbook.datasets.cluttered import CLUTTERED, answer_masks, scatter, source_of
from vitbook.datasets.dataset import Dataset, DatasetError, normalize
from vitbook.datasets.embedded.digits import load_digits
from vitbook.datasets.embedded.photos import load_photos, whole_photo
from vitbook.datasets.embedded.placed_digits import PLACED_DIGITS, load_placed_digits
from vitbook.datasets.folders import data_root, is_path
from vitbook.datasets.resizing import resize
from vitbook.datasets.share import take_share
from vitbook.errors import UnknownNameError, is_whole_number

__all__ = [
    "Dataset",
    "DatasetError",
    "answer_masks",
    "held_out_split",
    "is_here",
    "list_datasets",
    "load",
    "name_of",
    "normalize",
    "take_share",
    "whole_photo",
]

# Sets that come inside packages: name -> (loader, its splits)
_EMBEDDED = {
    "digits": (load_digits, ("train", "test")),
    "photos": (load_photos, ("all",)),
} | {name: (partial(load_placed_digits, name), ("train", "test")) for name in PLACED_DIGITS}
_SPLITS = {name: splits for name, (_, splits) in _EMBEDDED.items()} | {
    name: tuple(image_set.splits) for name, image_set in IMAGE_SETS.items()
}
_SPLITS |= {name: _SPLITS[clutter.of] for name, clutter in CLUTTERED.items()}


def list_datasets() -> tuple[str, ...]:
    """Names that :func:`load` takes: those that come with the packages first.

    Example:
        >>> from vitbook import datasets
        >>> datasets.list_datasets()[:2]
        ('digits', 'photos')
    """
    return tuple(_SPLITS)


def name_of(data: str | Path, root: str | Path | None = None, seed: int = 0) -> str:
    """The name of a data set: itself, or that of a folder of one's own, "flowers@1a2b3c4d".

    A path is a text with a slash, one that begins with ``.`` or ``~``, or one at which there is
    something; a name of ``list_datasets()`` comes before. What is there is read and kept in the
    folder of the data sets, once, as :func:`.own.kept.adopt` says; the name is of its content, and
    is taken wherever a data set's name is.

    Args:
        root: as :func:`load` takes it.
        seed: draws the fifth of each class that is held out, where nobody has split a folder.

    Raises:
        UnknownNameError: no such data set; names the nearest.
        DatasetError: nothing at the path, or nothing to learn from; the folder of the data sets
            is full or not writable.

    Example:
        >>> from vitbook import datasets
        >>> datasets.name_of("digits")
        'digits'
    """
    if (name := str(data)) in _SPLITS:
        return name
    if "@" in name or is_path(name):
        from vitbook.datasets.own.kept import adopt, find_adopted, is_name

        if find_adopted(name, root) is not None:
            return name
        if is_path(name):
            return adopt(name, root, seed)
        if is_name(name):
            raise DatasetError(
                f"{name} is a folder of somebody's that is not kept in {data_root(root)}: give the "
                "folder itself"
            )
    raise UnknownNameError("data set", name, _SPLITS)


def held_out_split(name: str | Path, root: str | Path | None = None) -> str:
    """The part that a score is measured on: "test", or "validation" where that is what is public.

    Args:
        name: as :func:`load` takes it; so is the next.

    Raises:
        UnknownNameError: no such data set.
        ValueError: a set that is not split.

    Example:
        >>> from vitbook.datasets import held_out_split
        >>> held_out_split("digits"), held_out_split("tiny_imagenet")
        ('test', 'validation')
    """
    splits = _splits(name, root)
    if "train" not in splits:
        raise ValueError(f"{name} has only {splits[0]!r}, no held-out split: it is to look at")
    return splits[-1]


def is_here(name: str | Path, root: str | Path | None = None) -> bool:
    """Whether :func:`load` finds all parts of a data set without a connection.

    Raises:
        UnknownNameError: no such data set.
        DatasetError: files of it are damaged.
    """
    name = source_of(name_of(name, root))
    splits = _splits(name, root)
    if name not in IMAGE_SETS:
        return True
    from vitbook.datasets.stored.shards import find_splits

    return find_splits(data_root(root) / name, splits).keys() == set(splits)


def load(
    name: str | Path, split: str, root: str | Path | None = None, image_size: int | None = None
) -> Dataset:
    """Load one part of a data set into memory.

    Args:
        name: from ``list_datasets()``, or a path to pictures of one's own, see :func:`name_of`.
        split: ``train`` or ``held_out_split(name)``; ``all`` of photos.
        root: folder that holds ``<name>/<split>-00000-of-00001.parquet`` and so on; by default
            ``VITBOOK_DATA``, else ``data/`` of the checkout. What is not there is fetched from
            its official address, with progress, and kept there. An embedded set needs none.
        image_size: pixels a side, by default the set's own (of pictures of one's own: half of
            them have a short side of as many, but no more than 224). Of images of another size the
            centre square is taken and resized, bicubic with antialiasing.

    Raises:
        UnknownNameError: no such data set or split; names the nearest.
        DatasetError: a file that is damaged, of another layout, or holds no image where one
            should be; a class without an image to train on; no connection to fetch it.
        MissingPackageError: the extra "data" is not installed.
        OSError: the disk is full.

    Example:
        >>> from vitbook import datasets
        >>> digits = datasets.load("digits", "test")
        >>> tuple(digits.images.shape), digits.images.dtype
        ((355, 1, 8, 8), torch.uint8)
        >>> digits.class_names[:3], tuple(digits.labels.shape)
        (('0', '1', '2'), (355,))
        >>> tuple(datasets.load("photos", "all", image_size=64).images.shape[1:])
        (3, 64, 64)
    """
    name = name_of(name, root)
    splits = _splits(name, root)
    if split not in splits:
        raise UnknownNameError(f"split of {name}", split, splits)
    if image_size is not None and not (is_whole_number(image_size) and image_size > 0):
        raise ValueError(
            f"image_size {image_size!r}: expected at least 1 pixel, a whole number, or None"
        )
    if name == "photos":  # from the whole photograph, not from its small square
        return load_photos(split, image_size)
    if name in CLUTTERED:
        source = load(source_of(name), split, root, CLUTTERED[name].side)
        return _resized(scatter(name, split, source), image_size)
    if name in _EMBEDDED:
        return _resized(_EMBEDDED[name][0](split), image_size)
    # What is embedded needs none of the packages that these import.
    if name not in IMAGE_SETS:
        from vitbook.datasets.own.kept import find_adopted, load_adopted

        return load_adopted(find_adopted(name, root), split, root, image_size)
    from vitbook.datasets.fetched.fetch import fetch
    from vitbook.datasets.stored.reading import read_split
    from vitbook.datasets.stored.shards import find_shards, shard_name

    image_set, root = IMAGE_SETS[name], data_root(root)
    folder = root / name
    shards = find_shards(folder, split)
    if shards is None:
        fetch(image_set, root)
        shards = find_shards(folder, split)
    if shards is None:
        raise DatasetError(
            f"{folder} holds other files of {image_set.title}, but none of {split}: expected "
            f"{shard_name(split, 0, 1)}; add it, or move the folder away and it will be fetched"
        )
    return read_split(image_set, split, shards, image_size)


def _resized(dataset: Dataset, size: int | None) -> Dataset:
    if size is None or dataset.images.shape[-2:] == (size, size):
        return dataset
    rule = f"{dataset.provenance['rule']}; centre square, resized to {size} px"
    return replace(
        dataset,
        images=resize(dataset.images, size),
        provenance=dataset.provenance | {"rule": rule},
    )


def _splits(name: str | Path, root: str | Path | None) -> tuple[str, ...]:
    if (name := name_of(name, root)) in _SPLITS:
        return _SPLITS[name]
    from vitbook.datasets.own.kept import find_adopted

    return tuple(find_adopted(name, root).splits)
