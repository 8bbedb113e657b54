"""Options that several commands take."""

from typing import Annotated

import typer

Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or mps; by default the GPU if there is one.")
]
Threads = Annotated[int | None, typer.Option(help="Of the CPU; by default all.")]
# What `load_probed_model` takes.
AnyModel = Annotated[
    str,
    typer.Argument(
        help="A name from `vitbook weights list` or `vitbook models`, timm:NAME, a checkpoint, "
        "or Google's .npz."
    ),
]
Pretrained = Annotated[bool, typer.Option(help="timm's pretrained weights, which it fetches.")]
