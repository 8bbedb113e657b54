"""Which axis of a map holds the channels: libraries put it first or last."""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

FIRST, LAST = "first", "last"
# Modules that read one axis as the channels, whatever the sizes are.
OF_FIRST = (
    nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.InstanceNorm2d, nn.GroupNorm, nn.MaxPool2d,
    nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.PixelShuffle, nn.Upsample,
)  # fmt: skip
OF_LAST = (nn.Linear, nn.LayerNorm)


def channels_axis(module: nn.Module, map: Tensor, model: nn.Module, images: Tensor) -> str:
    """Whether the channels of a map are its "first" axis behind the batch, or its "last".

    torch's own convolutions and the like say it by what they are. Of another module the map has
    the image's proportions one way and not the other; where both ways fit or none, it is asked
    which axis the module reads, then whether all that it is made of agrees, or all of the model.

    Args:
        module: that gave the map.
        map: of four axes.
        model: that the module is a part of.
        images: that it was asked about.

    Raises:
        ValueError: it cannot be told.
    """
    if type(module) in OF_FIRST:
        return FIRST
    size, (_, one, two, three) = tuple(images.shape[-2:]), map.shape
    fits = {FIRST: _misfit((two, three), size), LAST: _misfit((one, two), size)}
    likely, near = min(fits, key=fits.get), (fits[FIRST] <= 1) != (fits[LAST] <= 1)
    if (fits[FIRST] == 0) != (fits[LAST] == 0):
        return likely
    if near and isinstance(module, nn.Linear):  # it may mix columns
        return likely
    if known := _of_itself(module, map):
        return known
    linear = [part for part in model.modules() if isinstance(part, nn.Linear)]
    head = linear if len(linear) == 1 else []  # one alone is behind the maps
    around = [part for part in model.modules() if part not in head]
    for parts in (list(module.modules())[1:], around):
        inside = {known for part in parts if (known := _of_kind(part))}
        if len(inside) == 1:
            return inside.pop()
    if near:  # a border was cut or padded
        return likely
    raise ValueError(
        f"this {type(module).__name__} gives {tuple(map.shape)} of images of {size[0]}x{size[1]}, "
        "and which axis holds the channels cannot be told: expected a map whose rows and columns "
        "have the image's proportions; pass a convolution or a linear layer, or images of another "
        "size"
    )


def channels_first(
    module: nn.Module, map: Tensor, model: nn.Module, images: Tensor
) -> Float[Tensor, "batch channels rows columns"]:
    """The map with its channels in front; as it came, if they are there.

    Raises:
        ValueError: as :func:`channels_axis`.
    """
    if channels_axis(module, map, model, images) == FIRST:
        return map
    return rearrange(map, "b rows columns d -> b d rows columns")


class ChannelsFirst(nn.Module):
    """The same as a module, for what looks at modules."""

    def forward(
        self, map: Float[Tensor, "batch rows columns channels"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        return rearrange(map, "b rows columns d -> b d rows columns")


def _of_itself(module: nn.Module, map: Tensor) -> str:
    """What a module says of its own map, where its width is that of one axis alone."""
    if not isinstance(module, OF_LAST):
        return _of_kind(module)
    shape = (module.out_features,) if isinstance(module, nn.Linear) else module.normalized_shape
    _, one, _, three = map.shape
    if type(module) is nn.LayerNorm and len(shape) == 1:
        return LAST
    return {(True, False): FIRST, (False, True): LAST}.get((shape == (one,), shape == (three,)), "")


def _of_kind(module: nn.Module) -> str:
    if isinstance(module, OF_FIRST):
        return FIRST
    if isinstance(module, nn.LayerNorm) and len(module.normalized_shape) > 1:
        return ""  # as wide as a whole map: either way
    if isinstance(module, OF_LAST):  # libraries build theirs for maps on LayerNorm, named so
        return FIRST if "2d" in type(module).__name__ else LAST
    return ""


def _misfit(grid: tuple[int, int], size: tuple[int, int]) -> float:
    """In cells: how far rows by columns are from the proportions of the image."""
    (rows, columns), (height, width) = grid, size
    return abs(rows * width - columns * height) / max(height, width)
