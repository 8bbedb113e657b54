"""Options that several commands take."""

from typing import Annotated

import typer

# What scikit-learn takes.
MOST_SEED = 2**32 - 1

Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or mps; by default the GPU if there is one.")
]
