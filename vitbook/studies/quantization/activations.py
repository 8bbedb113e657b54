"""What a model loses where its activations are rounded."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import batches
from vitbook.layers.attention.softmax import Attention
from vitbook.layers.quantizers import check_bits, quantize
from vitbook.model_utilities import evaluating

# Where activations are rounded: what the norms read, what they give to the linear layers, the
# attention weights, what the GELUs give.
PLACES = ("stream", "norm", "softmax", "gelu")
# What has a step of its own.
STEPS = ("tensor", "token", "channel")


def quantize_between(
    values: Float[Tensor, "*shape"], bits: int, axes: tuple[int, ...]
) -> Float[Tensor, "*shape"]:
    r"""The nearest points of an even grid from the smallest value to the largest.

    A zero point :math:`z`, a whole number, says which code stands for 0, so that 0 stays 0 (Nagel
    et al. 2021, section 2.2):

    .. math::
        s = \frac{\max x - \min x}{2^b - 1}, \qquad z = \mathrm{round}(-\min x / s), \qquad
        q = \mathrm{round}(x / s) + z

    Args:
        axes: over which one step and one zero point are shared.

    Raises:
        ValueError: values that are NaN or infinite; bits other than 2 to 8.
    """
    check_bits(bits)
    if not values.isfinite().all():
        raise ValueError("the values hold NaN or infinity: expected finite ones")
    # A range may be too wide for float16, and 8 bits of codes need all that bfloat16 has.
    exact = values.to(torch.promote_types(values.dtype, torch.float32))
    low = exact.amin(dim=axes, keepdim=True).clamp(max=0)
    high = exact.amax(dim=axes, keepdim=True).clamp(min=0)
    most = 2**bits - 1
    step = ((high - low) / most).clamp_min(torch.finfo(exact.dtype).tiny)
    zero = (-low / step).round()
    return ((((exact / step).round() + zero).clamp(0, most) - zero) * step).to(values.dtype)


@contextmanager
def round_activations(
    model: nn.Module, place: str, bits: int, steps: str = "tensor", zero_point: bool = False
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
        zero_point: the grid reaches from the smallest value to the largest, as in
            :func:`quantize_between`, and is not symmetric.

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
        if zero_point:
            return quantize_between(values, bits, axes)
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


@torch.no_grad()
def channel_ranges(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    *,
    batch_size: int = 32,
) -> dict[str, list[Float[Tensor, "_width"]]]:
    """The largest absolute value of each channel, over images and tokens, where linear layers read.

    One step for a whole tensor must reach the largest channel; a median channel then has as many
    codes fewer as it is smaller. LayerNorms of Transformers have few channels that are far larger
    than the rest (Bondarenko, Nagel and Blankevoort 2021, section 3).

    Args:
        model: as in :func:`round_activations`.
        images: normalised as the model takes them.
        batch_size: images at a time.

    Returns:
        For "stream", "norm" and "gelu" a tensor for each layer that has one, in the order run.
    """
    largest: dict[str, dict[str, Tensor]] = {"stream": {}, "norm": {}, "gelu": {}}

    def keep(place: str, path: str, values: Tensor) -> None:
        now = values.detach().abs().flatten(0, -2).amax(dim=0).float().cpu()
        before = largest[place].get(path)
        largest[place][path] = now if before is None else torch.maximum(before, now)

    def watch(path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if isinstance(module, nn.LayerNorm):

            def look(_: nn.Module, args: tuple, output: Tensor) -> None:
                keep("stream", path, args[0])
                keep("norm", path, output)

            yield module.register_forward_hook(look)
        elif isinstance(module, nn.GELU):
            yield module.register_forward_hook(lambda _, args, output: keep("gelu", path, output))

    with evaluating(model), record_modules(model, watch):
        for batch in batches(model, images, batch_size):
            model(batch)
    return {place: list(found.values()) for place, found in largest.items()}


def loudness(model: nn.Module, images: Float[Tensor, "images channels height width"]) -> float:
    """Range of the loudest channel of the residual stream over the median channel's, typically.

    The median over the norms, which read the stream.
    """
    ranges = channel_ranges(model, images)["stream"]
    return median((each.max() / each.median()).item() for each in ranges)
