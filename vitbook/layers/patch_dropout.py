"""Patches that an encoder is not shown while it trains."""

from collections.abc import Sequence

import torch
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.errors import is_whole_number
from vitbook.layers.encoder import Dropout, Encoder
from vitbook.layers.shapes import Tokens


class PatchDropout(nn.Module):
    """Leave a random share of each image's patch tokens out, while training.

    Liu et al. 2023, "PatchDropout", section 3; FLIP (Li et al. 2023). The tokens that stay are as
    they were, and each carries its position. Nothing is divided by what stays: attention and mean
    are averages.

    Args:
        rate: share of the patches that is left out, from 0 up to, not with, 1; one patch stays.
        num_prefix_tokens: tokens before the patches, which always stay.

    Raises:
        ValueError: no such rate, no such number, or, when called, no patch.

    Example:
        >>> import torch
        >>> from vitbook.layers import PatchDropout
        >>> tuple(PatchDropout(rate=0.75)(torch.zeros(2, 1 + 64, 96)).shape)
        (2, 17, 96)
    """

    def __init__(self, rate: float = 0.5, num_prefix_tokens: int = 1):
        super().__init__()
        self.rate = Dropout(rate).rate  # which refuses what is none
        if not is_whole_number(num_prefix_tokens) or num_prefix_tokens < 0:
            raise ValueError(
                f"num_prefix_tokens {num_prefix_tokens!r}: expected a whole number, at least 0"
            )
        self.num_prefix_tokens = num_prefix_tokens

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch kept_tokens width"]:
        if not self.training or self.rate == 0:
            return tokens
        if tokens.shape[1] <= self.num_prefix_tokens:
            raise ValueError(
                f"{tokens.shape[1]} tokens came, {self.num_prefix_tokens} of them prefix: expected "
                "at least one patch behind the prefix"
            )
        prefix, patches = tokens.tensor_split([self.num_prefix_tokens], dim=1)
        batch, number, width = patches.shape
        kept = max(round(number * (1 - self.rate)), 1)
        chance = torch.rand(batch, number, device=tokens.device)
        chosen = repeat(chance.topk(kept, dim=1).indices, "b n -> b n d", d=width)
        return torch.cat([prefix, patches.gather(1, chosen)], dim=1)


class PatchDroppingEncoder(Encoder):
    """An encoder that is shown a part of the patches while it trains: its steps cost less.

    Args:
        blocks, width: as in :class:`~.encoder.Encoder`.
        rate, num_prefix_tokens: as in :class:`PatchDropout`.
    """

    shrinks = True  # while it trains, no patch is sure of a token behind it

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        width: int,
        rate: float = 0.5,
        num_prefix_tokens: int = 1,
    ):
        super().__init__(blocks, width)
        self.patch_dropout = PatchDropout(rate, num_prefix_tokens)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch kept_tokens width"]:
        return super().forward(self.patch_dropout(tokens))
