"""A model as one ONNX file, compared with torch before it is kept."""

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitbook.analysis import capture_attention, list_blocks
from vitbook.analysis.outputs import capture_outputs
from vitbook.errors import UnknownNameError
from vitbook.extras import from_extra
from vitbook.files import check_file_writable, write_atomically
from vitbook.modes import evaluating

# The input, and the output that is always there.
PIXELS, ANSWER = "pixels", "answer"

# How far an output may be from torch's, as a share of its largest number. What 8 bits cost depends
# on the model: it is measured, and not bounded.
TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "int8": math.inf}

# A protocol buffer, which an ONNX file is, holds no more.
MOST_BYTES = 2**31 - 1


class ExportError(ValueError):
    """A model that cannot become an ONNX file, or whose file computes something else."""


@dataclass(frozen=True)
class Exported:
    """A file, and how far it is from its model.

    Attributes:
        path: of the file.
        num_bytes: its size.
        errors: output -> its largest difference to torch's over all images, as a share of the
            largest number that torch gives there for the same image.
    """

    path: Path
    num_bytes: int
    errors: Mapping[str, float]


def export_onnx(
    model: nn.Module,
    path: str | Path,
    images: Tensor,
    prepare: Callable[[Tensor], Tensor],
    *,
    attention: bool = False,
    tokens: bool = False,
    precision: str = "float32",
    about: Mapping[str, str] | None = None,
) -> Exported:
    """Write what a model computes of one image as an ONNX file, if the file computes the same.

    The file takes ``pixels``, uint8 "1 channels height width" of the size of ``images``, and gives
    ``answer``, which is ``model(prepare(pixels))``; of a model that gives a dict of tensors, each
    as ``answer:KEY``.

    Args:
        model: ours or not, in any mode; the file evaluates.
        path: of the file.
        images: uint8 "images channels height width", on which the file is compared with torch.
        prepare: uint8 images to what the model takes; it becomes a part of the file.
        attention: give out each attention too, "1 heads queries keys", as ``attention:PATH``: what
            :func:`~vitbook.analysis.capture_attention` sees.
        tokens: give out what each block gives, as ``tokens:PATH``.
        precision: of the stored weights: float32, float16, or int8 with one scale for each output
            channel. They are computed with as float32.
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
        ExportError: the model cannot be traced, does not give tensors, is not of float32 or
            larger than 2 GB, or its file differs by more than 10^-4 of an output's largest number
            (float16: 10^-2); nothing is written.
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
    name = type(model).__name__
    num_bytes = sum(each.nbytes for each in (*model.parameters(), *model.buffers()))
    if num_bytes > MOST_BYTES:
        raise ExportError(f"{name} has {num_bytes / 1e9:.1f} GB of weights: a file holds 2 GB")
    others = {each.dtype for each in model.parameters()} - {torch.float32}
    if others:
        raise ExportError(f"{name} has weights of {others.pop()}: call its float() first")
    check_file_writable(path)
    with from_extra("export"):
        import onnxscript  # noqa: F401  torch would ask for it in words of its own

        from vitbook.export.stored_weights import STORED
    watched = _Watched(model, prepare, attention=attention, tokens=tokens)
    # With other kernels an attention with a bias is one operation that ONNX does not know.
    with evaluating(watched), torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        try:
            expected = [watched(image[None]) for image in images]
        except RuntimeError as error:
            raise ExportError(f"{name} does not run as asked: {error}") from error
        graph = _traced(watched, images[:1], list(expected[0]))
    STORED[precision](graph)
    for key, value in (about or {}).items():
        graph.metadata_props.add(key=key, value=value)
    content = graph.SerializeToString()
    errors = _differences(content, images, expected)
    worst = max(errors, key=errors.__getitem__)
    if errors[worst] > TOLERANCES[precision]:
        raise ExportError(
            f"the file's {worst} is {errors[worst]:.2g} of its largest number away from torch's, "
            f"expected at most {TOLERANCES[precision]:g} for {precision}: nothing was written"
        )
    return Exported(write_atomically(path, content), len(content), errors)


class _Watched(nn.Module):
    """A model that gives out all that is asked for, by name."""

    def __init__(self, model: nn.Module, prepare: Callable, *, attention: bool, tokens: bool):
        super().__init__()
        self.model, self.prepare, self.attention = model, prepare, attention
        self.blocks = list_blocks(model) if tokens else ()
        if tokens and not self.blocks:
            raise ExportError(f"{type(model).__name__} stacks no blocks: leave tokens out")

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        maps, blocks = {}, {}
        with ExitStack() as stack:
            if self.attention:
                maps = stack.enter_context(capture_attention(self.model))
            if self.blocks:
                blocks = stack.enter_context(
                    capture_outputs(self.model, self.blocks, lambda path, output: output)
                )
            answers = self._by_name(self.model(self.prepare(pixels)))
        return {
            **answers,
            **{f"tokens:{path}": each for path, each in blocks.items()},
            **{f"attention:{path}": each for path, each in maps.items()},
        }

    def _by_name(self, given: object) -> dict[str, Tensor]:
        if isinstance(given, Tensor):
            return {ANSWER: given}
        parts = given if isinstance(given, dict) else {}
        if not parts or not all(isinstance(each, Tensor) for each in parts.values()):
            raise ExportError(
                f"{type(self.model).__name__} gives a {type(given).__name__}: expected one tensor, "
                "or a dict of tensors; wrap it in a module that returns what you want"
            )
        return {f"{ANSWER}:{name}": each for name, each in parts.items()}


class _Values(nn.Module):
    """Of the outputs by name a tuple, whose parts the exporter can name."""

    def __init__(self, watched: _Watched):
        super().__init__()
        self.watched = watched

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.watched(pixels).values())


def _traced(watched: _Watched, example: Tensor, names: list[str]):
    try:
        program = torch.onnx.export(
            _Values(watched).eval(), (example,), dynamo=True, verbose=False,
            input_names=[PIXELS], output_names=names,
        )  # fmt: skip
    except RuntimeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        told = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise ExportError(f"{type(watched.model).__name__} cannot be traced: {told}") from error
    graph = program.model_proto
    for each in (*graph.graph.node, *graph.graph.value_info, *graph.graph.output):
        each.ClearField("metadata_props")  # the lines, and the folders, that it was traced in
        each.ClearField("doc_string")
    return graph


def _differences(
    content: bytes, images: Tensor, expected: list[dict[str, Tensor]]
) -> dict[str, float]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    except Exception as error:  # its own have no common kind
        raise ExportError(f"onnxruntime refuses the file: {error}") from error
    names = list(expected[0])
    errors = dict.fromkeys(names, 0.0)
    for image, wanted in zip(images, expected, strict=True):
        given = session.run(names, {PIXELS: image[None].numpy()})
        for name, found in zip(names, map(torch.from_numpy, given), strict=True):
            errors[name] = max(errors[name], _difference(found, wanted[name]))
    return errors


def _difference(found: Tensor, wanted: Tensor) -> float:
    """NaN beside NaN is the same; NaN beside a number is as far as can be."""
    if found.shape != wanted.shape or not torch.equal(found.isfinite(), wanted.isfinite()):
        return math.inf
    whole = wanted.isfinite()
    if not whole.any():
        return 0.0
    largest = wanted[whole].abs().max().item()
    return (found - wanted)[whole].abs().max().item() / (largest or 1.0)
