"""A model as files that a page fetches: graphs for its sizes, one set of weights, a manifest.

A page has no disk to keep one file whole, and a cut download should not begin anew: so the weights
lie in pieces, each with its digest, and the graphs, which are small, share them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from vitbook.export.onnx_file import export_onnx
from vitbook.export.page_manifest import (
    MOST_PAGE_BYTES,
    Answers,
    Manifest,
    Output,
    Size,
    piece_of,
    write_page_folder,
)
from vitbook.export.shared_weights import Shared
from vitbook.export.shown_outputs import Shown, outputs_of
from vitbook.export.tracing import ExportError
from vitbook.extras import from_extra
from vitbook.files import check_writable

PIECE_BYTES = 4_000_000
WEIGHTS = "weights"  # the file that the graphs think their weights are in
SHARED = 1024  # smaller initialisers stay in their graph
CHECKED = 1000  # numbers on which a page compares itself with torch


def export_page(
    models: nn.Module | Mapping[int, nn.Module],
    folder: str | Path,
    images: Tensor,
    prepare: Callable[[Tensor], Tensor],
    *,
    name: str,
    about: str = "",
    class_names: Sequence[str] = (),
    answers: Mapping[str, Answers] | None = None,
    map: tuple[str, str] | None = None,
    embedded: str | None = None,
    blocks: Sequence[str] | None = None,
    precision: str = "float16",
) -> dict:
    """Write a model as a folder that the figure ``photo_reader`` takes, and ``vitbook page``.

    Args:
        models: ours or not; or the same model for several sizes, by the side of its images.
        folder: made if it is not there; files of the same names are replaced.
        images: uint8 "images channels side side", the largest of the sizes, on which each graph is
            compared with torch.
        prepare: uint8 images to what the model takes; it becomes a part of the graphs.
        name, about: what it is, and where its weights come from.
        class_names: what each logit means.
        answers: of a model that gives a dict of tensors: which of them are logits.
        map, embedded: as in the manifest.
        blocks: paths of those whose tokens are shown; by default all that the model stacks.
        precision: of the stored weights: float32, float16 or int8.

    Examples:
        >>> import tempfile
        >>> from vitbook import create_model, datasets, export
        >>> model, digits = create_model("vit_micro_patch2_8"), datasets.load("digits", "test")
        >>> manifest = export.export_page(
        ...     model, tempfile.mkdtemp(), digits.images[:2], datasets.normalize, name="mine"
        ... )
        >>> manifest["sizes"]["8"]["grid"], len(manifest["layers"]), manifest["lacks"]
        ([4, 4], 4, ['class names (nobody says what its 10 logits mean)'])

    Returns:
        The manifest, as it is written. What the model lacks is named there, with the reason.

    Raises:
        ExportError: as :func:`~vitbook.export.export_onnx`; images that are not square, or not of
            one or three channels; NaN among what it gives; or more bytes than a page takes.
            Nothing is written.
        UnknownNameError: no such precision.
        OSError: the folder is not writable, or full.
    """
    folder, shared, sizes, files = Path(folder), Shared(WEIGHTS, SHARED), {}, {}
    with from_extra("export"):
        import onnx
    channels, height, width = images.shape[1:]
    if height != width or channels not in (1, 3):
        raise ExportError(
            f"{name} takes {channels} channels of {height}x{width} pixels: a page gives squares of "
            "1 or 3 channels"
        )
    if isinstance(models, nn.Module):
        models = {width: models}
    check_writable(folder)
    for side, model in models.items():
        shown = Shown(model, prepare, picture := pattern(channels, side), blocks)
        with TemporaryDirectory() as temporary:
            exported = export_onnx(
                model, Path(temporary) / "model.onnx", _scaled(images, side), prepare,
                attention=shown.watched.attention, tokens=shown.watched.blocks,
                precision=precision, free_batch=False, about={"model": name, "weights": about},
            )  # fmt: skip
            graph = onnx.load(exported.path)
        shared.move(graph)
        wanted = outputs_of(shown.watched, picture)
        logits = answers or shown.answers(wanted, class_names)
        for output, each in wanted.items():
            if not (each.isfinite().all() and math.isfinite(exported.errors[output])):
                raise ExportError(
                    f"{name} gives NaN or infinity in {output}: a page shows finite numbers; look "
                    "at its weights, or export an earlier checkpoint"
                )
        kind = next(iter(logits.values())).output if logits else next(iter(wanted))
        numbers = wanted[kind].flatten()[:CHECKED].tolist()
        files[file := f"{side}.onnx"] = graph.SerializeToString()
        sizes[str(side)] = Size(
            piece_of(file, files[file]), shown.grid,
            {output: Output(list(each.shape), exported.errors[output])
             for output, each in wanted.items()},
            (kind, [float(f"{number:.6g}") for number in numbers]),
        )  # fmt: skip
    content = shared.content
    if (most := len(content) + sum(len(each) for each in files.values())) > MOST_PAGE_BYTES:
        raise ExportError(
            f"{name} has {most / 1e6:.1f} MB in {precision}, a page takes "
            f"{MOST_PAGE_BYTES / 1e6:.1f} MB: store it in int8, or choose a smaller model"
        )
    cut = {
        f"{WEIGHTS}-{i:02}.bin": bytes(content[at : at + PIECE_BYTES])
        for i, at in enumerate(range(0, len(content), PIECE_BYTES))
    }
    pieces = [piece_of(file, part) for file, part in cut.items()]
    return write_page_folder(folder, Manifest(
        name, about, precision, channels, shown.prefix, sizes, WEIGHTS, pieces, shown.layers,
        dict(logits), shown.lacks, map, embedded,
    ), files | cut)  # fmt: skip


def pattern(channels: int, side: int) -> Tensor:
    """The picture on which a page compares itself with torch: folds that run across each channel.

    Returns:
        uint8 "1 channels side side", the same to a bit as ``patternOf`` of ``photo_manifest.js``.
    """
    at = torch.arange(side)
    colors = torch.arange(channels)[:, None, None]
    wave = (at * (colors + 1) + at[:, None] * (3 - colors)) * 512 // side % 512
    return torch.minimum(wave, 511 - wave)[None].to(torch.uint8)


def _scaled(images: Tensor, side: int) -> Tensor:
    if images.shape[-1] == side:
        return images
    scaled = nn.functional.interpolate(
        images.float(), size=(side, side), mode="bilinear", antialias=True
    )
    return scaled.round().to(torch.uint8)
