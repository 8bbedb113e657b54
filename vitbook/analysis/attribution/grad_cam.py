"""Grad-CAM on the maps of a convolutional network and on the tokens of a Transformer, by Captum."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.analysis.attribution.captum_maps import attributed, captum
from vitbook.analysis.capture.frames import has_attention
from vitbook.analysis.capture.layout import Pair, token_layout
from vitbook.analysis.capture.map_layout import LAST, ChannelsFirst, channels_axis
from vitbook.analysis.capture.record import claim, record_modules
from vitbook.analysis.capture.running import batches, encoder_of, logits_of, takes_images
from vitbook.blocks import list_blocks
from vitbook.model_utilities import evaluating


@takes_images(gradients=True)
def map_grad_cam(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"] | None = None,
    *,
    layer: nn.Module | None = None,
    signed: bool = False,
    per_place: bool = False,
    batch_size: int = 32,
) -> Float[Tensor, "batch rows columns"]:
    r"""The channels of a convolution's map, weighted by what a logit gains from each.

    Selvaraju et al. 2017, "Grad-CAM", equations 1 and 2 (Captum's ``LayerGradCam``):

    .. math::
        L = \mathrm{ReLU}\Big(\sum_k \alpha_k A^k\Big), \qquad
        \alpha_k = \frac{1}{n} \sum_{ij} \frac{\partial y}{\partial A^k_{ij}}

    Args:
        model: gives logits, "batch classes"; left as it came, modes and gradients too.
        images: as the model takes them.
        targets: the class that is asked about, of each image; by default the model's answer.
        layer: gives "batch channels rows columns", or the channels last; by default, in a model
            without attention, the last that does, with more than one place. Of a layer that is
            called several times, the last call counts.
        signed: leave the ReLU out.
        per_place: leave the mean out: each place's channels by the gradient at that place, summed
            (Draelos and Carin 2020, "HiResCAM").
        batch_size: images at a time.

    Raises:
        ModuleNotFoundError: Captum is not installed.
        ValueError: a class that the model does not have, not one for each image, a layer of
            another model, one that gives no such map or one of which the channels' axis cannot be
            told, a model without one, or a layer from
            which nothing reaches the logits.
        RuntimeError: another thread looks into the model.

    Example:
        >>> import vitbook
        >>> from vitbook.analysis import map_grad_cam
        >>> from vitbook.datasets import load, normalize
        >>> model = vitbook.load_checkpoint("digits-resnet8_digits-digits-seed0").model
        >>> tuple(map_grad_cam(model, normalize(load("digits", "test").images[:3])).shape)
        (3, 2, 2)
    """
    first = next(batches(model, images, 1))
    layer = _last_map(model, first) if layer is None else layer
    _check_part(layer, model)
    axis = _check_map(layer, model, first)
    with claim(model), evaluating(model), ExitStack() as hooks:
        if axis == LAST:  # Captum takes the mean over the last two axes
            turn = ChannelsFirst()

            def turned(_: nn.Module, args: tuple, output: Tensor) -> Tensor:
                return rearrange(turn(output), "b d rows columns -> b rows columns d")

            hooks.enter_context(_hooked(layer, model, turned))
            layer = turn
        cams = _cams(model, images, targets, layer, per_place, batch_size)
    return cams if signed else F.relu(cams)


@takes_images(gradients=True)
def token_grad_cam(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"] | None = None,
    *,
    layer: nn.Module | None = None,
    signed: bool = False,
    per_place: bool = False,
    batch_size: int = 32,
    grid_size: Pair | None = None,
    num_prefix_tokens: int | None = None,
) -> Float[Tensor, "batch rows columns"]:
    """The channels of a layer's tokens, weighted by what a logit gains from each.

    :func:`map_grad_cam`, but the map is the patch tokens, laid on their grid, without the prefix.
    Captum's ``LayerGradCam`` expects channels on the second axis, where a layer of tokens has their
    places; so the tokens are laid on their grid before Captum sees them.

    Args:
        model: gives logits, "batch classes"; left as it came, modes and gradients too.
        images: as the model takes them.
        targets: the class that is asked about, of each image; by default the model's answer.
        layer: gives "batch tokens width"; by default the last block but one. After the last
            block a class token is all that the head reads, and a patch has no gradient.
        signed: leave the ReLU out.
        per_place: leave the mean out: each token's channels by the gradient at that token, summed
            (Draelos and Carin 2020, "HiResCAM").
        batch_size: images at a time.
        grid_size: (rows, columns) of patches, for a model that does not say it.
        num_prefix_tokens: likewise.

    Raises:
        ModuleNotFoundError: Captum is not installed.
        ValueError: a class that the model does not have, not one for each image, a layer of
            another model, or one that does not give such tokens or from which no patch reaches
            the logits, or a model that does not say its grid or its blocks.
    """
    grid_size, prefix = token_layout(
        model, images, grid_size=grid_size, num_prefix_tokens=num_prefix_tokens
    )
    layer = last_block_but_one(model) if layer is None else layer
    _check_part(layer, model)
    lay = _OnGrid(grid_size, prefix)

    def through_the_grid(module: nn.Module, args: tuple, output: Tensor | tuple):
        tokens, *rest = output if isinstance(output, tuple) else (output,)
        patches = rearrange(lay(tokens), "b d rows columns -> b (rows columns) d")
        tokens = torch.cat([tokens[:, :prefix], patches], dim=1)
        return (tokens, *rest) if isinstance(output, tuple) else tokens

    with evaluating(model), _hooked(layer, model, through_the_grid):
        cams = _cams(model, images, targets, lay, per_place, batch_size)
    if not cams.any():
        raise ValueError(
            f"from this {type(layer).__name__} no patch reaches the logits: expected a layer "
            "before the last attention; after it the head reads the class token alone"
        )
    return cams if signed else F.relu(cams)


def _check_part(layer: nn.Module, model: nn.Module) -> None:
    if all(module is not layer for module in model.modules()):
        raise ValueError(
            f"this {type(layer).__name__} is no part of the {type(model).__name__}: pass one of "
            "its own modules as layer="
        )


def _cams(
    model: nn.Module,
    images: Tensor,
    targets: Tensor | None,
    layer: nn.Module,
    per_place: bool,
    batch_size: int,
) -> Tensor:
    """Before the ReLU."""
    kind = captum().LayerGradientXActivation if per_place else captum().LayerGradCam
    method = kind(logits_of(model), layer)
    maps = attributed(method, model, images, targets, batch_size)
    return maps.sum(1)  # of one channel, but for per_place


def _hooked(layer: nn.Module, model: nn.Module, hook: Callable) -> AbstractContextManager:
    """A forward hook on one part of a model, which this thread alone looks into."""

    def watch(_: str, module: nn.Module) -> list:
        return [module.register_forward_hook(hook)] if module is layer else []

    return record_modules(model, watch)


class _OnGrid(nn.Module):
    """Patch tokens as a map: what Captum looks at."""

    def __init__(self, grid_size: Pair, num_prefix_tokens: int):
        super().__init__()
        self.grid_size, self.num_prefix_tokens = grid_size, num_prefix_tokens

    def forward(
        self, tokens: Float[Tensor, "batch tokens width"]
    ) -> Float[Tensor, "batch width rows columns"]:
        rows, columns = self.grid_size
        expected = self.num_prefix_tokens + rows * columns
        if tokens.ndim != 3 or tokens.shape[1] != expected:
            raise ValueError(
                f"the layer gave {tuple(tokens.shape)}: expected (batch, {expected}, width), "
                f"{self.num_prefix_tokens} prefix tokens and a grid of {rows}x{columns}"
            )
        patches = tokens[:, self.num_prefix_tokens :]
        return rearrange(patches, "b (rows columns) d -> b d rows columns", rows=rows)


def _last_map(model: nn.Module, image: Tensor) -> nn.Module:
    """The module whose last call was the last to give a map with more than one place."""
    if has_attention(model):  # a map of attention has four axes too
        raise ValueError(
            f"{type(model).__name__} has an attention in it: pass the convolution as layer=, or "
            "use token_grad_cam"
        )
    maps: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, _: tuple, output: Any) -> None:
        maps.pop(module, None)  # Captum looks at a module's last call
        if isinstance(output, Tensor) and output.ndim == 4 and output[0].numel() > 1:
            maps[module] = output

    with (
        torch.no_grad(),
        evaluating(model),
        record_modules(model, lambda _, module: [module.register_forward_hook(keep)]),
    ):
        model(image.clone())
    for module, map in reversed(maps.items()):
        try:
            last = channels_axis(module, map, model, image) == LAST
        except ValueError:  # it will be said of this layer
            return module
        if (map[0, :, :, 0] if last else map[0, 0]).numel() > 1:
            return module
    raise ValueError(
        f"{type(model).__name__} gives no map (batch, channels, rows, columns) on the way: "
        "for tokens use token_grad_cam"
    )


def _check_map(layer: nn.Module, model: nn.Module, image: Tensor) -> str:
    """Which axis holds the channels; refuses a layer without a map, or without a say in logits."""
    name, given = type(layer).__name__, []

    def keep(_: nn.Module, images: tuple, output: Any) -> None:
        given.append(output)

    with torch.enable_grad(), evaluating(model), _hooked(layer, model, keep):
        logits = logits_of(model)(image.clone().requires_grad_() + 0)
        total = logits.sum()
    if not given:
        raise ValueError(f"this {name} did not run: pass a layer= that the model calls")
    map = given[-1]
    if not isinstance(map, Tensor) or map.ndim != 4 or len(map) != 1:
        what = tuple(map.shape) if isinstance(map, Tensor) else f"a {type(map).__name__}"
        raise ValueError(
            f"this {name} gives no map of one image, but {what}: expected (1, channels, rows, "
            "columns); for tokens use token_grad_cam"
        )
    reaches = logits.requires_grad and map.requires_grad
    if not reaches or torch.autograd.grad(total, map, allow_unused=True)[0] is None:
        raise ValueError(
            f"nothing of what this {name} gives reaches the logits with a gradient: pass another "
            "layer="
        )
    return channels_axis(layer, map, model, image)


def last_block_but_one(model: nn.Module) -> nn.Module:
    """The block that feeds the last one with an attention in it.

    Raises:
        ValueError: fewer than two blocks with an attention.
    """
    part, _ = encoder_of(model)
    blocks = [part.get_submodule(path) for path in list_blocks(part)]
    attending = [block for block in blocks if has_attention(block)]
    if len(attending) > 1:
        return attending[-2]
    raise ValueError(
        f"{type(model).__name__} has no two blocks with an attention in them: pass layer="
    )
