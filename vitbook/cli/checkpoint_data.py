"""A checkpoint, and the images that it is asked about."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from vitbook import datasets, runs
from vitbook.cli.faults import load_checkpoint
from vitbook.cli.options import stems
from vitbook.datasets.dataset import first_difference
from vitbook.errors import first_few
from vitbook.training import Checkpoint


def load_with_data(
    checkpoint: str | Path,
    dataset: str | None = None,
    split: str | None = None,
    load: Callable[..., datasets.Dataset] = datasets.load,
) -> tuple[Checkpoint, datasets.Dataset]:
    """Read a checkpoint, and images of its size from a data set whose classes it tells apart.

    Args:
        dataset: by default the one that it was trained on.
        split: by default the held-out one.
        load: in the place of :func:`vitbook.datasets.load`, for who asks for the same again.

    Raises:
        ValueError: its classes are not those of the data set, or it learned none.
    """
    loaded = load_checkpoint(checkpoint)
    recipe = loaded.provenance.get("recipe")
    if isinstance(recipe, dict) and recipe.get("objective"):
        raise ValueError(
            f"{checkpoint} has learned no classes, its recipe has an objective without labels: "
            "expected one that has; train its head first (vitbook train --from, vitbook "
            "linear-probe)"
        )
    dataset = dataset or loaded.provenance.get("dataset", "digits")
    split = split or datasets.held_out_split(dataset)
    images = load(dataset, split, image_size=loaded.model.spec.image_size)
    if loaded.class_names and loaded.class_names != images.class_names:
        raise ValueError(
            f"{checkpoint} tells apart {_classes(loaded.class_names)}; {dataset} has "
            f"{_classes(images.class_names)}: "
            f"{first_difference(loaded.class_names, images.class_names)}; choose a data "
            "set of the same classes"
        )
    return loaded, images


def all_with_data(
    checkpoints: Sequence[str], dataset: str | None, split: str | None, kind: str, out: Path
) -> tuple[str, dict, Iterator[tuple[str, Checkpoint, datasets.Dataset]]]:
    """Checkpoints that are asked about one data set, that of the first if none is named.

    The place of a measurement of this ``kind`` is checked before anything is measured.

    Returns:
        The data set's name; what a measurement says of the images; and one by one what the row is
        called after, the checkpoint and the images in its size.

    Raises:
        ValueError: as :func:`load_with_data`, or two checkpoints of one name.
        OSError: no room for the measurement.
    """
    names, load = stems(checkpoints), cache(datasets.load)
    first, images = load_with_data(checkpoints[0], dataset, split, load)
    dataset = dataset or first.provenance.get("dataset", "digits")
    runs.check_place(kind, dataset, out)
    about = {"dataset": images.provenance["name"], "split": images.provenance["split"]}

    def each() -> Iterator[tuple[str, Checkpoint, datasets.Dataset]]:
        yield names[0], first, images
        for name, checkpoint in zip(names[1:], checkpoints[1:], strict=True):
            yield name, *load_with_data(checkpoint, dataset, split, load)

    return dataset, about | {"images": len(images)}, each()


def _classes(names: tuple[str, ...]) -> str:
    return f"{len(names)} classes ({first_few(names, 3)})"
