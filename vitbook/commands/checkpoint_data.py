"""A checkpoint, and the images that it is asked about."""

from collections.abc import Callable
from pathlib import Path

from vitbook import datasets
from vitbook.errors import first_few
from vitbook.training import Checkpoint, load_checkpoint


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
            f"{_classes(images.class_names)}: choose a data set of the same classes"
        )
    return loaded, images


def _classes(names: tuple[str, ...]) -> str:
    return f"{len(names)} classes ({first_few(names, 3)})"
