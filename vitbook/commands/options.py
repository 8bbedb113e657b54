"""Options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

# What scikit-learn takes.
MOST_SEED = 2**32 - 1

Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or mps; by default the GPU if there is one.")
]

# What `load_probed_model` takes.
AnyModel = Annotated[
    str,
    typer.Argument(
        help="A name from `vitbook weights list` or `vitbook models`, timm:NAME, or a checkpoint."
    ),
]
Pretrained = Annotated[bool, typer.Option(help="timm's pretrained weights, which it fetches.")]


def stem(model: str) -> str:
    """What rows are called after: a model's name, or that of its file, whatever its ending."""
    return Path(model).name.removesuffix(".safetensors")


def stems(models: list[str]) -> list[str]:
    """:func:`stem` of each.

    Raises:
        ValueError: two of them are one.
    """
    names = [stem(each) for each in models]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} stands there {names.count(twice[0])} times: name it once")
    return names
