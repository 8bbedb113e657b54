"""A model as files that a page fetches: a graph, its weights, a manifest.

A page has no disk to keep one file whole, and a cut download should not begin anew: so the weights
lie in pieces, each with its digest, and the graph, which is small, beside them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from vitbook.export.any_size import any_size
from vitbook.export.onnx_file import check_weights, export_onnx
from vitbook.export.page_manifest import (
    MOST_PAGE_BYTES,
    MOST_SIDE,
    Answers,
    Manifest,
    Output,
    Size,
    piece_of,
    write_page_folder,
)
from vitbook.export.shared_weights import Shared
from vitbook.export.shown_outputs import Shown
from vitbook.export.tracing import ExportError, steps_of
from vitbook.extras import from_extra
from vitbook.files import check_writable
from vitbook.measure import count_macs
from vitbook.model_utilities import evaluating

PIECE_BYTES = 4_000_000
GRAPH, WEIGHTS = "graph.onnx", "weights"  # the file that the graph thinks its weights are in
SHARED = 1024  # smaller initialisers stay in the graph
SHARES, SHAPES = (1, 3 / 4, 1 / 2), (1, 4 / 3, 3 / 2, 16 / 9)  # of a side; longer over shorter one
CHECKED = 200  # numbers on which a page compares itself with torch


def export_page(
    model: nn.Module,
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
    free_size: bool = False,
    precision: str = "float16",
) -> dict:
    """Write a model as a folder that the figure ``photo_reader`` takes, and ``vitbook page``.

    Args:
        model: ours or not.
        folder: made if it is not there; files of the same names are replaced.
        images: uint8 "images channels height width", on which the graph is compared with torch.
        prepare: uint8 images to what the model takes; it becomes a part of the graph.
        name, about: what it is, and where its weights come from.
        class_names: what each logit means.
        answers: of a model that gives a dict of tensors: which of them are logits.
        map, embedded: as in the manifest.
        blocks: paths of those whose tokens are shown; by default all that the model stacks.
        free_size: offer other shapes and smaller images too, of a model that takes any size (see
            :func:`~vitbook.export.export_onnx`); by default the size of ``images`` alone.
        precision: of the stored weights: float32, float16 or int8.

    Examples:
        >>> import tempfile
        >>> from vitbook import create_model, datasets, export
        >>> model, digits = create_model("vit_micro_patch2_8"), datasets.load("digits", "test")
        >>> manifest = export.export_page(
        ...     model, tempfile.mkdtemp(), digits.images[:2], datasets.normalize, name="mine"
        ... )
        >>> manifest["sizes"]["8x8"]["grid"], len(manifest["layers"]), manifest["lacks"]
        ([4, 4], 4, ['class names (nobody says what its 10 logits mean)'])

    Returns:
        The manifest, as it is written. What the model lacks is named there, with the reason.

    Raises:
        ExportError: as :func:`~vitbook.export.export_onnx`; images not of one or three channels;
            NaN among what it gives; or more bytes than a page takes. Nothing is written.
        UnknownNameError: no such precision.
        OSError: the folder is not writable, or full.
    """
    folder, shared = Path(folder), Shared(WEIGHTS, SHARED)
    with from_extra("export"):
        import onnx
    channels, own = images.shape[1], tuple(images.shape[2:])
    if channels not in (1, 3):
        raise ExportError(f"{name} takes {channels} channels: a page gives 1 or 3")
    check_weights(model)
    check_writable(folder)
    shown = Shown(model, prepare, pattern(channels, *own), blocks)
    with TemporaryDirectory() as temporary:
        exported = export_onnx(
            model, Path(temporary) / GRAPH, images, prepare,
            attention=shown.watched.attention, tokens=shown.watched.blocks,
            precision=precision, free_batch=False, free_size=free_size,
            about={"model": name, "weights": about},
        )  # fmt: skip
        graph = onnx.load(exported.path)
    shared.move(graph)
    written, content = graph.SerializeToString(), shared.content
    cut = {
        f"{WEIGHTS}-{i:02}.bin": bytes(content[at : at + PIECE_BYTES])
        for i, at in enumerate(range(0, len(content), PIECE_BYTES))
    }
    whole, pieces = piece_of(GRAPH, written), [piece_of(*each) for each in cut.items()]
    with any_size(model if free_size else nn.Module()), evaluating(model), torch.no_grad():
        seen = shown.watched(pattern(channels, *own))
        if answers is None:
            answers = shown.answers(seen, class_names)
        if (most := len(content) + len(written)) > MOST_PAGE_BYTES:
            raise ExportError(
                f"{name} has {most / 1e6:.1f} MB in {precision}, a page takes "
                f"{MOST_PAGE_BYTES / 1e6:.1f} MB: store it in int8, or choose a smaller model"
            )
        checked = next(iter(answers.values())).output if answers else next(iter(seen))

        def told(size: tuple[int, int]) -> Manifest:
            about_size = _size(name, shown, exported.errors, checked, pattern(channels, *size), own)
            return Manifest(
                name, about, precision, channels, shown.prefix, whole,
                {"{}x{}".format(*size): about_size}, WEIGHTS, pieces, shown.layers, dict(answers),
                shown.lacks, map, embedded,
            )  # fmt: skip

        manifest = told(own)
        for size in offered_sizes(own, _step(shown, own)) if free_size else ():
            if size == own:
                continue
            # What is offered, and not asked for, is left out where the model does not take it.
            with suppress(RuntimeError, ValueError):
                manifest = replace(manifest, sizes=told(size).sizes | manifest.sizes)
    sizes = dict(reversed(manifest.sizes.items()))  # its own size first
    return write_page_folder(folder, replace(manifest, sizes=sizes), {GRAPH: written} | cut)


def _size(
    name: str,
    shown: Shown,
    errors: Mapping[str, float],
    checked: str,
    picture: Tensor,
    own: tuple[int, int],
) -> Size:
    """What is for images as large as the picture.

    Args:
        errors: of the graph, by output.
        checked: the output on which a page compares itself with torch.
        own: the size of the images for which ``shown`` found the grid.
    """
    outputs = shown.watched(picture)
    for output, each in outputs.items():
        if not (each.isfinite().all() and math.isfinite(errors[output])):
            raise ExportError(
                f"{name} gives NaN or infinity in {output}: a page shows finite numbers; "
                "look at its weights, or export an earlier checkpoint"
            )
    sides = zip(picture.shape[2:], own, shown.grid or (), strict=False)
    numbers = outputs[checked].flatten()[:CHECKED].tolist()
    return Size(
        [side * patches // whole for side, whole, patches in sides] or None,
        count_macs(shown.watched.model, shown.watched.prepare(picture)),
        {output: Output(list(each.shape), errors[output]) for output, each in outputs.items()},
        (checked, [float(f"{number:.6g}") for number in numbers]),
    )


def _step(shown: Shown, own: tuple[int, int]) -> tuple[int, int]:
    """Pixels that a patch steps."""
    if shown.grid is None:
        return steps_of(shown.watched.model, own)
    return own[0] // shown.grid[0], own[1] // shown.grid[1]


def offered_sizes(own: tuple[int, int], step: tuple[int, int]) -> list[tuple[int, int]]:
    """Heights and widths of about as many pixels, and of 9/16 and a quarter of them."""
    sizes = {}
    for share in SHARES:
        for shape in SHAPES:
            short, long = (share * math.sqrt(own[0] * own[1] * each) for each in (1 / shape, shape))
            for sides in ((short, long), (long, short)):
                size = tuple(
                    max(1, round(side / each)) * each
                    for side, each in zip(sides, step, strict=True)
                )
                if max(size) <= MOST_SIDE:
                    sizes[size] = None
    return list(sizes)


def pattern(channels: int, height: int, width: int) -> Tensor:
    """The picture on which a page compares itself with torch: folds that run across each channel.

    Returns:
        uint8 "1 channels height width", the same to a bit as ``patternOf`` of
        ``photo_manifest.js``.
    """
    x, y = torch.arange(width) * 512, torch.arange(height)[:, None] * 512
    colors = torch.arange(channels)[:, None, None]
    wave = (x * (colors + 1) // width + y * (3 - colors) // height) % 512
    return torch.minimum(wave, 511 - wave)[None].to(torch.uint8)
