"""Options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

# What scikit-learn takes.
MOST_SEED = 2**32 - 1

Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or mps; by default the GPU if there is one.")
]


def stem(model: str) -> str:
    """What rows are called after: a model's name, or that of its file, whatever its ending."""
    return Path(model).name.removesuffix(".safetensors")
