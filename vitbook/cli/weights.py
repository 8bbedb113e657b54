"""``vitbook weights``: models that have learned elsewhere: what is here, fetch."""

import os
from pathlib import Path
from typing import Annotated

import typer

from vitbook.models.weights.packages import PackagedWeights
from vitbook.models.weights.pretrained import PACKAGED, PRETRAINED, load_pretrained, weights_folder

app = typer.Typer(help="Weights that others trained: what is here, fetch.", no_args_is_help=True)


@app.command(name="list")
def list_weights() -> None:
    """Say of every model of the Python index whether its weights are here."""
    folder = weights_folder()
    typer.echo(f"in {folder}")
    for name, about in PRETRAINED.items():
        state = _state(PACKAGED[name], folder)
        typer.echo(f"{name}  {state}; {about['source']}; {about['terms']}; {about['learned']}")
    typer.echo("and by timm's names every model of the catalogue that timm has on the hub")


def _state(weights: PackagedWeights, folder: Path) -> str:
    path = weights.kept(folder)
    if weights.is_complete(folder):
        return f"{path.stat().st_size / 1e6:.0f} MB"
    to_fetch = f"{weights.file.wheel_bytes / 1e6:.0f} MB to fetch"
    if path.is_file():
        whole = f"{path.stat().st_size / 1e6:.1f} of {weights.tensor_bytes / 1e6:.1f} MB"
        return f"damaged ({whole}), {to_fetch}"
    if os.path.lexists(path):
        return f"damaged (no plain file), remove it; {to_fetch}"
    return f"not here, {to_fetch}"


@app.command(name="fetch")
def fetch_weights(
    name: Annotated[str, typer.Argument(help="From the list, or a name of timm's.")] = next(
        iter(PRETRAINED)
    ),
) -> None:
    """Fetch weights, check them, and keep them for the next time."""
    loaded = load_pretrained(name)
    source = loaded.provenance["source"]
    typer.echo(f"{name} is here: {source}, {loaded.provenance['terms']}")
