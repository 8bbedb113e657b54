"""What the chapter on filters and positions measures: how fast they change from pixel to pixel."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import analysis
from vitbook.analysis import PositionTable
from vitbook.analysis.capture.layout import Pair
from vitbook.devices import to_float64
from vitbook.layers import resize_positions

SMALL = {
    "flowers": "tf_flowers-vit_mini_patch8_128-flowers-seed0",
    "CIFAR-10": "cifar10-vit_mini_patch4_32-quick-seed0",
}


class FrequencySplit(NamedTuple):
    """Filters in two parts; their sum is what came."""

    slow: Float[Tensor, "*lead height width"]
    fast: Float[Tensor, "*lead height width"]


def spatial_frequency(filters: Float[Tensor, "*lead height width"]) -> Float[Tensor, "*lead"]:
    r"""Mean frequency of each filter or channel, in cycles a pixel.

    .. math:: f = \sum_{uv} a_{uv}^2 f_{uv} \Big/ \sum_{uv} a_{uv}^2, \qquad
              f_{uv} = \sqrt{(u / 2P)^2 + (v / 2Q)^2}

    where :math:`a_{uv}` is the amount of the ripple :math:`\cos(\pi u (i + 1/2) / P)
    \cos(\pi v (j + 1/2) / Q)` in a filter of P x Q pixels (DCT-II). A ripple, unlike a Fourier
    wave, need not end where it began, so that a plain slope is slow. A flat filter has 0, white
    noise about 0.37, and no filter more than 0.71. Two filters that are each other's mirror image
    have the same. A filter of zeros has no frequency: nan.

    Args:
        filters: at least one pixel high and wide. For one number a filter of several channels,
            weigh its channels by their squares: ``spatial_frequency`` sees each alone.
    """
    squares = _amounts(filters).square()
    height, width = filters.shape[-2:]
    weighted = (squares * _frequencies(height, width).to(squares)).sum((-2, -1))
    exact = torch.promote_types(filters.dtype, torch.float32)
    return (weighted / squares.sum((-2, -1))).to(exact)


def split_at_frequency(
    filters: Float[Tensor, "*lead height width"], cutoff: float | int
) -> FrequencySplit:
    """The part of each filter that is slower than ``cutoff`` cycles a pixel, and the rest.

    The parts stand at right angles, so that their squares add up to those of the filter.

    Example:
        >>> import torch
        >>> from vitbook.studies.filters_and_positions import split_at_frequency
        >>> slow, fast = split_at_frequency(torch.tensor([[3.0, 1.0]]), 0.1)
        >>> slow.round(decimals=4).tolist(), fast.round(decimals=4).tolist()
        ([[2.0, 2.0]], [[1.0, -1.0]])
    """
    amounts = _amounts(filters)
    height, width = filters.shape[-2:]
    kept = amounts * (_frequencies(height, width).to(amounts) < cutoff)
    down, across = (_ripples(side).to(amounts) for side in (height, width))
    exact = filters.to(torch.promote_types(filters.dtype, torch.float32))
    slow = (down.T @ kept @ across).to(exact)
    return FrequencySplit(slow, exact - slow)


def position_spectrum(
    table: Float[Tensor, "tokens width"], grid_size: Pair, num_prefix_tokens: int
) -> Float[Tensor, "rows columns"]:
    r"""Share of the table's variance in each wave over the grid.

    .. math:: S_{uv} \propto \sum_d \Big| \sum_{ij} (p_{ijd} - \bar p_d)\,
              e^{-2\pi\mathrm{i}\,(ui/R + vj/C)} \Big|^2

    The mean vector, which tells no position from another, is taken off; the shares sum to 1. Every
    wave and its mirror, :math:`(u, v)` and :math:`(-u, -v)`, have the same share. In a table of
    independent numbers all waves have about 1 / (positions - 1).

    Arguments are those of :func:`vitbook.analysis.positional_similarity`.

    Returns:
        The wave that goes :math:`u` times down and :math:`v` times across the grid stands at
        ``[rows // 2 + u, columns // 2 + v]``: slow waves in the middle.
    """
    exact = table.detach().to(torch.promote_types(table.dtype, torch.float32))
    places = exact[num_prefix_tokens:].unflatten(0, tuple(grid_size))
    varying = places - places.mean((0, 1))
    power = torch.fft.fft2(varying, dim=(0, 1)).abs().square().sum(-1)
    power[0, 0] = 0  # the mean is gone up to rounding
    return torch.fft.fftshift(power / power.sum())


def held_by(table: PositionTable, cycles: int) -> float:
    """Share of a table's variance in frequencies of at most so many cycles down and across."""
    shares = position_spectrum(*table)
    rows, columns = (side // 2 for side in shares.shape)
    kept = slice(rows - cycles, rows + cycles + 1), slice(columns - cycles, columns + cycles + 1)
    return shares[kept].sum().item()


def straight(table: PositionTable) -> float:
    """Share in frequencies that go down alone or across alone.

    It is what a vector for each row and one for each column can hold.
    """
    shares = position_spectrum(*table)
    rows, columns = shares.shape
    return (shares[rows // 2].sum() + shares[:, columns // 2].sum()).item()


def random_table(side: int, width: int = 384) -> PositionTable:
    """Independent numbers: a table that knows nothing of its grid."""
    return PositionTable(torch.randn(side**2, width), (side, side), 0)


def bell_table(side: int) -> PositionTable:
    """A table whose cosines are a bell curve of the distance, a fifth of the grid wide."""
    at = torch.cartesian_prod(*2 * [torch.arange(side, dtype=torch.float64)])
    kernel = torch.exp(-(torch.cdist(at, at) ** 2) / (2 * (side / 5) ** 2))
    values, vectors = torch.linalg.eigh(kernel)
    rows = vectors * values.clamp(min=0).sqrt()  # with exactly these products
    return PositionTable(rows.float(), (side, side), 0)


def resized(table: PositionTable, side: int) -> PositionTable:
    """A table of the positions of another grid, by bicubic interpolation with antialiasing."""
    positions = table.table[table.num_prefix_tokens :].detach()
    return PositionTable(
        resize_positions(positions, table.grid_size, (side, side), 0), (side, side), 0
    )


def along_rows(table: PositionTable) -> list[float]:
    """Mean cosine of two positions of one row, by their distance in steps."""
    tiles = analysis.positional_similarity(*table).diagonal(dim1=0, dim2=2)
    return [tiles.diagonal(steps).mean().item() for steps in range(tiles.shape[0])]


@torch.no_grad()
def followed(
    model: nn.Module, images: Float[Tensor, "images channels height width"], cutoff: float | int
) -> dict[str, float]:
    """Cosine of the patch tokens of block three quarters up to those of the whole filters.

    For the slow part of the filters alone, the fast part alone, and for no filters: what bias and
    positions alone bring about.
    """
    weights = model.tokenizer.projection.weight
    whole = weights.detach().clone()
    slow, fast = split_at_frequency(whole, cutoff)
    parts = {"slow": slow, "fast": fast, "none": torch.zeros_like(whole)}
    expected = analysis.layer_tokens(model.eval(), images)[:, model.num_prefix_tokens :]
    found = {}
    try:
        for name, part in parts.items():
            weights.copy_(part)
            tokens = analysis.layer_tokens(model, images)[:, model.num_prefix_tokens :]
            found[name] = F.cosine_similarity(tokens, expected, dim=-1).mean().item()
    finally:
        weights.copy_(whole)
    return found


def directions(tokens: Float[Tensor, "tokens width"]) -> int:
    """How many directions hold 0.9 of the tokens' variance."""
    held = torch.linalg.svdvals(tokens - tokens.mean(0)).square().cumsum(0)
    return int((held < 0.9 * held[-1]).sum()) + 1


def own_table(model: nn.Module) -> PositionTable:
    return analysis.position_tables(model)["position"]


def _amounts(filters: Tensor) -> Float[Tensor, "*lead height width"]:
    """Of each ripple in each filter, in float64."""
    exact = to_float64(filters.detach())
    down, across = (_ripples(side).to(exact) for side in filters.shape[-2:])
    return down @ exact @ across.T


def _ripples(side: int) -> Float[Tensor, "side side"]:
    """A ripple in each line, the flat one first, at right angles and of length 1."""
    turns = torch.arange(side, dtype=torch.float64)
    return F.normalize(torch.cos(torch.pi * turns[:, None] * (turns + 0.5) / side), dim=1)


def _frequencies(height: int, width: int) -> Float[Tensor, "height width"]:
    """Of each pair of ripples, in cycles a pixel: a ripple u goes through u / 2 cycles."""
    down, across = (
        torch.arange(side, dtype=torch.float64) / (2 * side) for side in (height, width)
    )
    return torch.hypot(down[:, None], across)
