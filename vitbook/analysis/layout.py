"""Where a model's patches lie among its tokens and in its image."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from vitbook.errors import is_whole_number

Pair = tuple[int, int]


def token_layout(model: nn.Module, images: Tensor, **given: Any) -> tuple:
    """``grid_size`` or ``num_prefix_tokens``: what the caller gave, or what the model says.

    Ours, timm's, torchvision's and Hugging Face's ViT say both, also from inside a wrapper.

    Args:
        images: what the model will take; foreign models know their grid from its size.
        given: names that are asked for; None where the model is to answer.

    Returns:
        The answers, in the order of the names.

    Raises:
        ValueError: neither the caller nor the model says it.
    """
    if None in given.values():
        said = next(filter(None, (_layout(each, images) for each in model.modules())), {})
        given = {name: said.get(name) if it is None else it for name, it in given.items()}
    for name, value in given.items():
        if value is None:
            raise ValueError(f"{type(model).__name__} does not say its {name}: pass {name}=")
    return tuple(given.values())


def _layout(module: nn.Module, images: Tensor) -> dict[str, Any]:
    """Grid and prefix where each library keeps them; empty for a module that has none."""
    height, width = images.shape[-2:]
    home, prefix = type(module).__module__, getattr(module, "num_prefix_tokens", None)
    if prefix is not None and hasattr(module, "grid_size"):
        return {"grid_size": tuple(module.grid_size), "num_prefix_tokens": prefix}
    if prefix is not None and home.startswith("timm."):
        # Asked with the size, since a model made with dynamic_img_size takes any.
        ask = getattr(getattr(module, "patch_embed", None), "dynamic_feat_size", None)
        grid = {} if ask is None else {"grid_size": tuple(ask((height, width)))}
        return {"num_prefix_tokens": prefix} | grid
    if home == "torchvision.models.vision_transformer" and hasattr(module, "class_token"):
        down = across = module.patch_size
    elif home == "transformers.models.vit.modeling_vit" and hasattr(module, "cls_token"):
        down, across = module.patch_embeddings.patch_size
    else:
        return {}
    return {"grid_size": (height // down, width // across), "num_prefix_tokens": 1}


def pixels_per_token(images: Tensor, grid_size: Pair) -> Pair:
    """What a token steps, down and across: the image's size over the grid's.

    Asked of the image and not of the model, since the "patch size" of a hybrid is one cell of
    its feature map.

    Raises:
        ValueError: the grid is no two whole numbers above 0, or does not divide the image.
    """
    sides = tuple(grid_size) if isinstance(grid_size, Sequence) else (grid_size,)
    if len(sides) != 2 or not all(is_whole_number(side) and side > 0 for side in sides):
        raise ValueError(f"a grid of {sides}: expected (rows, columns), whole numbers above 0")
    (height, width), (rows, columns) = images.shape[-2:], sides
    if height % rows or width % columns:
        raise ValueError(
            f"image {height}x{width} on a grid of {rows}x{columns} patches leaves no whole number "
            "of pixels for each: pass patch_size="
        )
    return height // rows, width // columns


def as_pairs(heads: Iterable[Pair]) -> list[Pair]:
    """Heads as (layer, head), whole numbers.

    Raises:
        ValueError: what is no such pair.
    """
    try:
        pairs = [(layer, head) for layer, head in heads]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"heads came as {heads!r}: expected pairs (layer, head), as [(0, 2), (3, 1)]"
        ) from error
    for layer, head in pairs:
        if not (is_whole_number(layer) and is_whole_number(head)):
            raise ValueError(f"head ({layer!r}, {head!r}): expected whole numbers (layer, head)")
    return pairs


@contextmanager
def of_layer(path: str) -> Iterator[None]:
    """What is refused in the block is refused with the layer's name in front."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def check_square(shape: tuple[int, ...]) -> None:
    """Whether maps of this shape have a key for each query.

    Raises:
        ValueError: they have not.
    """
    queries, keys = shape[-2:]
    if queries != keys:
        raise ValueError(
            f"a map of {queries} queries by {keys} keys: expected tokens by tokens; a key of "
            "Linformer attention mixes all the patches and has no place of its own, and a head "
            "that pools by attention asks with a query that is no token"
        )


def check_map(shape: tuple[int, ...], grid_size: Pair, num_prefix_tokens: int) -> None:
    """Whether maps of this shape are "batch heads tokens tokens" over the whole grid.

    Raises:
        ValueError: they are not.
    """
    if len(shape) != 4:
        raise ValueError(f"a map of shape {tuple(shape)}: expected (batch, heads, queries, keys)")
    check_square(shape)
    rows, columns = grid_size
    if shape[-1] != num_prefix_tokens + rows * columns:
        raise ValueError(
            f"maps of {shape[-1]} tokens, but {num_prefix_tokens} prefix tokens and a grid "
            f"of {rows}x{columns} make {num_prefix_tokens + rows * columns}: give those that these "
            "maps have; axial and block-local attention, a row, a column or a block at a time, has "
            "no map of the whole grid"
        )
