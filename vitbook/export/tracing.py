"""What a model gives out, traced into an ONNX graph."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from vitbook.analysis import capture_attention, list_blocks
from vitbook.analysis.outputs import capture_outputs

if TYPE_CHECKING:
    from onnx import ModelProto

# The input and the output that is always there, and what a graph calls the number of images.
PIXELS, ANSWER, BATCH = "pixels", "answer", "batch"


class ExportError(ValueError):
    """A model that cannot become an ONNX file, or whose file computes something else."""


class Watched(nn.Module):
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

    def __init__(self, watched: Watched):
        super().__init__()
        self.watched = watched

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.watched(pixels).values())


def traced_graph(watched: Watched, example: Tensor, names: list[str], free_batch: bool):
    """The graph; None where the batch should be free and the model computes with its number."""
    traced: nn.Module | torch.export.ExportedProgram = _Values(watched).eval()
    if free_batch:
        try:
            traced = torch.export.export(
                traced, (example,), dynamic_shapes=({0: torch.export.Dim.AUTO},), strict=False
            )
        except Exception:  # of whatever kind: for one image it is told, if it comes again
            return None
        if not traced.range_constraints:  # nothing is open any more
            return None
    try:
        program = torch.onnx.export(
            traced, (example,), dynamo=True, verbose=False, input_names=[PIXELS],
            output_names=names,
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
    number = shape_of(graph)[0]
    for each in (*graph.graph.input, *graph.graph.value_info, *graph.graph.output):
        for dim in each.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = re.sub(rf"\b{number}\b", BATCH, dim.dim_param)
    return graph


def shape_of(graph: "ModelProto") -> tuple[int | str, ...]:
    """Of the pixels that a graph takes."""
    dims = graph.graph.input[0].type.tensor_type.shape.dim
    return tuple(dim.dim_param or dim.dim_value for dim in dims)
