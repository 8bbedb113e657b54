"""Attention over a few mixtures of the tokens (Linformer)."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.attention.softmax import SelfAttention
from vitbook.layers.shapes import Tokens

Sharing = Literal["none", "headwise", "key_value", "layerwise"]


class SequenceProjection(nn.Module):
    r"""Mix ``num_tokens`` tokens into ``num_keys`` mixtures, :math:`\tilde x = E x`.

    Linformer paper, section 4. Each row of :math:`E` is one mixture over all tokens, learned as a
    table: it knows no other number of tokens. It starts with deviation
    :math:`1/\sqrt{n}`, so that a mixture is as long as a token, and has no bias, as in the paper.

    Args:
        num_tokens: :math:`n`, prefix tokens included.
        num_keys: :math:`k`, from 1 up to, not with, ``num_tokens``.
        num_heads: matrices side by side, one a head; 1 serves every head.
    """

    def __init__(self, num_tokens: int, num_keys: int, num_heads: int = 1):
        super().__init__()
        if not 1 <= num_keys < num_tokens:
            raise ValueError(
                f"{num_tokens} tokens projected to {num_keys} keys: expected at least 1 key and "
                "fewer than tokens; as many would save nothing"
            )
        self.num_tokens = num_tokens
        self.num_keys = num_keys
        std = num_tokens**-0.5
        self.weight = nn.Parameter(torch.empty(num_heads, num_keys, num_tokens))
        nn.init.trunc_normal_(self.weight, std=std, a=-2 * std, b=2 * std)

    def forward(
        self, tokens: Float[Tensor, "batch *heads tokens width"]
    ) -> Float[Tensor, "batch *heads keys width"]:
        return self.weight @ tokens


class LinformerSelfAttention(SelfAttention):
    r"""Self-attention whose keys and values are a few mixtures of the tokens: linear in them.

    .. math:: \mathrm{softmax}\big(q\,(Ek)^\top/\sqrt{d}\big)\,(Fv), \qquad
              E, F \in \mathbb{R}^{k \times n}

    Wang et al. 2020, "Linformer", section 4. A query keeps its position, a key has none: its row of
    :math:`E` decides how much of every position is in it. So the captured map is
    "batch heads tokens keys", and column :math:`m` is the weight on mixture :math:`m`, not on a
    token. The number of tokens is fixed when the layer is built.

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`.
        num_tokens: :math:`n`, prefix tokens included.
        num_keys: :math:`k`, less than ``num_tokens``.
        sharing: how many matrices there are, in the paper's words. ``"none"``: an E and an F for
            each head; ``"headwise"``: an E and an F for all heads of a layer; ``"key_value"``: one
            E = F a layer; ``"layerwise"``: one E = F for the whole model.
        shared: the model's one matrix if sharing is ``"layerwise"``, else None. The layer
            uses it and does not own it: whoever builds the model registers it once, so that it is
            trained, moved and saved once.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        qkv_bias: bool = True,
        *,
        num_tokens: int,
        num_keys: int,
        sharing: Sharing = "headwise",
        shared: SequenceProjection | None = None,
    ):
        super().__init__(width, num_heads, qkv_bias)
        self.num_tokens = num_tokens
        self.of_keys = self.of_values = None
        # In a tuple, which registers nothing: a second owner would save the matrix twice.
        self.from_outside = (shared,)
        if shared is None:
            of_heads = num_heads if sharing == "none" else 1
            self.of_keys = SequenceProjection(num_tokens, num_keys, of_heads)
            if sharing != "key_value":
                self.of_values = SequenceProjection(num_tokens, num_keys, of_heads)

    def forward(self, tokens: Tokens) -> Tokens:
        if tokens.shape[1] != self.num_tokens:
            raise ValueError(
                f"{tokens.shape[1]} tokens came, but this Linformer layer mixes "
                f"{self.num_tokens}: build it for the number that you have"
            )
        q, k, v = self.heads(self.qkv(tokens))
        (shared,) = self.from_outside
        to_keys = self.of_keys or shared
        to_values = self.of_values or to_keys
        return self.joined(self.core(q, to_keys(k), to_values(v)))
