"""What a model gives out, traced into an ONNX graph."""

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from operator import mod
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from vitbook.analysis import capture_attention, list_blocks
from vitbook.analysis.capture.outputs import capture_outputs

if TYPE_CHECKING:
    from onnx import ModelProto

# The input and the output that is always there, and what a graph calls the number of images.
PIXELS, ANSWER, BATCH = "pixels", "answer", "batch"

# What it calls their height and width, and at which axis each stands.
SIZE = ("height", "width")
CUTTERS = ("tokenizer", "patch_embed")  # what ours and timm's call the part that cuts patches
AXES = {BATCH: 0, "height": 2, "width": 3}


class ExportError(ValueError):
    """A model that cannot become an ONNX file, or whose file computes something else."""


class Watched(nn.Module):
    """A model that gives out all that is asked for, by name."""

    def __init__(
        self,
        model: nn.Module,
        prepare: Callable,
        *,
        attention: bool | Collection[str],
        tokens: bool | Collection[str],
        steps: tuple[int, int] = (1, 1),
    ):
        super().__init__()
        self.steps = steps
        self.model, self.prepare, self.attention = model, prepare, attention
        self.blocks = list_blocks(model) if tokens is True else tuple(tokens or ())
        if tokens is True and not self.blocks:
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
            answers = self._by_name(self.model(self.prepare(self._whole(pixels))))
        return {
            **answers,
            **{f"tokens:{path}": each for path, each in blocks.items()},
            **{
                f"attention:{path}": each
                for path, each in maps.items()
                if self.attention is True or path in self.attention
            },
        }

    def _whole(self, pixels: Tensor) -> Tensor:
        """As they are; a graph's reshape fails on sides that are no multiple of the steps."""
        for axis, step in zip((2, 3), self.steps, strict=True):
            if step > 1:
                pixels = pixels.unflatten(axis, (-1, step)).flatten(axis, axis + 1)
        return pixels

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

    def __init__(self, watched: Watched):
        super().__init__()
        self.watched = watched

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.watched(pixels).values())


def steps_of(model: nn.Module, size: Sequence[int]) -> tuple[int, int]:
    """Pixels, down and across, of which a side is a multiple; (1, 1) if unknown.

    Args:
        size: height and width of images that the model takes: one that pads them has no steps.
    """
    named = (getattr(part, name, None) for part in model.modules() for name in CUTTERS)
    cutter = next((part for part in named if part is not None), model)
    step = getattr(cutter, "patch", None) or getattr(cutter, "patch_size", 1)
    steps = tuple(step) if isinstance(step, tuple | list) else (step, step)
    right = len(steps) == 2 and all(isinstance(each, int) for each in steps)
    return steps if right and not any(map(mod, size, steps)) else (1, 1)


def traced_graph(
    watched: Watched, example: Tensor, names: list[str], free: Sequence[str]
) -> "ModelProto":
    """The graph, in which those of ``AXES`` that are ``free`` may have any length.

    Raises:
        ExportError: the model cannot be traced, or computes with a length that should be free.
    """
    traced: nn.Module | torch.export.ExportedProgram = _Values(watched).eval()
    name = type(watched.model).__name__
    try:
        if free:
            axes = {AXES[each]: torch.export.Dim.AUTO for each in free}
            traced = torch.export.export(traced, (example,), dynamic_shapes=(axes,), strict=False)
            (pixels,) = (n for n in traced.graph.nodes if n.name == PIXELS)
            shape = pixels.meta["val"].shape
            if fixed := [each for each in free if str(shape[AXES[each]]).isdigit()]:
                raise ExportError(f"{name} computes with the {', '.join(fixed)} of images")
        program = torch.onnx.export(
            traced, (example,), dynamo=True, verbose=False, input_names=[PIXELS],
            output_names=names,
        )  # fmt: skip
    except ExportError:
        raise
    except Exception as error:  # of whatever kind: it is the model's
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        told = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise ExportError(f"{name} cannot be traced: {told}") from error
    graph = program.model_proto
    for each in (*graph.graph.node, *graph.graph.value_info, *graph.graph.output):
        each.ClearField("metadata_props")  # the lines, and the folders, that it was traced in
        each.ClearField("doc_string")
    told = shape_of(graph)
    for each in (*graph.graph.input, *graph.graph.value_info, *graph.graph.output):
        for dim in each.type.tensor_type.shape.dim:
            for axis in free if dim.dim_param else ():
                dim.dim_param = re.sub(rf"\b{told[AXES[axis]]}\b", axis, dim.dim_param)
    return graph


def shape_of(graph: "ModelProto") -> tuple[int | str, ...]:
    """Of the pixels that a graph takes."""
    dims = graph.graph.input[0].type.tensor_type.shape.dim
    return tuple(dim.dim_param or dim.dim_value for dim in dims)
