r"""AttnLRP: what a logit rests on, handed back from layer to layer by a rule for each operation.

A rule is written as another way to compute the same number, whose gradient times the input is the
rule's relevance. So one pass backward hands all of it down.
"""

import sys
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vitbook.analysis.attribution.captum_maps import asked_targets, on_grid
from vitbook.analysis.capture.interception import BY_BROADCAST, FUSED, OF_TWO_AXES, SOFTMAX
from vitbook.analysis.capture.layout import Pair, pixels_per_patch, token_layout
from vitbook.analysis.capture.running import batches, logits_of, takes_images
from vitbook.errors import check_count, is_number
from vitbook.model_utilities import evaluating

LINEAR = {F.linear, F.conv2d, torch.conv2d}
ACTIVATIONS = {
    *(F.gelu, F.relu, F.silu, F.relu6, F.hardswish, F.hardtanh, F.elu, F.leaky_relu, F.mish),
    *(torch.relu, torch.tanh, Tensor.relu, Tensor.tanh, F.tanh),
}
SIGMOID = {torch.sigmoid, Tensor.sigmoid, F.sigmoid}
MIXED = OF_TWO_AXES | BY_BROADCAST | {torch.einsum}
_SMALL = 1e-6


@takes_images(gradients=True)
def attn_lrp(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"] | None = None,
    *,
    gamma: float | int = 0.25,
    through_softmax: bool = True,
    batch_size: int = 8,
    grid_size: Pair | None = None,
) -> Float[Tensor, "batch rows columns"]:
    r"""The relevance of each patch for a logit, by AttnLRP.

    Achtibat et al. 2024, "AttnLRP: attention-aware layer-wise relevance propagation for
    transformers". Their rules, for an output :math:`z_j` with relevance :math:`R_j`:

    - linear layers and convolutions, with :math:`w` the part of :math:`x_i w_{ij}` of
      :math:`z_j`'s sign counted :math:`1 + \gamma` times (LRP-:math:`\gamma`; 0 is
      LRP-:math:`\epsilon` without :math:`\epsilon`):
      :math:`R_i = \sum_j x_i w_{ij} R_j / \sum_i x_i w_{ij}`;
    - softmax, expanded at its input: :math:`R_i = x_i (R_i - s_i \sum_j R_j)`;
    - a product of two activations, as of weights and values: half to each; of a sigmoid and
      another, as in quick GELU: all to the other;
    - GELU and its kin: all to the input; a norm (layer, group, RMS): its deviation held where it
      is.

    What has no rule hands its gradient back. A bias, a position and a class token take relevance
    away: of a model without them the map sums to the logit, with ``through_softmax=False``.

    Args:
        model: gives logits; attention by ``scaled_dot_product_attention`` or written out, as of
            ours, timm's and Hugging Face's. Left as it came.
        images: as the model takes them.
        targets: the class that is asked about, of each image; by default the model's answer.
        gamma: of the linear layers; with 0, large contributions that cancel stay, and the map is
            noisier.
        through_softmax: False holds the attention weights where they are, and hands all relevance
            to the values (Ali et al. 2022, "XAI for transformers").
        batch_size: images at a time.
        grid_size: (rows, columns) of patches, for a model that does not say it.

    Raises:
        ValueError: a gamma that is no number from 0 on; a model whose attention cannot be given a
            rule (``nn.MultiheadAttention``), or whose blocks are checkpointed; what
            :func:`vitbook.analysis.integrated_gradients` refuses.

    Example:
        >>> import vitbook
        >>> from vitbook.analysis import attn_lrp
        >>> from vitbook.datasets import load, normalize
        >>> model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
        >>> tuple(attn_lrp(model, normalize(load("digits", "test").images[:3])).shape)
        (3, 4, 4)
    """
    if not is_number(gamma) or not 0 <= gamma < float("inf"):
        raise ValueError(f"gamma {gamma!r}: expected a number from 0 on, as 0.25")
    (grid_size,) = token_layout(model, images, grid_size=grid_size)
    pixels_per_patch(model, images, grid_size)
    targets = asked_targets(targets, images, model, batch_size)
    check_count("batch_size", batch_size)
    batch_size = int(batch_size)  # split takes no whole number of numpy
    maps = []
    weights = [each for each in model.parameters() if each.requires_grad]
    try:
        for each in weights:  # so that what has a gradient is an activation
            each.requires_grad_(False)
        parts = zip(
            batches(model, images.detach(), batch_size), targets.split(batch_size), strict=True
        )
        for some, classes in parts:
            some = some.clone().requires_grad_()
            rules = Rules(gamma, through_softmax)
            with torch.enable_grad(), evaluating(model), uncompiled(), rules:
                logits = logits_of(model)(some)
                asked = logits.gather(1, classes.to(logits.device)[:, None]).sum()
                (gradient,) = torch.autograd.grad(asked, some)
            maps.append((some.detach() * gradient).sum(1))
    except RuntimeError as error:
        if type(error).__name__ != "CheckpointError":  # its module takes a second to import
            raise
        raise ValueError(
            f"blocks of {type(model).__name__} are checkpointed: they would run again on the way "
            "back, without the rules; turn that off, as model.set_grad_checkpointing(False)"
        ) from error
    finally:
        for each in weights:
            each.requires_grad_(True)
    return on_grid(torch.cat(maps), grid_size)


class Rules(TorchFunctionMode):
    """Inside, what torch computes has the same values and the rules' gradients."""

    def __init__(self, gamma: float = 0.25, through_softmax: bool = True):
        super().__init__()
        self.gamma, self.through_softmax = gamma, through_softmax

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is F.multi_head_attention_forward:
            raise ValueError(
                "nn.MultiheadAttention keeps its parts inside one function, where no rule reaches "
                "them: expected attention by scaled_dot_product_attention, as timm's model of the "
                "same name has it"
            )
        if function in LINEAR and self.gamma:
            return self._linear(function, *args, **kwargs)
        if function is F.layer_norm:
            return _layer_norm(*args, **kwargs)
        if function is F.group_norm:
            return _group_norm(*args, **kwargs)
        if function is F.rms_norm:
            return _rms_norm(*args, **kwargs)
        if function in ACTIVATIONS:
            return _activation(function, *args, **kwargs)
        if function is FUSED:
            return self._attention(*args, **kwargs)
        if function in BY_BROADCAST and sum(map(_is_gate, args)) == 1:
            args = tuple(each.detach() if _is_gate(each) else each for each in args)
        result = function(*args, **kwargs)
        if function in SOFTMAX and not self.through_softmax:
            return result.detach()
        if function in SIGMOID:
            result.is_gate = True
        if function in MIXED:
            return _shared(result, sum(map(_activated, (*args, *kwargs.values()))))
        return result

    def _linear(self, function, x, weight, bias=None, *args, **kwargs):
        """LRP-gamma, of inputs of both signs: what has the sign of the output counts for more."""

        def of(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
            return function(x, weight, bias, *args, **kwargs)

        up, down = x.clamp(min=0), x.clamp(max=0)
        more, less = weight.clamp(min=0), weight.clamp(max=0)
        add, take = (None, None) if bias is None else (bias.clamp(min=0), bias.clamp(max=0))
        z = of(x, weight, bias)
        above = of(up, more, add) + of(down, less, None)
        below = of(up, less, take) + of(down, more, None)
        counted = z + self.gamma * torch.where(z > 0, above, below)
        return counted * _ratio(z, counted)

    def _attention(
        self, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
    ):
        if enable_gqa:
            k, v = (each.repeat_interleave(q.shape[-3] // each.shape[-3], -3) for each in (k, v))
        scores = _shared((q * (q.shape[-1] ** -0.5 if scale is None else scale)) @ k.mT, 2)
        if is_causal:
            attn_mask = torch.ones_like(scores, dtype=torch.bool).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        weights = scores.softmax(-1)
        return _shared(weights @ v, 2) if self.through_softmax else weights.detach() @ v


def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    x = x - x.mean(tuple(range(-len(normalized_shape), 0)), keepdim=True)
    x = _rms_norm(x, normalized_shape, weight, eps)
    return x if bias is None else x + bias


def _group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    groups = x.unflatten(1, (num_groups, -1))
    x = _layer_norm(groups, groups.shape[2:], eps=eps).flatten(1, 2)
    each = (-1, *[1] * (x.ndim - 2))
    x = x if weight is None else x * weight.view(each)
    return x if bias is None else x + bias.view(each)


def _rms_norm(x, normalized_shape, weight=None, eps=None):
    axes = tuple(range(-len(normalized_shape), 0))
    exact = x.detach().to(torch.promote_types(x.dtype, torch.float32))  # squares overflow float16
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    x = x * (exact.square().mean(axes, keepdim=True) + eps).rsqrt().to(x.dtype)
    return x if weight is None else x * weight


def _activation(function, x, *args, **kwargs):
    kwargs.pop("inplace", None)
    return x * _ratio(function(x, *args, **kwargs), x)


def _ratio(value: Tensor, of: Tensor) -> Tensor:
    """value / of, held where it is; not divided by less than a millionth."""
    small = torch.full_like(of, _SMALL).copysign(of)
    of = torch.where(of.abs() < _SMALL, small, of)
    return (value / of).detach()


def _shared(product: Tensor, factors: int) -> Tensor:
    """A product that hands an equal part to each of its factors."""
    if factors < 2:
        return product
    return product / factors + product.detach() * (1 - 1 / factors)


def _is_gate(value: object) -> bool:
    return getattr(value, "is_gate", False)


def uncompiled() -> AbstractContextManager:
    """Inside, what ``torch.compile`` took runs as it was written, call by call."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled; the import would take a second
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def _activated(value: object) -> bool:
    return isinstance(value, Tensor) and value.requires_grad
