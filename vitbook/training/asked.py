"""What measurements and commands are asked about: data sets and checkpoints, by name or path."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

from torch import nn

from vitbook import datasets
from vitbook.blocks import LAST
from vitbook.datasets.dataset import first_difference
from vitbook.errors import first_few
from vitbook.extras import from_extra
from vitbook.model_utilities import weights_digest
from vitbook.models.weights.formats import ENDINGS
from vitbook.runs.measuring import Sheet
from vitbook.training import Checkpoint
from vitbook.training.faults import load_checkpoint

with from_extra("train"):
    import typer

# What scikit-learn takes.
MOST_SEED = 2**32 - 1


def data_name(asked: str | None) -> str | None:
    """What a data set is called that was asked for by name or by a path."""
    return None if asked is None else datasets.name_of(asked)


DATA = "A name from `vitbook data list`, or a path: a folder of pictures, a table of them."
DataName = Annotated[str, typer.Argument(help=DATA, callback=data_name)]
# A data set for which the book has a linear head.
HeadedData = Annotated[
    str,
    typer.Argument(
        help="That the book has a linear head for: tf_flowers, cifar10, tiny_imagenet.",
        callback=data_name,
    ),
]
Checkpoints = Annotated[
    list[str], typer.Argument(help="Files that `vitbook train` wrote, or names of the book's own.")
]
# Of a checkpoint: by default that of which it says so.
OtherData = Annotated[
    str | None,
    typer.Option(
        help="A name or a path; by default the one that the first was trained on.",
        callback=data_name,
    ),
]
Split = Annotated[str | None, typer.Option(help="By default the held-out one.")]
Seed = Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of all that is drawn.")]
Layer = Annotated[
    str, typer.Option(help=f"{LAST}, after the last norm; or a block: its path, or number from 0.")
]
Share = Annotated[float, typer.Option(help="Of each class's training images.")]
ImageSize = Annotated[int | None, typer.Option(help="By default the model's.")]
SomeImages = Annotated[
    int | None, typer.Option("--images", min=2, help="Held-out images; by default all.")
]
# What `frozen_body` takes.
FrozenModel = Annotated[
    str, typer.Option(help="A name from `vitbook weights list`, one of timm's, or a checkpoint.")
]


def stem(model: str) -> str:
    """What rows are called after: a model's name, or that of its file, whatever its ending."""
    path = Path(model)
    return path.stem if path.suffix in ENDINGS else path.name


def check_each_once(names: Sequence[object], option: str = "") -> None:
    """Refuse what stands there twice.

    Raises:
        ValueError: says what.
    """
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(
            f"{option}{twice[0]} stands there {names.count(twice[0])} times: name it once"
        )


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
            "measure linear-probe)"
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


def rows_of_checkpoints(
    sheet: Sheet,
    checkpoints: Sequence[str],
    dataset: str | None,
    split: str | None,
    row: Callable[[nn.Module, datasets.Dataset], dict],
) -> tuple[str, dict, list[dict]]:
    """Ask checkpoints about one data set, that of the first if none is named.

    Args:
        row: of a model, on its device, and images in its size.

    Returns:
        The data set's name; what a measurement says of the images; and a row for each checkpoint.

    Raises:
        ValueError: as :func:`load_with_data` and ``row``, or two checkpoints of one name.
        OSError: no room for the measurement.
    """
    names, load = [stem(each) for each in checkpoints], cache(datasets.load)
    check_each_once(names)
    rows, about = [], {}
    for name, checkpoint in zip(names, checkpoints, strict=True):
        loaded, images = load_with_data(checkpoint, dataset, split, load)
        if not rows:
            dataset = dataset or loaded.provenance.get("dataset", "digits")
            sheet.expect(dataset)
            about = {"dataset": images.provenance["name"], "split": images.provenance["split"]}
            about["images"] = len(images)
        key = f"{name} {weights_digest(loaded.model)}"
        try:
            found = sheet.once(key, row, loaded.model.to(sheet.device), images)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        rows.append({"run": name, "model": loaded.model.spec.name} | found)
    return dataset, about, rows


def _classes(names: tuple[str, ...]) -> str:
    return f"{len(names)} classes ({first_few(names, 3)})"
