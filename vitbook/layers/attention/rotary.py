"""Attention whose queries and keys are turned by where they stand."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.attention.softmax import SelfAttention
from vitbook.layers.positions import check_resize_method
from vitbook.layers.shapes import Tokens

OfHeads = Float[Tensor, "batch heads tokens width"]


class RotaryPosition2D(nn.Module):
    r"""Turns pairs of channels by angles that grow along the rows and along the columns (RoPE).

    .. math::
        R(\alpha) = \begin{pmatrix} \cos\alpha & -\sin\alpha \\ \sin\alpha & \cos\alpha
        \end{pmatrix}, \qquad
        \alpha = 2\pi\,\frac{y}{b^{2j/(d/2)}} \ \text{or}\ 2\pi\,\frac{x}{b^{2j/(d/2)}},
        \qquad j = 0, \ldots, d/4 - 1

    Su et al. 2021, "RoFormer", section 3.2, along one axis. A head of width :math:`d` has
    :math:`d/2` pairs: half of them turn with the row :math:`y`, half with the column :math:`x`, as
    in EVA-02 and in DINOv3, whose positions are those of the patches' centres, from -1 to 1 on
    either axis, and whose base :math:`b` is 100. Since
    :math:`R(\alpha)^\top R(\beta) = R(\beta - \alpha)`, the score of a query and a key depends on
    their offset alone. Prefix tokens stand nowhere and are not turned. Nothing is learned.

    Args:
        grid_size: (rows, columns) of the patches.
        width: of one head's queries; must be divisible by 4.
        num_prefix_tokens: tokens before the patches.
        base: how much slower the slowest pair turns than the fastest, nearly.

    Example:
        >>> import torch
        >>> from vitbook.layers import RotaryPosition2D
        >>> queries = torch.randn(1, 4, 17, 16)
        >>> turned = RotaryPosition2D((4, 4), width=16)(queries)
        >>> torch.allclose(turned.norm(dim=-1), queries.norm(dim=-1), atol=1e-4)
        True
    """

    def __init__(
        self,
        grid_size: tuple[int, int],
        width: int,
        num_prefix_tokens: int = 1,
        base: float | int = 100.0,
    ):
        super().__init__()
        if width % 4:
            raise ValueError(
                f"heads of width {width}: expected a multiple of 4, pairs for rows and for columns"
            )
        self.num_prefix_tokens, self.base, self.width = num_prefix_tokens, base, width
        self.register_buffer("cos", torch.empty(0), persistent=False)
        self.register_buffer("sin", torch.empty(0), persistent=False)
        self._turn_by(grid_size, (1.0, 1.0))

    def forward(self, q: OfHeads) -> OfHeads:
        """Queries, or keys, each pair of channels turned; the norms stay."""
        if q.shape[-2:] != self.cos.shape:
            rows, columns = self.grid_size
            raise ValueError(
                f"{q.shape[-2]} tokens of width {q.shape[-1]} came, but the angles are those of "
                f"{len(self.cos)}, {self.num_prefix_tokens} prefix and {rows}x{columns} patches, "
                f"of width {self.width}: make them for your grid"
            )
        first, second = q.chunk(2, dim=-1)
        turned = q * self.cos + torch.cat([-second, first], dim=-1) * self.sin
        return turned.to(q.dtype)

    def resize(self, grid_size: tuple[int, int], method: str = "stretched") -> None:
        """Make the angles anew, in place, for another grid.

        Args:
            method: "stretched" keeps the borders at -1 and 1, so that all angles were trained and
                neighbours turn less; any name of :func:`.resize_positions` does so, too.
                "continued" keeps the step between neighbours, so that angles come that never were.

        Raises:
            UnknownNameError: no such method.
        """
        check_resize_method(method, "stretched", "continued")
        rows, columns = self.grid_size
        grown = (grid_size[0] / rows * self.span[0], grid_size[1] / columns * self.span[1])
        self._turn_by(grid_size, grown if method == "continued" else self.span)

    def _turn_by(self, grid_size: tuple[int, int], span: tuple[float, float]) -> None:
        """Angles for patches whose centres lie between minus and plus the span of each axis."""
        self.grid_size, self.span = grid_size, span
        # In double precision, on the CPU: not every device has it.
        pairs = self.width // 4
        speeds = self.base ** -(torch.arange(pairs, dtype=torch.float64, device="cpu") / pairs)
        axes = [
            (2 * (torch.arange(n, dtype=torch.float64, device="cpu") + 0.5) / n - 1) * ends
            for n, ends in zip(grid_size, span, strict=True)
        ]
        centres = torch.cartesian_prod(*axes)
        angles = (2 * math.pi * centres[:, :, None] * speeds).flatten(1).repeat(1, 2)
        angles = torch.cat([angles.new_zeros(self.num_prefix_tokens, self.width), angles])
        self.cos, self.sin = angles.cos().to(self.cos), angles.sin().to(self.cos)


class RotarySelfAttention(SelfAttention):
    r"""Self-attention in which each query and each key is turned by its position first.

    .. math:: \mathrm{softmax}\Big(\frac{(R_i q_i) \cdot (R_j k_j)}{\sqrt{d}}\Big)\,v

    Su et al. 2021, equation 16. The values are not turned, and the fused kernel needs no mask.

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`.
        position: for queries as wide as a head; several layers may share it.
    """

    def __init__(self, width: int, num_heads: int, qkv_bias: bool, position: RotaryPosition2D):
        super().__init__(width, num_heads, qkv_bias)
        self.position = position

    def forward(self, tokens: Tokens) -> Tokens:
        q, k, v = self.heads(self.qkv(tokens))
        return self.joined(self.core(self.position(q), self.position(k), v))
