"""A part of a data set, the same part of every class."""

from dataclasses import replace

import torch
from jaxtyping import Int64
from torch import Tensor

from vitbook.datasets.dataset import Dataset, DatasetError


def take_share(dataset: Dataset, share: float | int, seed: int = 0) -> Dataset:
    """The same share of each class, drawn by ``seed``, in the order that the images had.

    With one seed a smaller share lies inside a larger one, so that two shares differ by what was
    added and not by luck.

    Args:
        share: more than 0, up to 1, which is the data set itself.

    Raises:
        ValueError: a share that cannot be.
        DatasetError: a class without an image in it.

    Example:
        >>> from vitbook.datasets import load, take_share
        >>> digits = load("digits", "train")
        >>> len(digits), len(take_share(digits, 0.1))
        (1442, 143)
    """
    if share == 1:
        return dataset
    rows = rows_of_share(dataset, share, seed)
    about = {
        "name": f"{dataset.provenance['name']}, {share * 100:g} % of each class",
        "pictures": len(rows),
        "share": f"{share:g} of each class, {len(rows):,} of {len(dataset):,}, seed {seed}",
    }
    return replace(
        dataset,
        images=dataset.images[rows],
        labels=dataset.labels[rows],
        provenance=dataset.provenance | about,
    )


def rows_of_share(dataset: Dataset, share: float | int, seed: int = 0) -> Int64[Tensor, "kept"]:
    """Which images :func:`take_share` keeps, and the errors of it."""
    if not 0 < share <= 1:
        raise ValueError(f"share {share}: expected more than 0, up to 1")
    kept = []
    generator = torch.Generator().manual_seed(seed)
    for label, name in enumerate(dataset.class_names):
        own = (dataset.labels == label).nonzero().flatten()
        drawn = own[torch.randperm(len(own), generator=generator)][: round(share * len(own))]
        if len(own) and not len(drawn):
            raise DatasetError(
                f"a share of {share:g} leaves no image of {name} (it has {len(own):,} in "
                f"{dataset.provenance['name']}): take at least {1 / len(own):.2g}"
            )
        kept.append(drawn)
    return torch.cat(kept).sort().values
