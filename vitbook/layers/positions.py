"""Where a token stands in the image, and what to do when the image grows."""

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.errors import UnknownNameError
from vitbook.layers.shapes import Tokens

_INTERPOLATION = {
    # scipy's zoom(order=1) of the reference code sends corners to corners.
    "google_bilinear": {"mode": "bilinear", "align_corners": True},
    "bicubic": {"mode": "bicubic", "align_corners": False},
    "timm_bilinear": {"mode": "bilinear", "align_corners": False},
    "timm_bicubic": {"mode": "bicubic", "align_corners": False, "antialias": True},
}


def check_resize_method(method: str, *own: str) -> None:
    """Refuse what neither :func:`resize_positions` nor a kind of positions of its ``own`` knows."""
    if method not in (*_INTERPOLATION, *own):
        raise UnknownNameError("resize method", method, (*_INTERPOLATION, *own))


def resize_positions(
    table: Float[Tensor, "tokens width"],
    old_grid: tuple[int, int],
    new_grid: tuple[int, int],
    num_prefix_tokens: int = 1,
    method: str = "timm_bicubic",
) -> Float[Tensor, "new_tokens width"]:
    """Carry a learned table of positions to another grid; prefix rows stay as they are.

    ViT paper, section 3.2. Libraries differ: ``google_bilinear`` is the authors'
    ``scipy.ndimage.zoom(order=1)``, ``bicubic`` is DeiT's and T2T-ViT's, ``timm_bicubic`` adds
    antialiasing, which matters when the grid shrinks. ``timm_bilinear`` is what timm does to the
    authors' own files.

    Raises:
        ValueError: the table does not have one row for each prefix token and grid cell.
        UnknownNameError: no such method.

    Example:
        >>> import torch
        >>> from vitbook.layers import resize_positions
        >>> table = torch.rand(1 + 14 * 14, 64)
        >>> tuple(resize_positions(table, (14, 14), (24, 24)).shape)
        (577, 64)
    """
    check_resize_method(method)
    expected = num_prefix_tokens + old_grid[0] * old_grid[1]
    if len(table) != expected:
        raise ValueError(
            f"position table has {len(table)} rows, but {num_prefix_tokens} prefix tokens and a "
            f"{old_grid[0]}x{old_grid[1]} grid need {expected}: give the grid that it was made for"
        )
    if old_grid == new_grid:
        return table
    prefix, grid = table[:num_prefix_tokens], table[num_prefix_tokens:]
    image = rearrange(grid, "(rows columns) d -> 1 d rows columns", rows=old_grid[0])
    exact = image.to(torch.promote_types(table.dtype, torch.float32))
    if new_grid[1] == 1:  # torch's antialiasing fails on a single column, not on a single row
        image = F.interpolate(exact.mT, size=new_grid[::-1], **_INTERPOLATION[method]).mT
    else:
        image = F.interpolate(exact, size=new_grid, **_INTERPOLATION[method])
    image = image.to(table.dtype)
    return torch.cat([prefix, rearrange(image, "1 d rows columns -> (rows columns) d")])


class LearnedPosition(nn.Module):
    r"""One learned vector for each position, added to the token, :math:`E_\mathrm{pos}`.

    ViT paper, equation 1: a table of 1-D positions. Nothing tells the model that the positions form
    a grid; what it finds out about that is learned.

    Args:
        grid_size: (rows, columns) of the patches.
        width: of a token.
        num_prefix_tokens: tokens before the patches that have a position of their own.
    """

    def __init__(self, grid_size: tuple[int, int], width: int, num_prefix_tokens: int = 1):
        super().__init__()
        self.grid_size = grid_size
        self.num_prefix_tokens = num_prefix_tokens
        rows, columns = grid_size
        self.table = nn.Parameter(torch.empty(num_prefix_tokens + rows * columns, width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, tokens: Tokens) -> Tokens:
        return tokens + self.table

    @torch.no_grad()
    def resize(self, grid_size: tuple[int, int], method: str = "timm_bicubic") -> None:
        """Change this table, in place, to one for another grid."""
        table = resize_positions(
            self.table, self.grid_size, grid_size, self.num_prefix_tokens, method
        )
        self.table = nn.Parameter(table.clone(), self.table.requires_grad)
        self.grid_size = grid_size


class NoPosition(nn.Module):
    """Tokens as they are: the model sees a set (ViT paper, appendix D.4, "No Pos. Emb.")."""

    def __init__(self, grid_size: tuple[int, int], width: int, num_prefix_tokens: int = 1):
        super().__init__()
        self.grid_size = grid_size
        self.num_prefix_tokens = num_prefix_tokens

    def forward(self, tokens: Tokens) -> Tokens:
        return tokens

    def resize(self, grid_size: tuple[int, int], method: str = "timm_bicubic") -> None:
        """A set has no grid: there is nothing to carry to another one."""
        self.grid_size = grid_size


class LearnedPosition2D(nn.Module):
    r"""One learned half for the column and one for the row, side by side.

    .. math:: p_{ij} = [X_j;\, Y_i], \qquad X, Y \in \mathbb{R}^{\cdot \times D/2}

    ViT paper, appendix D.4. The grid is given: two tokens of one row share half of their vector.
    A prefix token has a whole vector of its own.

    Args:
        grid_size, num_prefix_tokens: as in :class:`LearnedPosition`.
        width: of a token; must be even.
    """

    def __init__(self, grid_size: tuple[int, int], width: int, num_prefix_tokens: int = 1):
        super().__init__()
        if width % 2:
            raise ValueError(f"width {width}: expected an even one, half for the row")
        self.grid_size = grid_size
        self.num_prefix_tokens = num_prefix_tokens
        rows, columns = grid_size
        self.prefix = nn.Parameter(torch.empty(num_prefix_tokens, width))
        self.of_columns = nn.Parameter(torch.empty(columns, width // 2))
        self.of_rows = nn.Parameter(torch.empty(rows, width // 2))
        for table in self.parameters():
            nn.init.trunc_normal_(table, std=0.02)

    @property
    def table(self) -> Float[Tensor, "tokens width"]:
        """The vector of every token, prefix first, then row by row."""
        rows, columns = self.grid_size
        x = repeat(self.of_columns, "columns d -> (rows columns) d", rows=rows)
        y = repeat(self.of_rows, "rows d -> (rows columns) d", columns=columns)
        return torch.cat([self.prefix, torch.cat([x, y], dim=1)])

    def forward(self, tokens: Tokens) -> Tokens:
        return tokens + self.table

    @torch.no_grad()
    def resize(self, grid_size: tuple[int, int], method: str = "timm_bicubic") -> None:
        """Change both halves, in place, to those for another grid: each is a line of its own."""
        for name, old, new in (
            ("of_rows", self.grid_size[0], grid_size[0]),
            ("of_columns", self.grid_size[1], grid_size[1]),
        ):
            line = getattr(self, name)
            table = resize_positions(line, (old, 1), (new, 1), 0, method)
            setattr(self, name, nn.Parameter(table.clone(), line.requires_grad))
        self.grid_size = grid_size
