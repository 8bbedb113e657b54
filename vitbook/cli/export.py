"""``vitbook export``: a model as a file that runs without torch."""

from pathlib import Path
from typing import Annotated

import torch
import typer

import vitbook
from vitbook.cli.options import AnyModel, Pretrained, Threads
from vitbook.cli.probed_model import ProbedModel, load_probed_model, read_images
from vitbook.devices import set_threads
from vitbook.export import export_onnx, export_page
from vitbook.runs.tables import print_table
from vitbook.training.asked import stem


def export(
    model: AnyModel = "vit_small_patch14_focus",
    out: Annotated[
        Path | None, typer.Option(help="The file; by default the model's name with .onnx.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            help="In place of a file, a folder that the book's photograph page and `vitbook page` "
            "take: with attention, tokens, class names and hashes."
        ),
    ] = None,
    attention: Annotated[
        bool, typer.Option("--attention", help="Give out the map of each attention too.")
    ] = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Give out the tokens behind each block too.")
    ] = False,
    precision: Annotated[
        str | None,
        typer.Option(
            help="Of the stored weights: float32, float16 or int8; by default float32, of a page "
            "float16."
        ),
    ] = None,
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
    if page is not None and (out is not None or attention or tokens):
        raise ValueError(
            "--page gives out what a page shows: leave --out, --attention and --tokens out"
        )
    set_threads(threads)
    probed = load_probed_model(model, pretrained)
    given, skipped, _ = read_images(images, probed.size, probed.channels)
    for name, why in skipped.items():
        typer.echo(f"skipped {name}: {why}")
    pictures = torch.stack(list(given.values()))
    if page is not None:
        _write_page(probed, page, pictures, precision or "float16", free_size)
        return
    path = out or Path(f"{stem(model).removeprefix('timm:')}.onnx")
    found = export_onnx(
        probed.model, path, pictures, probed.prepare,
        attention=attention, tokens=tokens, precision=precision or "float32", free_size=free_size,
        about={"model": probed.name, "weights": probed.weights, "vitbook": vitbook.__version__},
    )  # fmt: skip
    print_table(_lines(found.errors))
    alone = ", one image at a time" if found.shape[0] == 1 else ", any number of images at a time"
    typer.echo(
        f"wrote {found.path}, {found.num_bytes / 1e6:.1f} MB, compared with torch on {len(given)} "
        f"images{alone}"
    )


def _write_page(
    probed: ProbedModel, folder: Path, images: torch.Tensor, precision: str, free_size: bool
) -> None:
    manifest = export_page(
        probed.model, folder, images, probed.prepare, name=stem(probed.name),
        about=probed.weights, class_names=probed.class_names, precision=precision,
        free_size=free_size,
    )  # fmt: skip
    size = next(iter(manifest["sizes"].values()))
    print_table(_lines({name: each["error"] for name, each in size["outputs"].items()}))
    for lack in manifest["lacks"]:
        typer.echo(f"left out: {lack}")
    megabytes = sum(piece["bytes"] for piece in manifest["pieces"]) / 1e6
    typer.echo(
        f"wrote {folder}, {megabytes:.1f} MB, compared with torch on {len(images)} images: "
        f"`vitbook page {folder}` makes one file of it"
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
