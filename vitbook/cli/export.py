"""``vitbook export``: a model as a file that runs without torch."""

from pathlib import Path
from typing import Annotated

import torch
import typer

import vitbook
from vitbook.cli.options import AnyModel, Pretrained, Threads
from vitbook.cli.probed_model import load_probed_model, read_images
from vitbook.devices import set_threads
from vitbook.export import export_onnx
from vitbook.runs.tables import print_table
from vitbook.training.asked import stem


def export(
    model: AnyModel = "vit_small_patch14_focus",
    out: Annotated[
        Path | None, typer.Option(help="The file; by default the model's name with .onnx.")
    ] = None,
    attention: Annotated[
        bool, typer.Option("--attention", help="Give out the map of each attention too.")
    ] = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Give out the tokens behind each block too.")
    ] = False,
    precision: Annotated[
        str, typer.Option(help="Of the stored weights: float32, float16 or int8.")
    ] = "float32",
    images: Annotated[
        Path | None,
        typer.Option(
            help="A folder of images, or one file, on which file and torch are compared; by "
            "default nine photographs."
        ),
    ] = None,
    free_size: Annotated[
        bool, typer.Option("--free-size", help="Take images of any size that the patches divide.")
    ] = False,
    pretrained: Pretrained = False,
    threads: Threads = None,
) -> None:
    """Write a model as an ONNX file, and say how far its outputs are from torch's.

    The file takes pixels of 8 bits, "batch channels height width"; their normalization is a part of
    it. A model that computes with the number of images is written for one.
    """
    set_threads(threads)
    probed = load_probed_model(model, pretrained)
    given, skipped, _ = read_images(images, probed.size, probed.channels)
    for name, why in skipped.items():
        typer.echo(f"skipped {name}: {why}")
    path = out or Path(f"{stem(model).removeprefix('timm:')}.onnx")
    found = export_onnx(
        probed.model, path, torch.stack(list(given.values())), probed.prepare,
        attention=attention, tokens=tokens, precision=precision, free_size=free_size,
        about={"model": probed.name, "weights": probed.weights, "vitbook": vitbook.__version__},
    )  # fmt: skip
    print_table(_lines(found.errors))
    alone = ", one image at a time" if found.shape[0] == 1 else ", any number of images at a time"
    typer.echo(
        f"wrote {found.path}, {found.num_bytes / 1e6:.1f} MB, compared with torch on {len(given)} "
        f"images{alone}"
    )


def _lines(errors: dict[str, float]) -> list[dict[str, str]]:
    kinds: dict[str, list[float]] = {}
    for name, error in errors.items():
        kinds.setdefault(name.partition(":")[0], []).append(error)
    return [
        {
            "output": kind,
            "how many": str(len(found)),
            "largest difference, of the largest number": f"{max(found):.1e}",
        }
        for kind, found in kinds.items()
    ]
