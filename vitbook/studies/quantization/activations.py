"""What a model loses where its activations are rounded."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.record import record_modules
from vitbook.layers.attention import Attention
from vitbook.layers.quantizers import quantize

# Where activations are rounded: what the norms read, what they give to the linear layers, the
# attention weights, what the GELUs give.
PLACES = ("stream", "norm", "softmax", "gelu")
# What has a step of its own.
STEPS = ("tensor", "token", "channel")


@contextmanager
def round_activations(
    model: nn.Module, place: str, bits: int, steps: str = "tensor"
) -> Iterator[None]:
    """Round the activations of one place in every layer while the block runs.

    The grids are found in each batch as it passes, as dynamic quantization does. The products are
    still computed in floating point: what is lost is lost by rounding alone.

    Args:
        model: in evaluation mode, ours or foreign, with LayerNorm and GELU as torch has them, and
            attention as ``scaled_dot_product_attention``.
        place: "stream" (what each norm reads; the shortcut beside it is not rounded), "norm" (what
            it gives), "softmax" (attention weights) or "gelu".
        bits: of an activation, 2 to 8.
        steps: one step for the whole "tensor", or one a "token" or a "channel". For attention
            weights a token is a query, and a channel a key.

    Raises:
        ValueError: nothing of the kind ran in the block.
        RuntimeError: another thread looks into the model.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.studies.quantization import round_activations
        >>> model = vitbook.create_model("vit_micro_patch2_8").eval()
        >>> images = torch.rand(2, 1, 8, 8)
        >>> with torch.no_grad(), round_activations(model, "norm", bits=8):
        ...     logits = model(images)
        >>> tuple(logits.shape)
        (2, 10)
    """
    ran = []

    def rounded(values: Tensor) -> Tensor:
        ran.append(place)
        *others, last = range(values.ndim)  # images, heads and tokens, however many axes
        axes = {"tensor": (*others, last), "token": (last,), "channel": tuple(others)}[steps]
        return quantize(values, bits, axes).values

    def watch(_: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if place == "stream" and isinstance(module, nn.LayerNorm):
            yield module.register_forward_pre_hook(lambda _, args: (rounded(args[0]), *args[1:]))
        elif isinstance(module, {"norm": nn.LayerNorm, "gelu": nn.GELU}.get(place, ())):
            yield module.register_forward_hook(lambda _, args, output: rounded(output))

    with ExitStack() as stack:
        stack.enter_context(record_modules(model, watch))
        if place == "softmax":
            stack.enter_context(_RoundedWeights(rounded))
        yield
    if not ran:
        raise ValueError(
            f"nothing was rounded: no {place} of {type(model).__name__} ran in the block; expected "
            "a forward pass of a model with LayerNorm, GELU and fused attention"
        )


class _RoundedWeights(TorchFunctionMode):
    def __init__(self, rounded):
        super().__init__()
        self.rounded = rounded

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is not F.scaled_dot_product_attention:
            return function(*args, **(kwargs or {}))
        return self._attend(*args, **(kwargs or {}))

    def _attend(self, q, k, v, attn_mask=None, *_, scale=None, **__):
        weights = self.rounded(Attention.weights(q, k, attn_mask, scale))
        return weights.to(v.dtype) @ v
