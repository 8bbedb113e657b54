"""The whole Vision Transformer, and its first step, drawn."""

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float, UInt8
from torch import Tensor

from vitbook.plots import Diagram


def whole(image: UInt8[Tensor, "3 224 224"]) -> Diagram:
    """ViT-S/16 from an image to its logits, with the shapes between its parts."""
    tokens, small = "→ 197 × 384", image[:, ::2, ::2]
    block = Diagram([
        [["→"], ["LayerNorm", "attention\n6 heads: tokens meet"]], "+", tokens,
        [["→"], ["LayerNorm", "MLP\neach token alone"]], "+",
    ], "Encoder block, 12 times, each with its own weights")  # fmt: skip
    return Diagram([
        small, "→ cut", _apart(small, 8, 2), "→ 196 × 768", "linear\nE", "→ 196 × 384",
        "class token\nin front", tokens, "positions\nadded", tokens, block, tokens, "LayerNorm",
        tokens, "class token\nalone", "→ 384", "head\nlinear", "→ 1,000 logits",
    ], "ViT-S/16")  # fmt: skip


def patch_row(
    image: UInt8[Tensor, "3 224 224"], embed: Float[Tensor, "numbers width"], row: int, first: int
) -> Diagram:
    """Three neighbouring patches of 16 pixels: one linear layer turns each into a token.

    Args:
        embed: E; a token is drawn as its first 16 numbers, from dark to light.
        row: of the patches, from 0; ``first`` is the column of the leftmost.
    """
    cut = rearrange(image, "c (r p) (s q) -> r s c p q", p=16, q=16)[row, first : first + 3]
    tokens = (rearrange(cut / 127.5 - 1, "n c p q -> n (c p q)") @ embed)[:, :16]
    grey = (127.5 * (1 + tokens / tokens.abs().max())).round().to(torch.uint8)
    strips = repeat(grey, "n d -> n 1 four d", four=4)
    return Diagram([
        _apart(rearrange(cut, "s c p q -> c p (s q)"), 16, 1), "→ cut",
        [[patch, "→ 768 numbers", "× E", "→ 384 numbers", strip]
         for patch, strip in zip(cut, strips, strict=True)],
    ])  # fmt: skip


def _apart(image: UInt8[Tensor, "c h w"], side: int, gap: int) -> UInt8[Tensor, "c height width"]:
    """Patches with white between them."""
    cut = rearrange(image, "c (r p) (s q) -> r s c p q", p=side, q=side)
    return rearrange(F.pad(cut, (gap,) * 4, value=255), "r s c p q -> c (r p) (s q)")
