"""What each layer shows on the grid, and which of its channels are dead or far too large."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitbook.analysis.capture.layout import Pair, of_layer, token_layout
from vitbook.analysis.capture.map_layout import channels_first
from vitbook.analysis.capture.outputs import outputs_of
from vitbook.analysis.capture.running import takes_images
from vitbook.blocks import find_layers, list_blocks
from vitbook.errors import check_count


@dataclass(frozen=True)
class ChannelHealth:
    """Which channels of one layer say nothing, and which drown the others.

    Attributes:
        dead: the same number at every place of every image.
        saturated: far larger than the layer's other channels, somewhere.
        magnitudes: the largest of each channel.
    """

    dead: Bool[Tensor, " channels"]
    saturated: Bool[Tensor, " channels"]
    magnitudes: Float[Tensor, " channels"]

    @property
    def dead_share(self) -> float:
        return self.dead.float().mean().item()

    @property
    def saturated_share(self) -> float:
        return self.saturated.float().mean().item()


@takes_images()
def feature_maps(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    layers: Sequence[str | int] | None = None,
    *,
    batch_size: int = 8,
    grid_size: Pair | None = None,
    num_prefix_tokens: int | None = None,
) -> dict[str, Float[Tensor, "images _ _ _"]]:
    """What layers give out for some images, each channel as an image.

    A map stays as it is; where its channels come last, they are put in front. Tokens lose their
    prefix and are laid on the grid, those between the soft splits of Tokens-to-Token on the split's
    own. The model runs in evaluation mode without gradients, and every part is left in the mode in
    which it came.

    Args:
        model: ours, timm's, torchvision's or Hugging Face's ViT, or a convolutional network.
        images: normalised as the model takes them.
        layers: paths of modules, or numbers of blocks (:func:`list_blocks`); by default the
            convolutions in front, the tokenizer's layers and every block.
        batch_size: images at a time.
        grid_size: (rows, columns) of patches, for a model that does not say it.
        num_prefix_tokens: likewise.

    Returns:
        Path -> maps, "images channels rows columns", in the order in which the layers ran.

    Raises:
        TypeError: images that are not floating point.
        ValueError: no images, NaN in them, no layers, or an output that does not lie on the grid.
        UnknownNameError: a layer that is not there; names the nearest.
        RuntimeError: a layer that did not run.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.analysis import feature_maps
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> blocks = ["encoder.blocks.0", "encoder.blocks.3"]
        >>> maps = feature_maps(model, torch.rand(3, 1, 8, 8), blocks)
        >>> {layer: tuple(map.shape) for layer, map in maps.items()}
        {'encoder.blocks.0': (3, 64, 4, 4), 'encoder.blocks.3': (3, 64, 4, 4)}
    """
    check_count("batch_size", batch_size)
    chosen = find_layers(model, default_layers(model) if layers is None else layers)
    as_map = map_maker(model, images, grid_size, num_prefix_tokens)
    batches = [outputs_of(model, batch, chosen, as_map) for batch in images.split(batch_size)]
    return {path: torch.cat([maps[path] for maps in batches]) for path in batches[0]}


def dead_and_saturated(
    maps: dict[str, Float[Tensor, "_ _ _ _"]], factor: float = 10.0
) -> dict[str, ChannelHealth]:
    r"""Which channels of :func:`feature_maps` are dead, and which are far too large.

    Over all images and places of a layer, channel c has a range :math:`\max - \min` and a largest
    magnitude :math:`m_c`. It is

    - dead, if its range is at most a millionth of its layer's median range: zero everywhere, or
      one number everywhere up to rounding;
    - saturated, if :math:`m_c` is more than ``factor`` times the median of :math:`m` among the
      channels that are not dead.

    The factor is a choice of this book, not of a paper. A network may need its large channels:
    the rule finds them, and says nothing about harm.

    Raises:
        ValueError: no maps, NaN or infinity in one, or a factor that is not above 1.
    """
    if not maps or not factor > 1:
        raise ValueError(f"{len(maps)} layers and factor {factor}: expected 1 and more than 1")
    return {path: _health(path, layer, factor) for path, layer in maps.items()}


def _health(path: str, maps: Tensor, factor: float) -> ChannelHealth:
    channels = rearrange(maps, "b d rows columns -> d (b rows columns)")
    channels = channels.to(torch.promote_types(maps.dtype, torch.float32))
    if not channels.isfinite().all():
        raise ValueError(f"{path}: maps hold NaN or infinity: expected finite numbers")
    low, high = channels.aminmax(dim=1)
    magnitudes = torch.maximum(low.abs(), high.abs())
    dead = high - low <= 1e-6 * (high - low).median()
    usual = magnitudes[~dead].median() if not dead.all() else inf
    return ChannelHealth(dead, ~dead & (magnitudes > factor * usual), magnitudes)


def default_layers(model: nn.Module) -> tuple[str, ...]:
    """Layers worth a look, from the image on: see :func:`feature_maps`."""
    blocks = list_blocks(model)
    found = []
    for path, module in model.named_modules():
        path = path.removeprefix("_orig_mod.")
        tokenizer, _, name = path.rpartition(".")
        inside = any(path.startswith(f"{block}.") for block in blocks)
        of_tokenizer = tokenizer.endswith("tokenizer") and (
            name == "projection" or name.startswith("block")
        )
        if path in blocks or of_tokenizer or (isinstance(module, nn.Conv2d) and not inside):
            found.append(path)
    return tuple(found)


def map_maker(
    model: nn.Module, images: Tensor, grid_size: Pair | None, num_prefix_tokens: int | None
) -> Callable[[str, Tensor], Float[Tensor, "batch channels rows columns"]]:
    """A function that lays the output of the layer at a path on its grid."""
    splits = {
        f"{path}.block{number}".removeprefix("_orig_mod."): grid
        for path, module in model.named_modules()
        if hasattr(module, "soft_splits")
        for number, grid in enumerate(module.grids, start=1)
    }

    paths = dict(model.named_modules(remove_duplicate=False))

    def as_map(path: str, output: Tensor) -> Tensor:
        if output.ndim == 4:
            module = paths.get(path) or paths[f"_orig_mod.{path}"]
            with of_layer(path):
                return channels_first(module, output, model, images)
        if output.ndim != 3:
            raise ValueError(
                f"{path} gives {tuple(output.shape)}: expected tokens, (batch, tokens, width), or "
                "a map, (batch, channels, rows, columns)"
            )
        split = next((s for s in splits if f"{path}.".startswith(f"{s}.")), None)
        if split is not None:
            grid, prefix = splits[split], 0
        else:
            grid, prefix = token_layout(
                model, images, grid_size=grid_size, num_prefix_tokens=num_prefix_tokens
            )
        (rows, columns), tokens = grid, output.shape[1]
        if tokens == rows * columns:  # before the prefix is put in front
            prefix = 0
        if tokens != prefix + rows * columns:
            raise ValueError(
                f"{path} gives {tokens} tokens, but {prefix} prefix tokens and a grid of "
                f"{rows}x{columns} make {prefix + rows * columns}: pass grid_size= and "
                "num_prefix_tokens=, or leave this layer out"
            )
        return rearrange(output[:, prefix:], "b (rows columns) d -> b d rows columns", rows=rows)

    return as_map
