"""Options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from vitbook import datasets
from vitbook.models.weights.formats import ENDINGS

# What scikit-learn takes.
MOST_SEED = 2**32 - 1

Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or mps; by default the GPU if there is one.")
]


def data_name(asked: str | None) -> str | None:
    """What a data set is called that was asked for by name or by a path."""
    return None if asked is None else datasets.name_of(asked)


DATA = "A name from `vitbook data list`, or a path: a folder of pictures, a table of them."
DataName = Annotated[str, typer.Argument(help=DATA, callback=data_name)]
# Of a checkpoint: by default that of which it says so.
OtherData = Annotated[
    str | None,
    typer.Option(
        help="A name or a path; by default the one that the first was trained on.",
        callback=data_name,
    ),
]

# What `load_probed_model` takes.
AnyModel = Annotated[
    str,
    typer.Argument(
        help="A name from `vitbook weights list` or `vitbook models`, timm:NAME, a checkpoint, "
        "or Google's .npz."
    ),
]
Pretrained = Annotated[bool, typer.Option(help="timm's pretrained weights, which it fetches.")]


def stem(model: str) -> str:
    """What rows are called after: a model's name, or that of its file, whatever its ending."""
    path = Path(model)
    return path.stem if path.suffix in ENDINGS else path.name


def stems(models: list[str]) -> list[str]:
    """:func:`stem` of each.

    Raises:
        ValueError: two of them are one.
    """
    names = [stem(each) for each in models]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} stands there {names.count(twice[0])} times: name it once")
    return names
