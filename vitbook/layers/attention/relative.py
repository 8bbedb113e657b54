"""Attention that hears how far apart two tokens stand."""

from functools import reduce

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitbook.layers.attention.softmax import SelfAttention
from vitbook.layers.positions import resize_positions
from vitbook.layers.shapes import Tokens


class RelativePosition(nn.Module):
    r"""How far a key stands from a query, counted along the sequence: one vector for each offset.

    .. math:: q_i \cdot r_{p_i - p_j}, \qquad p_i \in \{0, \ldots, N - 1\}

    ViT paper, appendix D.4, "Rel. Pos. Emb.", in one dimension: the patches stand row by row, so
    that one step to the right and the step to the next row are the same offset. The heads share
    the vectors (Shaw et al. 2018, section 3.3); each asks with its own query.

    Prefix tokens stand nowhere on the grid, and the paper is silent about them. Here three
    vectors are theirs: for a prefix token that looks at a patch, for a patch that looks at a
    prefix token, and for prefix tokens among themselves.

    Args:
        grid_size: (rows, columns) of the patches.
        width: of one head's queries.
        num_prefix_tokens: tokens before the patches.
    """

    def __init__(self, grid_size: tuple[int, int], width: int, num_prefix_tokens: int = 1):
        super().__init__()
        self.num_prefix_tokens = num_prefix_tokens
        self.prefix = nn.Parameter(torch.empty(3 if num_prefix_tokens else 0, width))
        self.make_tables(grid_size, width)
        for table in self.parameters():
            nn.init.trunc_normal_(table, std=0.02)
        self._place_on(grid_size)

    def make_tables(self, grid_size: tuple[int, int], width: int) -> None:
        """Room for one vector for each offset."""
        self.table = nn.Parameter(torch.empty(2 * grid_size[0] * grid_size[1] - 1, width))

    def vectors(self) -> Float[Tensor, "vectors width"]:
        """All that a query is compared with; the three of the prefix last."""
        return torch.cat([self.table, self.prefix])

    def vectors_of_pairs(self, grid_size: tuple[int, int]) -> Int[Tensor, "parts tokens tokens"]:
        """Which of :meth:`vectors` stand for (query, key); the scores of the parts add up."""
        offsets = _offsets(torch.arange(grid_size[0] * grid_size[1]))
        return self._with_prefix(offsets, len(self.table))[None]

    def forward(
        self, q: Float[Tensor, "batch heads tokens width"]
    ) -> Float[Tensor, "batch heads tokens tokens"]:
        """Each query times the vector of its offset to each key: scores, not yet scaled."""
        tokens = self.pairs.shape[-1]
        if q.shape[-2] != tokens:
            rows, columns = self.grid_size
            raise ValueError(
                f"{q.shape[-2]} tokens came, but the relative positions are those of {tokens}, "
                f"{self.num_prefix_tokens} prefix and {rows}x{columns} patches: make them for "
                "your grid"
            )
        # Every query meets every vector once, in one product; each pair then takes its number.
        scores = q @ self.vectors().to(q.dtype).mT
        parts = [scores.gather(-1, part.expand(*q.shape[:2], -1, -1)) for part in self.pairs]
        return reduce(torch.add, parts)

    def _place_on(self, grid_size: tuple[int, int]) -> None:
        self.grid_size = grid_size
        pairs = self.vectors_of_pairs(grid_size)
        self.register_buffer("pairs", pairs.to(self.prefix.device), persistent=False)

    def _with_prefix(
        self, patches: Int[Tensor, "patches patches"], first: int
    ) -> Int[Tensor, "tokens tokens"]:
        n = self.num_prefix_tokens
        pairs = F.pad(patches, (n, 0, n, 0))
        pairs[:n, n:], pairs[n:, :n], pairs[:n, :n] = first, first + 1, first + 2
        return pairs


class RelativePosition2D(RelativePosition):
    r"""How many rows and how many columns a key stands from a query.

    .. math:: q_i \cdot (a_{y_i - y_j} + b_{x_i - x_j})

    One vector for each offset of rows and one for each of columns, added, as in Bello et al. 2019
    ("Attention augmented convolutional networks"). A vector for each *pair* of offsets could
    express more; the sum has fewer parameters and learns each offset from many pairs. Prefix tokens
    have the same three vectors as in :class:`RelativePosition`.
    """

    def make_tables(self, grid_size: tuple[int, int], width: int) -> None:
        self.of_rows = nn.Parameter(torch.empty(2 * grid_size[0] - 1, width))
        self.of_columns = nn.Parameter(torch.empty(2 * grid_size[1] - 1, width))

    def vectors(self) -> Float[Tensor, "vectors width"]:
        """All that a query is compared with; the three of the prefix, and a zero, last."""
        return torch.cat([self.of_rows, self.of_columns, F.pad(self.prefix, (0, 0, 0, 1))])

    def vectors_of_pairs(self, grid_size: tuple[int, int]) -> Int[Tensor, "parts tokens tokens"]:
        rows, columns = grid_size
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        after = len(self.of_rows) + len(self.of_columns)
        of_rows = self._with_prefix(_offsets(y.flatten()), after)
        of_columns = F.pad(
            _offsets(x.flatten()) + len(self.of_rows),
            (self.num_prefix_tokens, 0, self.num_prefix_tokens, 0),
            value=after + len(self.prefix),  # the zero: a prefix token's vector counts once
        )
        return torch.stack([of_rows, of_columns])

    @torch.no_grad()
    def resize(self, grid_size: tuple[int, int], method: str = "timm_bicubic") -> None:
        """Change both tables, in place, to those for another grid; offset 0 stays the middle.

        The 1-D kind has no such method: on a grid with other columns the same offset along the
        sequence is another step, so that there is nothing to interpolate.
        """
        for name, sides in (("of_rows", grid_size[0]), ("of_columns", grid_size[1])):
            old = getattr(self, name)
            table = resize_positions(old, (len(old), 1), (2 * sides - 1, 1), 0, method)
            setattr(self, name, nn.Parameter(table.clone(), old.requires_grad))
        self._place_on(grid_size)


class RelativePositionBias(nn.Module):
    r"""How many rows and columns a key stands from a query: one number for each head, added.

    .. math:: \mathrm{softmax}\Big(\frac{q_i \cdot k_j}{\sqrt{d}} + B_{y_i - y_j,\, x_i - x_j}\Big)

    Swin (Liu et al. 2021, section 3.2, equation 4). No query is asked: unlike
    :class:`RelativePosition2D` the same number is added whatever a token shows, and every *pair*
    of offsets has its own.

    Args:
        grid_size: (rows, columns) of the tokens that attend to each other, as of a window.
        num_heads: each has a table of its own.
    """

    def __init__(self, grid_size: tuple[int, int], num_heads: int):
        super().__init__()
        rows, columns = self.grid_size = tuple(grid_size)
        across = 2 * columns - 1
        self.table = nn.Parameter(torch.empty((2 * rows - 1) * across, num_heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        pairs = _offsets(y.flatten()) * across + _offsets(x.flatten())
        self.register_buffer("pairs", pairs, persistent=False)

    def forward(self) -> Float[Tensor, "heads tokens tokens"]:
        """What is added to the scores of (query, key)."""
        # Indexing would add up its gradients in an order of its own; an embedding does not.
        return rearrange(F.embedding(self.pairs, self.table), "q k h -> h q k")


def _offsets(positions: Int[Tensor, " patches"]) -> Int[Tensor, "patches patches"]:
    """The query's position less the key's, the lowest counted as 0."""
    return positions[:, None] - positions + positions.max()


class RelativeSelfAttention(SelfAttention):
    r"""Self-attention with a second attention in its scores, whose keys are relative positions.

    .. math:: \mathrm{softmax}\Big(\frac{q_i \cdot k_j + q_i \cdot r_{ij}}{\sqrt{d}}\Big)\,v

    ViT paper, appendix D.4: "extra attention" with the original query and relative embeddings as
    keys, whose logits are added to those of the content before the softmax. They go to the fused
    kernel as its mask, so that, unlike plain attention, one number for each pair is written.

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`.
        position: :class:`RelativePosition` or :class:`RelativePosition2D` for queries as wide as a
            head; several layers may share it.
    """

    def __init__(self, width: int, num_heads: int, qkv_bias: bool, position: RelativePosition):
        super().__init__(width, num_heads, qkv_bias)
        self.position = position

    def forward(self, tokens: Tokens) -> Tokens:
        q, k, v = self.heads(self.qkv(tokens))
        # The kernel scales q.k but not its mask.
        return self.joined(self.core(q, k, v, self.position(q * q.shape[-1] ** -0.5)))
