"""How queries read an image: all of its tokens, or a few points."""

import math

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.layers import Attention
from vitbook.layers.initialization import linear
from vitbook.layers.shapes import Tokens

Queries = Float[Tensor, "batch queries width"]


class CrossAttention(nn.Module):
    r"""Queries of one sequence, keys and values of another: each query reads all image tokens.

    .. math:: \mathrm{softmax}(q k^\top / \sqrt{d})\, v, \qquad q = Q W_q, \ k = T W_k, \ v = T W_v

    Vaswani et al. 2017, section 3.2.3; Carion et al. 2020, section 3.2.

    Args:
        width: size of a query and of a token; must be divisible by ``num_heads``.
    """

    def __init__(self, width: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.to_queries = linear(width, width)
        self.to_keys = linear(width, width)
        self.to_values = linear(width, width)
        self.core = Attention()
        self.projection = linear(width, width)

    def forward(self, queries: Queries, tokens: Tokens) -> Queries:
        q, k, v = (
            rearrange(each, "b n (h d) -> b h n d", h=self.num_heads)
            for each in (self.to_queries(queries), self.to_keys(tokens), self.to_values(tokens))
        )
        return self.projection(rearrange(self.core(q, k, v), "b h q d -> b q (h d)"))


class NoMixing(nn.Module):
    """No attention at all: adds nothing to a query. A control for attention among queries."""

    def forward(self, queries: Queries) -> Queries:
        return torch.zeros_like(queries)


class ReferencePoints(nn.Module):
    """A learned point of the image for each query, evenly spread at the start.

    Zhu et al. 2021, section 4.1 and appendix A.3, where a linear layer makes them of the queries.
    """

    def __init__(self, num_queries: int):
        super().__init__()
        turns = torch.arange(num_queries) * (3 - math.sqrt(5)) * math.pi  # a sunflower's seeds
        away = 0.45 * ((torch.arange(num_queries) + 0.5) / num_queries).sqrt()
        spots = 0.5 + away[:, None] * torch.stack([turns.cos(), turns.sin()], dim=1)
        self.logits = nn.Parameter(torch.logit(spots))

    def forward(self) -> Float[Tensor, "queries 2"]:
        """x and y in shares of the image."""
        return self.logits.sigmoid()


class DeformableCrossAttention(nn.Module):
    r"""Each head of a query reads a few points around the query's reference point.

    .. math:: \sum_k A_{qk}\, v(p_q + \Delta p_{qk}), \qquad \sum_k A_{qk} = 1

    Zhu et al. 2021, "Deformable DETR", equation 2: where the points lie, and what each weighs, are
    linear in the query; the image is read between its tokens bilinearly. One map of tokens, where
    the paper has four.

    Args:
        width, num_heads: as in :class:`CrossAttention`.
        grid_size: (rows, columns) of the image tokens.
        references: of the queries.
        num_points: that a head reads.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        grid_size: tuple[int, int],
        references: ReferencePoints,
        num_points: int = 4,
    ):
        super().__init__()
        self.num_heads, self.grid_size, self.num_points = num_heads, grid_size, num_points
        self.references = references
        self.offsets = nn.Linear(width, num_heads * num_points * 2)
        self.importance = nn.Linear(width, num_heads * num_points)
        self.values = linear(width, width)
        self.projection = linear(width, width)
        self.spread()

    @torch.no_grad()
    def spread(self) -> None:
        """Begin with the same points for all queries, of one weight (appendix A.4).

        Heads look in different directions, a head's points are 1, 2 ... tokens away.
        """
        for layer in (self.importance, self.offsets):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        turns = torch.arange(self.num_heads) * (2 * math.pi / self.num_heads)
        ways = torch.stack([turns.cos(), turns.sin()], dim=1)
        ways = ways / ways.abs().max(dim=1, keepdim=True).values
        steps = torch.arange(1, self.num_points + 1)
        self.offsets.bias.copy_((ways[:, None] * steps[:, None]).flatten())

    def points(self, queries: Queries) -> Float[Tensor, "batch heads queries points 2"]:
        """Where each head of each query reads: x and y in shares of the image."""
        moved = rearrange(
            self.offsets(queries), "b q (h p xy) -> b h q p xy", h=self.num_heads, xy=2
        )
        rows, columns = self.grid_size
        return self.references()[:, None] + moved / moved.new_tensor([columns, rows])

    def weights(self, queries: Queries) -> Float[Tensor, "batch heads queries points"]:
        """What each point counts; those of a head sum to 1."""
        scores = rearrange(self.importance(queries), "b q (h p) -> b h q p", h=self.num_heads)
        return scores.softmax(dim=-1)

    def forward(self, queries: Queries, tokens: Tokens) -> Queries:
        image = rearrange(
            self.values(tokens), "b (r c) (h d) -> (b h) d r c",
            r=self.grid_size[0], h=self.num_heads,
        )  # fmt: skip
        # grid_sample's units: -1 and 1 are the outer edges of the image.
        spots = rearrange(2 * self.points(queries) - 1, "b h q p xy -> (b h) q p xy")
        seen = F.grid_sample(image, spots, align_corners=False)
        seen = rearrange(seen, "(b h) d q p -> b h d q p", h=self.num_heads)
        read = einsum(seen, self.weights(queries), "b h d q p, b h q p -> b h d q")
        return self.projection(rearrange(read, "b h d q -> b q (h d)"))
