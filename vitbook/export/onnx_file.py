"""A model as one ONNX file, compared with torch before it is kept."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitbook.errors import UnknownNameError
from vitbook.export.any_size import any_size
from vitbook.export.tracing import (
    BATCH,
    PIXELS,
    SIZE,
    ExportError,
    Watched,
    shape_of,
    steps_of,
    traced_graph,
)  # fmt: skip
from vitbook.extras import from_extra
from vitbook.files import check_file_writable, write_atomically
from vitbook.model_utilities import evaluating

if TYPE_CHECKING:
    from onnx import ModelProto

# How many images are compared with torch at a time, besides each alone.
BATCHES = (2, 5)

# How far an output may be from torch's, as a share of its largest number. What 8 bits cost depends
# on the model: it is measured, and not bounded.
TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "int8": math.inf}

# A protocol buffer, which an ONNX file is, holds no more.
MOST_BYTES = 2**31 - 1


@dataclass(frozen=True)
class Exported:
    """A file, and how far it is from its model.

    Attributes:
        path: of the file.
        num_bytes: its size.
        errors: output -> its largest difference to torch's over all images, as a share of the
            largest number that torch gives there for the same image.
        shape: of the pixels that it takes: ("batch", 3, 224, 224), or (1, 3, 224, 224) of a model
            that computes with the number of images.
    """

    path: Path
    num_bytes: int
    errors: Mapping[str, float]
    shape: tuple[int | str, ...]


def export_onnx(
    model: nn.Module,
    path: str | Path,
    images: Tensor,
    prepare: Callable[[Tensor], Tensor],
    *,
    attention: bool | Collection[str] = False,
    tokens: bool | Collection[str] = False,
    precision: str = "float32",
    free_batch: bool = True,
    free_size: bool = False,
    about: Mapping[str, str] | None = None,
) -> Exported:
    """Write what a model computes of images as an ONNX file, if the file computes the same.

    The file takes ``pixels``, uint8 "batch channels height width" of the size of ``images``, and
    gives ``answer``, which is ``model(prepare(pixels))``; of a model that gives a dict of tensors,
    each as ``answer:KEY``. It is compared with torch image by image, and in batches of 2 and 5.

    Args:
        model: ours or not, in any mode; the file evaluates.
        path: of the file.
        images: uint8 "images channels height width", on which the file is compared with torch.
        prepare: uint8 images to what the model takes; it becomes a part of the file.
        attention: give out each attention too, "batch heads queries keys", as ``attention:PATH``:
            what :func:`~vitbook.analysis.capture_attention` sees; or those of these paths.
        tokens: give out what each block gives, as ``tokens:PATH``; or those of these paths.
        precision: of the stored weights: float32, float16, or int8 with one scale for each output
            channel. They are computed with as float32.
        free_batch: take any number of images; else one, as does the file of a model that computes
            with their number, which ``shape`` of what comes back tells.
        free_size: take images of any height and width that the patches divide; the file fails on
            others. A third comparison is with an image twice as high. A learned table of positions
            is resized in the file ("timm_bicubic"). A model with places of another kind, or with
            layers as wide as its tokens are many, has one size.
        about: what to write into the file's metadata.

    Examples:
        >>> import tempfile
        >>> from vitbook import create_model, datasets, export
        >>> model = create_model("vit_micro_patch2_8", num_classes=10)
        >>> digits, folder = datasets.load("digits", "test"), tempfile.mkdtemp()
        >>> file = export.export_onnx(
        ...     model, f"{folder}/vit.onnx", digits.images[:2], datasets.normalize, attention=True
        ... )
        >>> [name for name in file.errors][:2]
        ['answer', 'attention:encoder.blocks.0.attention.core']
        >>> max(file.errors.values()) < 1e-4
        True

    Raises:
        ExportError: the model cannot be traced, does not give tensors, is not of float32, larger
            than 2 GB, or of one size where ``free_size`` asks for any; or its file differs by more
            than 10^-4 of an output's largest number (float16: 10^-2). Nothing is written.
        UnknownNameError: no such precision.
        ValueError: no images, or not of uint8.
        OSError: the file cannot be written.
    """
    if precision not in TOLERANCES:
        raise UnknownNameError("precision", precision, TOLERANCES)
    if images.dtype != torch.uint8 or images.ndim != 4 or not len(images):
        raise ValueError(
            f"{images.dtype} images of shape {tuple(images.shape)} came: expected at least one, as "
            'uint8 "images channels height width", to compare the file with torch'
        )
    check_weights(model)
    check_file_writable(path)
    with from_extra("export"):
        import onnxscript  # noqa: F401  torch would ask for it in words of its own
    steps = steps_of(model, images.shape[2:]) if free_size else (1, 1)
    watched = Watched(model, prepare, attention=attention, tokens=tokens, steps=steps)
    free = (BATCH,) * free_batch + SIZE * free_size
    # With other kernels an attention with a bias is one operation that ONNX does not know.
    with (
        evaluating(watched),
        torch.no_grad(),
        sdpa_kernel(SDPBackend.MATH),
        any_size(model if free_size else nn.Module()),
    ):
        pairs = _asked(watched, images, free)
        try:
            graph, errors = _compared(watched, pairs, free, precision, about or {})
        except ExportError:
            if not free_batch:
                raise
            # A model may compute with the number of images: then the file takes one.
            free, alone = free[1:], [(each, given) for each, given in pairs if len(each) == 1]
            graph, errors = _compared(watched, alone, free, precision, about or {})
    content = graph.SerializeToString()
    return Exported(write_atomically(path, content), len(content), errors, shape_of(graph))


def check_weights(model: nn.Module) -> None:
    """Refuse weights that a file does not hold."""
    name = type(model).__name__
    num_bytes = sum(each.nbytes for each in (*model.parameters(), *model.buffers()))
    if num_bytes > MOST_BYTES:
        raise ExportError(f"{name} has {num_bytes / 1e9:.1f} GB of weights: a file holds 2 GB")
    others = {each.dtype for each in model.parameters()} - {torch.float32}
    if others:
        raise ExportError(f"{name} has weights of {others.pop()}: call its float() first")


def _asked(
    watched: Watched, images: Tensor, free: Sequence[str]
) -> list[tuple[Tensor, dict[str, Tensor]]]:
    """Batches on which file and torch are compared, and what torch gives."""
    name, (height, width) = type(watched.model).__name__, images.shape[2:]
    batches = list(images[:, None])
    if BATCH in free:
        batches += [_batch(images, number) for number in BATCHES]
    try:
        pairs = [(each, watched(each)) for each in batches]
    except RuntimeError as error:
        raise ExportError(f"{name} does not run as asked: {error}") from error
    if free[-2:] == SIZE:
        tall = images[:1].repeat_interleave(2, 2)
        try:
            pairs.append((tall, watched(tall)))
        except Exception as error:  # as the model likes
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ExportError(
                f"{name} takes images of {height}x{width} alone, not of {2 * height}x{width} "
                f"({reason}): leave the size fixed, or build the model for another"
            ) from error
    return pairs


def _compared(
    watched: Watched,
    pairs: list[tuple[Tensor, dict[str, Tensor]]],
    free: Sequence[str],
    precision: str,
    about: Mapping[str, str],
) -> tuple["ModelProto", dict[str, float]]:
    """The graph, and how far what it computes is from torch."""
    from vitbook.export.stored_weights import STORED

    example = pairs[0][0]
    # Of one image, or of one row of patches, a trace would not know that there may be more.
    if BATCH in free:
        example = example.expand(2, -1, -1, -1).contiguous()
    for axis, step in zip((2, 3), watched.steps, strict=True):
        if free[-2:] == SIZE and example.shape[axis] == step:
            example = example.repeat_interleave(2, axis)
    graph = traced_graph(watched, example, list(pairs[0][1]), free)
    if precision in STORED:
        STORED[precision](graph)
    for key, value in about.items():
        graph.metadata_props.add(key=key, value=value)
    errors = _differences(graph.SerializeToString(), pairs)
    worst = max(errors, key=errors.__getitem__)
    if errors[worst] > TOLERANCES[precision]:
        raise ExportError(
            f"the file's {worst} is {errors[worst]:.2g} of its largest number away from torch's, "
            f"expected at most {TOLERANCES[precision]:g} for {precision}: nothing was written"
        )
    return graph, errors


def _batch(images: Tensor, number: int) -> Tensor:
    """So many of the images, again from the first where they are fewer."""
    return images[torch.arange(number) % len(images)]


def _differences(content: bytes, pairs: list[tuple[Tensor, dict[str, Tensor]]]) -> dict[str, float]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    except Exception as error:  # its own have no common kind
        raise ExportError(f"onnxruntime refuses the file: {error}") from error
    names = list(pairs[0][1])
    errors = dict.fromkeys(names, 0.0)
    for images, wanted in pairs:
        try:
            given = session.run(names, {PIXELS: images.numpy()})
        except Exception as error:
            shape = tuple(images.shape)
            raise ExportError(f"onnxruntime fails on pixels of {shape}: {error}") from error
        for name, found in zip(names, map(torch.from_numpy, given), strict=True):
            errors[name] = max(errors[name], _difference(found, wanted[name], len(images)))
    return errors


def _difference(found: Tensor, wanted: Tensor, number: int = 1) -> float:
    """Of a number of images; NaN beside NaN is the same, beside a number as far as can be."""
    if number > 1 and found.ndim and len(found) == len(wanted) == number:
        return max(map(_difference, found, wanted))
    if found.shape != wanted.shape or not torch.equal(found.isfinite(), wanted.isfinite()):
        return math.inf
    whole = wanted.isfinite()
    if not whole.any():
        return 0.0
    largest = wanted[whole].abs().max().item()
    return (found - wanted)[whole].abs().max().item() / (largest or 1.0)
