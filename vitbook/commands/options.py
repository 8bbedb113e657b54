"""Options that several commands take."""

from typing import Annotated

import typer

Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or mps; by default the GPU if there is one.")
]
