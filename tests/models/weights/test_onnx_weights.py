"""The reader of ONNX files takes what the package onnx takes."""

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from vitbook.models.weights import onnx_weights


def test_it_reads_what_the_package_wrote(tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"weight": (300, 7), "bias": (7,), "one": ()}  # 300 takes two bytes
    given = {name: rng.random(shape, dtype=np.float32) for name, shape in shapes.items()}
    tensors = [numpy_helper.from_array(array, name) for name, array in given.items()]
    whole = numpy_helper.from_array(np.arange(3), "whole numbers")
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["y"], name="/layer/MatMul"),
        helper.make_node("Add", ["y", "bias"], ["z"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xz"]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], [*tensors, whole])
    onnx.save(helper.make_model(graph, doc_string="é" * 200), tmp_path / "some.onnx")

    weights, operations = onnx_weights.read(tmp_path / "some.onnx")
    assert weights.keys() == given.keys()
    for name, array in given.items():
        assert torch.equal(weights[name], torch.from_numpy(array))
    assert operations == [
        ("MatMul", "/layer/MatMul", ("x", "weight")), ("Add", "", ("y", "bias")),
    ]  # fmt: skip
