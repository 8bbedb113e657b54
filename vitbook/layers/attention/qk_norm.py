"""Attention whose scores cannot grow without bound."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.attention.softmax import SelfAttention


def gain_norm(width: int) -> nn.LayerNorm:
    """A LayerNorm without a bias, as the authors have it on queries and keys."""
    return nn.LayerNorm(width, eps=1e-6, bias=False)


class QKNormSelfAttention(SelfAttention):
    r"""Self-attention that normalises each query and each key before their product (QK-norm).

    .. math:: \mathrm{softmax}\Big(\frac{\mathrm{LN}(q)\,\mathrm{LN}(k)^\top}{\sqrt{d}}\Big)\,v

    Dehghani et al. 2023, "Scaling Vision Transformers to 22 billion parameters", section 2, where
    scores that grew until softmax saturated ended the training. Before the gains are learned no
    score is larger than :math:`\sqrt{d}`. All heads share the two gains, each as wide as a head.

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`.
        make_norm: called with the width of a head, once for queries and once for keys.
        position: turns queries and keys behind their norms, for example
            :class:`~.rotary.RotaryPosition2D`; several layers may share it.

    Example:
        >>> import torch
        >>> from vitbook.layers import QKNormSelfAttention
        >>> attention = QKNormSelfAttention(width=64, num_heads=4)
        >>> q, k, v = attention.heads(attention.qkv(100 * torch.randn(2, 17, 64)))
        >>> bool((q @ k.mT).abs().max() / 16**0.5 <= 16**0.5)
        True
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        qkv_bias: bool = True,
        make_norm: Callable[[int], nn.Module] = gain_norm,
        position: nn.Module | None = None,
    ):
        super().__init__(width, num_heads, qkv_bias)
        self.norm_q = make_norm(width // num_heads)
        self.norm_k = make_norm(width // num_heads)
        self.position = nn.Identity() if position is None else position

    def heads(
        self, qkv: Float[Tensor, "batch tokens three_widths"]
    ) -> tuple[
        Float[Tensor, "batch heads tokens head_width"],
        Float[Tensor, "batch heads tokens head_width"],
        Float[Tensor, "batch heads tokens head_width"],
    ]:
        """Queries and keys, normalised and turned, and values of each head."""
        q, k, v = super().heads(qkv)
        # Under autocast a norm answers in float32, and the fused kernel takes one dtype.
        q, k = self.norm_q(q).to(v.dtype), self.norm_k(k).to(v.dtype)
        return self.position(q), self.position(k), v
