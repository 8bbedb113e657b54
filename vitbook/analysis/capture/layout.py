"""Where a model's patches lie among its tokens and in its image."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import contains
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
        said = _said(model, images)
        given = {name: said.get(name) if it is None else it for name, it in given.items()}
    for name, value in given.items():
        if value is None:
            raise ValueError(f"{type(model).__name__} does not say its {name}: pass {name}=")
    return tuple(given.values())


def _said(model: nn.Module, images: Tensor) -> dict[str, Any]:
    return next(filter(None, (_layout(each, images) for each in model.modules())), {})


def token_step(model: nn.Module, images: Tensor, grid_size: Pair) -> Pair:
    """Pixels that a token steps, down and across, on the model's own grid, by what the model says.

    A model may pad images, or leave a border out: they do not divide by its grid then, or by
    chance into patches of another size. On any other grid: :func:`pixels_per_token`.

    Raises:
        ValueError: as :func:`pixels_per_token`.
    """
    grid_size, said = _as_grid(grid_size), _said(model, images)
    if "step" in said and said["grid_size"] == grid_size:
        return said["step"]
    return _step_of_kernels(model, images, grid_size) or pixels_per_token(images, grid_size)


def _step_of_kernels(model: nn.Module, images: Tensor, grid_size: Pair) -> Pair | None:
    """Of a model that says no step: of the one convolution that cuts images into this grid."""
    steps = set()
    for part in model.modules():
        if isinstance(part, nn.Conv2d) and part.in_channels == images.shape[1]:
            sides = zip(images.shape[-2:], part.stride, strict=True)
            cut = tuple({side // step, -(-side // step)} for side, step in sides)  # or padded
            if part.kernel_size == part.stride and all(map(contains, cut, grid_size)):
                steps.add(tuple(part.stride))
    return steps.pop() if len(steps) == 1 else None


def pixels_per_patch(model: nn.Module, images: Tensor, grid_size: Pair) -> Pair:
    """As :func:`token_step`, of images that the patches cover, no pixel more and none less.

    Raises:
        ValueError: the model pads the images or leaves a border out; or as :func:`token_step`.
    """
    step, size = token_step(model, images, grid_size), tuple(images.shape[-2:])
    covered = tuple(number * each for number, each in zip(grid_size, step, strict=True))
    if covered != size:
        raise ValueError(
            f"images of {size[0]}x{size[1]}, of which {type(model).__name__} makes "
            f"{grid_size[0]}x{grid_size[1]} patches of {step[0]}x{step[1]} pixels, "
            f"{covered[0]}x{covered[1]} in all: expected images that its patches divide; cut or "
            "resize them"
        )
    return step


def _layout(module: nn.Module, images: Tensor) -> dict[str, Any]:
    """Grid and prefix where each library keeps them; empty for a module that has none."""
    height, width = images.shape[-2:]
    home, prefix = type(module).__module__, getattr(module, "num_prefix_tokens", None)
    if prefix is not None and hasattr(module, "grid_size"):
        return {"grid_size": tuple(module.grid_size), "num_prefix_tokens": prefix}
    if prefix is not None and home.startswith("timm."):
        # Asked with the size, since a model made with dynamic_img_size takes any.
        embed = getattr(module, "patch_embed", None)
        if not hasattr(embed, "dynamic_feat_size"):
            return {"num_prefix_tokens": prefix}
        grid, step = embed.dynamic_feat_size((height, width)), embed.feat_ratio(as_scalar=False)
        return {"num_prefix_tokens": prefix, "grid_size": tuple(grid), "step": tuple(step)}
    if home == "torchvision.models.vision_transformer" and hasattr(module, "class_token"):
        down = across = module.patch_size
    elif home == "transformers.models.vit.modeling_vit" and hasattr(module, "cls_token"):
        down, across = module.patch_embeddings.patch_size
    else:
        return {}
    grid = (height // down, width // across)
    return {"grid_size": grid, "num_prefix_tokens": 1, "step": (down, across)}


def has_class_token(model: nn.Module) -> bool:
    """Whether the first prefix token is a class token; of models that do not say it, it is.

    timm's may have registers alone (``class_token=False, reg_tokens=4``).
    """
    said = (part for part in model.modules() if getattr(part, "num_prefix_tokens", None))
    return all(getattr(part, "cls_token", part) is not None for part in said)


def pixels_per_token(images: Tensor, grid_size: Pair) -> Pair:
    """What a token steps, down and across: the image's size over the grid's.

    Asked of the image and not of the model, since the "patch size" of a hybrid is one cell of
    its feature map.

    Raises:
        ValueError: the grid is no two whole numbers above 0, or does not divide the image.
    """
    (height, width), (rows, columns) = images.shape[-2:], _as_grid(grid_size)
    if height % rows or width % columns:
        raise ValueError(
            f"image {height}x{width} on a grid of {rows}x{columns} patches leaves no whole number "
            "of pixels for each: pass patch_size="
        )
    return height // rows, width // columns


def _as_grid(grid_size: Pair) -> Pair:
    sides = tuple(grid_size) if isinstance(grid_size, Sequence) else (grid_size,)
    if len(sides) != 2 or not all(is_whole_number(side) and side > 0 for side in sides):
        raise ValueError(f"a grid of {sides}: expected (rows, columns), whole numbers above 0")
    return sides


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
            "Linformer attention mixes all the patches and has no place of its own, one of PVT's "
            "is a token of a smaller map, a query of Hiera's stands for four tokens, neighborhood "
            "attention has a window for each, and a head that pools asks with no token"
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
