"""How the large weights of an ONNX graph are stored: as they are, or in fewer bits.

Only what is stored is rounded. The graph turns it into float32 again, which a runtime does once, as
it loads; so activations are never rounded.
"""

from collections.abc import Iterator

import numpy as np

from vitbook.extras import from_extra

with from_extra("export"):
    from onnx import ModelProto, TensorProto, helper, numpy_helper

# Smaller tensors (biases, norms, a class token) stay as they are: they weigh next to nothing.
LARGE = 1024


def as_float16(graph: ModelProto) -> None:
    """Round each large weight to float16; one that is beyond its range stays as it is."""
    for weight in _large(graph):
        values, name = numpy_helper.to_array(weight), weight.name
        if np.abs(values).max() > np.finfo(np.float16).max:
            continue
        weight.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}:float16"))
        cast = helper.make_node("Cast", [weight.name], [name], to=TensorProto.FLOAT)
        graph.graph.node.insert(0, cast)


def as_int8(graph: ModelProto) -> None:
    """Round each large weight that is multiplied to a multiple of 1/127 of the largest number that
    leads to the same output channel."""
    axes = dict(_output_axes(graph))
    for weight in _large(graph):
        values, name = numpy_helper.to_array(weight), weight.name
        if (axis := axes.get(name)) is None or not np.isfinite(values).all():
            continue
        others = tuple(each for each in range(values.ndim) if each != axis)
        scale = np.abs(values).max(others, keepdims=True) / 127
        scale[scale == 0] = 1
        rounded = np.round(values / scale).astype(np.int8)
        weight.CopyFrom(numpy_helper.from_array(rounded, f"{name}:int8"))
        scales = numpy_helper.from_array(scale.astype(np.float32).ravel(), f"{name}:scale")
        graph.graph.initializer.append(scales)
        given = [weight.name, scales.name]
        scaled = helper.make_node("DequantizeLinear", given, [name], axis=axis)
        graph.graph.node.insert(0, scaled)


STORED = {"float16": as_float16, "int8": as_int8}


def _large(graph: ModelProto) -> list[TensorProto]:
    return [
        weight
        for weight in graph.graph.initializer
        if weight.data_type == TensorProto.FLOAT and np.prod(weight.dims, dtype=int) >= LARGE
    ]


def _output_axes(graph: ModelProto) -> Iterator[tuple[str, int]]:
    """Of each weight that is multiplied: which axis counts the output channels."""
    for node in graph.graph.node:
        if node.op_type == "Conv":
            yield node.input[1], 0
        elif node.op_type == "ConvTranspose":
            yield node.input[1], 1
        elif node.op_type in ("MatMul", "Gemm"):
            flipped = any(each.name == "transB" and each.i for each in node.attribute)
            yield node.input[1], 0 if flipped else 1
