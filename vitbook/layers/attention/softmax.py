"""Scaled dot-product attention and the self-attention layer around it."""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitbook.layers.initialization import linear
from vitbook.layers.shapes import Tokens

Mask = Bool[Tensor, "*lead #queries keys"] | Float[Tensor, "*lead #queries keys"]


class Attention(nn.Module):
    r"""The one place where tokens mix: :math:`\mathrm{softmax}(qk^\top/\sqrt{d})\,v`.

    Vaswani et al. 2017, equation 1; in the ViT paper appendix A, equations 6 to 8. It has no
    parameters. Its forward is the fused kernel, which never writes the weights to memory;
    :meth:`weights` writes them out for whoever wants to look
    (:func:`vitbook.analysis.capture_attention`). To set a temperature, multiply ``q`` by it first.
    """

    def forward(
        self,
        q: Float[Tensor, "batch heads queries width"],
        k: Float[Tensor, "batch heads keys width"],
        v: Float[Tensor, "batch heads keys value_width"],
        mask: Mask | None = None,
    ) -> Float[Tensor, "batch heads queries value_width"]:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    @staticmethod
    def weights(
        q: Float[Tensor, "batch heads *windows queries width"],
        k: Float[Tensor, "batch heads *windows keys width"],
        mask: Mask | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "batch heads *windows queries keys"]:
        """The weights that the fused kernel applies to ``v``: each row sums to 1.

        A boolean mask keeps what is true, a floating mask is added to the scores. The weights are
        computed in float32 at least, whatever the dtype of ``q``: half precision would lose the
        small ones. ``scale`` multiplies the scores; None is :math:`1/\\sqrt d`.
        """
        exact = torch.promote_types(q.dtype, torch.float32)
        # Scaled before the product, as the fused kernels do, against overflow.
        root = (q.shape[-1] ** -0.5 if scale is None else abs(scale)) ** 0.5
        scores = (q.to(exact) * root) @ (k.to(exact) * root).transpose(-2, -1)
        if scale is not None and scale < 0:
            scores = -scores
        if mask is not None and mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, float("-inf"))
        elif mask is not None:
            scores = scores + mask
        return scores.softmax(dim=-1)


class EvenAttention(Attention):
    """Every key has the same weight, and each query reads the mean of the values.

    It looks at nothing: a control for attention that looks. ``forward`` takes no mask.
    """

    def forward(
        self,
        q: Float[Tensor, "batch heads queries width"],
        k: Float[Tensor, "batch heads keys width"],
        v: Float[Tensor, "batch heads keys value_width"],
        mask: Mask | None = None,
    ) -> Float[Tensor, "batch heads queries value_width"]:
        _refuse_mask(mask)
        return v.mean(-2, keepdim=True).expand(*v.shape[:-2], q.shape[-2], v.shape[-1])

    @staticmethod
    def weights(
        q: Float[Tensor, "batch heads *windows queries width"],
        k: Float[Tensor, "batch heads *windows keys width"],
        mask: Mask | None = None,
    ) -> Float[Tensor, "batch heads *windows queries keys"]:
        """The same number everywhere: each row sums to 1."""
        _refuse_mask(mask)
        exact = torch.promote_types(q.dtype, torch.float32)
        return q.new_full((*q.shape[:-1], k.shape[-2]), 1 / k.shape[-2], dtype=exact)


class GivenAttention(nn.Module):
    r"""The product of maps that are given, and values: :math:`A\,v`.

    For layers that share their maps, and for those that take them from elsewhere.
    """

    def forward(
        self,
        maps: Float[Tensor, "batch heads queries keys"],
        v: Float[Tensor, "batch heads keys value_width"],
    ) -> Float[Tensor, "batch heads queries value_width"]:
        return maps @ v


def _refuse_mask(mask: Mask | None) -> None:
    if mask is not None:
        raise ValueError("a mask came, but even attention weighs all keys alike: use None")


def check_heads(width: int, num_heads: int) -> None:
    """Refuse heads that cannot be equally wide."""
    if num_heads < 1:
        raise ValueError(f"{num_heads} heads: expected one at least")
    if width % num_heads:
        raise ValueError(
            f"width {width} is not divisible by {num_heads} heads: "
            f"use a width that is a multiple of {num_heads}"
        )


class SelfAttention(nn.Module):
    r"""Multi-head self-attention, :math:`[\mathrm{SA}_1(z);\ldots;\mathrm{SA}_h(z)]\,U`.

    ViT paper, appendix A. Queries, keys and values come from one linear layer; its output is laid
    out as (q, k, v) x heads x head width, as in timm.

    Args:
        width: size of a token; must be divisible by ``num_heads``.
        num_heads: heads that attend side by side, each ``width / num_heads`` wide.
        qkv_bias: whether the projection to queries, keys and values has a bias.

    Example:
        >>> import torch
        >>> from vitbook.layers import SelfAttention
        >>> attention = SelfAttention(width=64, num_heads=4)
        >>> tuple(attention(torch.zeros(2, 17, 64)).shape)
        (2, 17, 64)
    """

    def __init__(self, width: int, num_heads: int, qkv_bias: bool = True):
        super().__init__()
        check_heads(width, num_heads)
        self.num_heads = num_heads
        self.qkv = linear(width, 3 * width, bias=qkv_bias)
        self.core = Attention()
        self.projection = linear(width, width)

    def heads(
        self, qkv: Float[Tensor, "batch tokens three_widths"]
    ) -> Float[Tensor, "3 batch heads tokens head_width"]:
        """Queries, keys and values of each head, out of what the projection gave."""
        return rearrange(qkv, "b n (three h d) -> three b h n d", three=3, h=self.num_heads)

    def joined(self, mixed: Float[Tensor, "batch heads tokens head_width"]) -> Tokens:
        """What the heads found, side by side, through the last projection."""
        return self.projection(rearrange(mixed, "b h n d -> b n (h d)"))

    def forward(self, tokens: Tokens, mask: Mask | None = None) -> Tokens:
        q, k, v = self.heads(self.qkv(tokens))
        return self.joined(self.core(q, k, v, mask))


class LocalitySelfAttention(SelfAttention):
    r"""Self-attention whose temperature is learned, and in which no token looks at itself (LSA).

    .. math:: \mathrm{softmax}(\tau_h\, qk^\top - \infty\, I)\,v

    Lee, Lee and Song 2021, "Vision Transformer for small-size datasets", section 3.2. As in their
    code every head has its own :math:`\tau_h`, which starts at :math:`1/\sqrt{d}`, and the class
    token is masked like any other. The temperature is folded into the weights that make the
    queries, so that the fused kernel is still the only pass over the scores.
    """

    def __init__(self, width: int, num_heads: int, qkv_bias: bool = False):
        super().__init__(width, num_heads, qkv_bias)
        self.temperature = nn.Parameter(torch.full((num_heads,), (width // num_heads) ** -0.5))

    def forward(self, tokens: Tokens) -> Tokens:
        width = tokens.shape[-1]
        head_width = width // self.num_heads
        # The kernel divides by the root of the head's width: taken back here.
        per_head = self.temperature * head_width**0.5
        of_queries = repeat(per_head, "h -> (h d)", d=head_width)
        scale = F.pad(of_queries, (0, 2 * width), value=1.0)
        bias = None if self.qkv.bias is None else self.qkv.bias * scale
        q, k, v = self.heads(F.linear(tokens, self.qkv.weight * scale[:, None], bias))
        others = ~torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
        return self.joined(self.core(q, k, v, others))


class CausalSelfAttention(SelfAttention):
    r"""Self-attention in which a token looks at itself and at those in front of it, and no further.

    .. math:: \mathrm{softmax}(qk^\top/\sqrt{d} + M)\,v, \qquad M_{ij} = -\infty \text{ if } j > i

    Chen et al. 2020, "Generative Pretraining from Pixels", section 2.2.
    """

    def forward(self, tokens: Tokens) -> Tokens:
        count = tokens.shape[1]
        so_far = torch.ones(count, count, dtype=torch.bool, device=tokens.device).tril()
        return super().forward(tokens, so_far)


def full_precision(device: torch.device) -> AbstractContextManager:
    """Keep autocast away: in half precision the exponents would err, and the errors grow."""
    # Tensors without storage, which only count shapes, know no autocast.
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)
