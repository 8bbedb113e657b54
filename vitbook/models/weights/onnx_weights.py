"""The numbers of an ONNX file, read without the package onnx; nothing of the file is run.

The package brings protobuf, and a newer one than other packages may bear: Colab's tensorflow.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

# Numbers of the fields that are read, by onnx.proto.
GRAPH = 7  # of a model
NODES, INITIALIZERS = 1, 5  # of a graph
INPUTS, NODE_NAME, OPERATION = 1, 3, 4  # of a node
SIZES, KIND, TENSOR_NAME, RAW = 1, 2, 8, 9  # of a tensor
FLOAT = 1  # its kind


class Node(NamedTuple):
    """An operation of the graph, and the names of what goes into it."""

    operation: str
    name: str
    inputs: tuple[str, ...]


def read(path: Path) -> tuple[dict[str, Tensor], list[Node]]:
    """The float32 weights that lie in the file, by their names, and the operations in their order.

    Args:
        path: of a file whose hash was compared: a damaged one is not noticed.
    """
    weights, nodes = {}, []
    for graph in _all(memoryview(path.read_bytes()), GRAPH):
        nodes += map(_node, _all(graph, NODES))
        weights |= dict(filter(None, map(_weight, _all(graph, INITIALIZERS))))
    return weights, nodes


def _node(message: memoryview) -> Node:
    texts = {number: [*map(_text, _all(message, number))] for number in (OPERATION, NODE_NAME)}
    inputs = tuple(map(_text, _all(message, INPUTS)))
    return Node("".join(texts[OPERATION]), "".join(texts[NODE_NAME]), inputs)


def _weight(message: memoryview) -> tuple[str, Tensor] | None:
    if [*_all(message, KIND)] != [FLOAT]:
        return None
    (name,), (raw,) = _all(message, TENSOR_NAME), _all(message, RAW)
    return _text(name), torch.frombuffer(bytearray(raw), dtype=torch.float32).view(_sizes(message))


def _sizes(message: memoryview) -> list[int]:
    """One field each, or one that packs them all."""
    sizes = []
    for value in _all(message, SIZES):
        if isinstance(value, int):
            sizes.append(value)
            continue
        at = 0
        while at < len(value):
            size, at = _varint(value, at)
            sizes.append(size)
    return sizes


def _text(value: memoryview) -> str:
    return str(value, "utf-8")


def _all(message: memoryview, wanted: int) -> Iterator[int | memoryview]:
    """The values of one field of a message of protocol buffers."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(message, at)
        else:  # bytes, whose length comes first, or a number of eight or four
            length, at = _varint(message, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = message[at : at + length], at + length
        if number == wanted:
            yield value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A whole number, seven bits a byte from the lowest, and where it ends."""
    value, shift = 0, 0
    while True:
        byte, at = message[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
