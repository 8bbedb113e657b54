"""Weights and activations in few bits, after training, by torchao."""

import copy
import logging
import warnings
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import nn

from vitbook.errors import UnknownNameError
from vitbook.extras import from_extra


class QuantizationError(RuntimeError):
    """What torchao cannot do to this model on this device."""


@dataclass(frozen=True)
class Scheme:
    """How the linear layers of a model are quantized.

    Attributes:
        weight_bits: of a stored weight.
        steps: that the weights have: one a "tensor", a "channel" (row of the weight), or a "group"
            of 32 inputs of a channel.
        activations: inputs of the layers are rounded too, to 8 bits, a step a token found as it
            comes: then the products are of whole numbers.
        packed: several codes a byte, in a kernel made for it.
    """

    name: str
    weight_bits: int
    steps: str
    activations: bool = False
    packed: bool = False

    @property
    def group(self) -> int | None:
        return GROUP if self.steps == "group" else None


GROUP = 32
SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("int8_weights_tensor", 8, "tensor"),
        Scheme("int8_weights", 8, "channel"),
        Scheme("int8_dynamic", 8, "channel", activations=True),
        Scheme("int4_weights", 4, "channel"),
        Scheme("int4_weights_group", 4, "group"),
        Scheme("int3_weights_group", 3, "group"),
        Scheme("int2_weights_group", 2, "group"),
        Scheme("int4_packed", 4, "group", packed=True),
    )
}


def quantize_model(model: nn.Module, scheme: str) -> nn.Module:
    """A copy of ``model`` whose linear layers are quantized by torchao; the rest is as it was.

    Norms, softmax, the patch embedding (a convolution) and the head's input stay in floating
    point; the head's own linear layer is quantized.

    Args:
        model: ours or foreign; it is not changed. Layers of a class made from ``nn.Linear`` stay
            as they are, such as those with adapters.
        scheme: one of :data:`SCHEMES`.

    Raises:
        UnknownNameError: another scheme; names the nearest.
        QuantizationError: torchao refuses it on this device, the model is float64 or quantized
            already, or a layer's inputs are no multiple of the group; says which.
        MissingPackageError: torchao is not installed.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.studies.quantization import quantize_model
        >>> model = vitbook.create_model("vit_micro_patch2_8").eval()
        >>> small = quantize_model(model, "int8_weights")
        >>> images = torch.rand(2, 1, 8, 8)
        >>> bool((small(images) - model(images)).abs().max() < 0.01)
        True
    """
    if scheme not in SCHEMES:
        raise UnknownNameError("quantization scheme", scheme, SCHEMES)
    about = SCHEMES[scheme]
    layers = {name: part for name, part in model.named_modules() if type(part) is nn.Linear}
    if not layers:
        raise QuantizationError(
            f"{type(model).__name__} has no linear layer: expected one at least to quantize"
        )
    for name, layer in layers.items():
        _check_layer(name, layer, about)
    torchao = _torchao()
    small = copy.deepcopy(model)
    try:
        # Those that were checked, and no layers made of them, which compute with their own weights.
        torchao.quantize_(small, _config(about, torchao), lambda part, _: type(part) is nn.Linear)
    except (ImportError, RuntimeError, NotImplementedError, AssertionError, ValueError) as error:
        device = next(model.parameters()).device.type
        others = ", ".join(each for each in SCHEMES if each != scheme)
        raise QuantizationError(
            f"torchao refuses {scheme} on {device} ({str(error).splitlines()[0]}): expected a "
            f"device with its kernel; use one of {others}"
        ) from error
    return small


def _check_layer(name: str, layer: nn.Linear, scheme: Scheme) -> None:
    kept = type(layer.weight.data)
    if layer.weight.dtype == torch.float64 or kept is not torch.Tensor:
        kind = "float64" if kept is torch.Tensor else f"quantized already, a {kept.__name__}"
        raise QuantizationError(
            f"the weight of {name} is {kind}: expected a plain tensor of float32, float16 or "
            "bfloat16; give the model as it was before, or model.float()"
        )
    if scheme.group and layer.in_features % scheme.group:
        raise QuantizationError(
            f"{name} has {layer.in_features} inputs, which are no multiple of the group of "
            f"{scheme.group}: use a scheme with a step a channel"
        )


def _torchao() -> ModuleType:
    """torchao, without what its own sources are warned of as they are first imported."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with from_extra("quantization"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torchao.quantization as torchao
    finally:
        logging.disable(before)
    return torchao


def _config(scheme: Scheme, torchao: ModuleType) -> object:
    if scheme.packed:
        return torchao.Int4WeightOnlyConfig(group_size=scheme.group, set_inductor_config=False)
    if scheme.activations:
        return torchao.Int8DynamicActivationInt8WeightConfig(set_inductor_config=False)
    if scheme.weight_bits == 8:
        steps = torchao.PerTensor() if scheme.steps == "tensor" else torchao.PerRow()
        return torchao.Int8WeightOnlyConfig(granularity=steps, set_inductor_config=False)
    steps = torchao.PerGroup(scheme.group) if scheme.group else torchao.PerAxis(0)
    return torchao.IntxWeightOnlyConfig(getattr(torch, f"int{scheme.weight_bits}"), steps)


def stored_bytes(model: nn.Module, scheme: str | None = None) -> int:
    """Bytes that the weights take in a file: codes packed tightly, a float32 a step.

    Args:
        model: as it was before :func:`quantize_model`.
        scheme: None counts float32.

    Raises:
        UnknownNameError: another scheme.
    """
    if scheme is not None and scheme not in SCHEMES:
        raise UnknownNameError("quantization scheme", scheme, SCHEMES)
    linear = {id(part.weight): part for part in model.modules() if type(part) is nn.Linear}
    total = 0
    weights = model.state_dict(keep_vars=True).values()
    for weight in {id(each): each for each in weights}.values():  # what is shared is stored once
        layer = linear.get(id(weight))
        if scheme is None or layer is None:
            total += weight.numel() * weight.element_size()
            continue
        about = SCHEMES[scheme]
        steps = {"tensor": 1, "channel": layer.out_features}.get(about.steps)
        steps = steps or weight.numel() // GROUP
        total += -(-weight.numel() * about.weight_bits // 8) + 4 * steps
    return total
