"""What a table of positions says about the grid: who is alike, how long, and how wavy."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.capture.layout import Pair
from vitbook.errors import is_whole_number


class PositionTable(NamedTuple):
    """A table and how to read it: ``positional_similarity(*position_tables(model)[path])``."""

    table: Float[Tensor, "tokens width"]
    grid_size: Pair
    num_prefix_tokens: int


def positional_similarity(
    table: Float[Tensor, "tokens width"], grid_size: Pair, num_prefix_tokens: int
) -> Float[Tensor, "rows columns rows columns"]:
    r"""Cosine between the vectors of every two places; ``[i, j]`` is the tile of place (i, j).

    .. math:: p \cdot p' \,/\, (\lVert p \rVert\, \lVert p' \rVert)

    ViT paper, figure 7 (centre). Rows of prefix tokens are left out. A vector of zeros has no
    direction: its similarities are nan.

    Args:
        table: prefix rows first, then the grid row by row.
        grid_size: (rows, columns) of the patches.
        num_prefix_tokens: rows of the table that stand for no patch; 0 if it has none.

    Raises:
        TypeError: complex numbers.
        ValueError: another number of rows than prefix and grid make, a side below 1, a prefix
            below 0, vectors without a number, or NaN or infinity.
    """
    places = _on_grid(table, grid_size, num_prefix_tokens)
    length = places.norm(dim=-1, keepdim=True)
    units = places / length
    return torch.einsum("ijd,kld->ijkl", units, units)


class MirrorSimilarity(NamedTuple):
    """Mean cosines of places in one row (or column), each pair of one distance weighing alike.

    Attributes:
        mirrored: of places that mirror each other.
        others: of the other pairs in that row that are just as far apart: the control.
    """

    mirrored: float
    others: float


def mirror_similarity(
    table: Float[Tensor, "tokens width"],
    grid_size: Pair,
    num_prefix_tokens: int,
    *,
    upside_down: bool = False,
) -> MirrorSimilarity:
    """Are mirrored places more alike than two places of one row that are as far apart?

    Alike they may be for other reasons: all places of a row can share something, and a slow wave
    comes back. Pairs nearer than three eighths of the side are left out, since near places are
    alike, and the two ends of a row, since no other pair is as far apart.

    Args:
        upside_down: mirror top and bottom and compare within columns, instead of left and right
            within rows.

    Raises:
        ValueError: as :func:`positional_similarity`, or a side below 5.
    """
    tiles = positional_similarity(table, grid_size, num_prefix_tokens)
    if upside_down:
        tiles = rearrange(tiles, "i j k l -> j i l k")
    side = tiles.shape[1]
    if side < 5:
        raise ValueError(f"a side of {side} places: expected 5 at least, to compare pairs")
    rows = tiles.diagonal(dim1=0, dim2=2)  # of one row alone: "columns columns rows"
    found = []
    for apart in range(side - 3, 0, -2):  # mirrored pairs are an odd, or an even, number apart
        if apart >= 3 * side / 8:
            pairs = rows.diagonal(apart)  # "rows pairs"; the mirrored one stands in the middle
            middle = pairs.shape[1] // 2
            others = torch.cat([pairs[:, :middle], pairs[:, middle + 1 :]], dim=1)
            found.append((pairs[:, middle].mean(), others.mean()))
    mirrored, others = torch.tensor(found, dtype=torch.float64).mean(0).tolist()
    return MirrorSimilarity(mirrored, others)


def position_norms(
    table: Float[Tensor, "tokens width"], grid_size: Pair, num_prefix_tokens: int
) -> Float[Tensor, "rows columns"]:
    """Length of the vector of each place.

    Arguments and errors are those of :func:`positional_similarity`.
    """
    return _on_grid(table, grid_size, num_prefix_tokens).norm(dim=-1)


def position_tables(model: nn.Module) -> dict[str, PositionTable]:
    """The tables of vectors that a model adds to its tokens, by path; layers may have their own.

    Ours (learned in one dimension or two, waves, at the stem or at each layer), timm's, also those
    without rows for the prefix, torchvision's and Hugging Face's ViT.

    Raises:
        ValueError: a model without such a table.

    Example:
        >>> import vitbook
        >>> from vitbook.analysis import position_tables, positional_similarity
        >>> ((path, table),) = position_tables(vitbook.create_model("vit_micro_patch2_8")).items()
        >>> path, table.grid_size, tuple(positional_similarity(*table).shape)
        ('position', (4, 4), (4, 4, 4, 4))
    """
    tables = {}
    for path, module in model.named_modules():
        found = _table(module)
        if found is not None:
            table, grid_size = found
            prefix = len(table) - grid_size[0] * grid_size[1]
            tables[path.removeprefix("_orig_mod.")] = PositionTable(table, grid_size, prefix)
    if not tables:
        raise ValueError(
            f"{type(model).__name__} adds no table of positions to its tokens: expected a model "
            "with learned or sinusoidal positions; relative ones are about pairs, not places, and "
            "some models have none"
        )
    return tables


def _table(module: nn.Module) -> tuple[Tensor, Pair] | None:
    """Where each library keeps its table, and the grid that it was made for."""
    home = type(module).__module__
    if home.startswith("vitbook."):
        # A relative position has a table too: the vectors of offsets.
        if not hasattr(module, "table") or hasattr(module, "vectors_of_pairs"):
            return None
        rows, columns = module.grid_size
        return module.table.detach(), (rows, columns)
    if home.startswith("timm.") and isinstance(getattr(module, "pos_embed", None), nn.Parameter):
        if module.pos_embed.ndim != 3 or not hasattr(module, "patch_embed"):
            return None
        return module.pos_embed[0].detach(), tuple(module.patch_embed.grid_size)
    if home == "torchvision.models.vision_transformer" and hasattr(module, "class_token"):
        side = module.image_size // module.patch_size
        return module.encoder.pos_embedding[0].detach(), (side, side)
    if home == "transformers.models.vit.modeling_vit" and hasattr(module, "position_embeddings"):
        patches = module.patch_embeddings
        (height, width), (down, across) = patches.image_size, patches.patch_size
        return module.position_embeddings[0].detach(), (height // down, width // across)
    return None


def _on_grid(
    table: Tensor, grid_size: Pair, num_prefix_tokens: int
) -> Float[Tensor, "rows columns width"]:
    """The rows of the patches on their grid, in float32 at least."""
    sides = tuple(grid_size) if isinstance(grid_size, Sequence) else (grid_size,)
    if len(sides) != 2 or not all(is_whole_number(side) and side > 0 for side in sides):
        raise ValueError(
            f"grid_size {grid_size!r}: expected (rows, columns), whole numbers above 0"
        )
    if not is_whole_number(num_prefix_tokens) or num_prefix_tokens < 0:
        raise ValueError(f"num_prefix_tokens {num_prefix_tokens!r}: expected 0 or more")
    if table.ndim != 2 or not table.shape[1]:
        raise ValueError(f"a table of shape {tuple(table.shape)}: expected (tokens, width)")
    if table.is_complex():
        raise TypeError("the table is complex: expected real numbers, torch.view_as_real(table)")
    rows, columns = sides
    if len(table) != num_prefix_tokens + rows * columns:
        raise ValueError(
            f"a table of {len(table)} rows, but {num_prefix_tokens} prefix tokens and a grid of "
            f"{rows}x{columns} make {num_prefix_tokens + rows * columns}: give those that it was "
            "made for"
        )
    if not table.isfinite().all():
        raise ValueError("the table holds NaN or infinity: expected finite numbers")
    exact = table.detach().to(torch.promote_types(table.dtype, torch.float32))
    return rearrange(exact[num_prefix_tokens:], "(rows columns) d -> rows columns d", rows=rows)
