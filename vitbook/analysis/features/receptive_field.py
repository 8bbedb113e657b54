"""What a token can see of the image: by the formula, and by the gradient."""

from collections.abc import Iterable, Sequence
from copy import deepcopy

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitbook.analysis.capture.layout import Pair
from vitbook.analysis.capture.outputs import capture_outputs
from vitbook.analysis.capture.running import as_model_takes, takes_images
from vitbook.analysis.features.channels import map_maker
from vitbook.blocks import find_layers
from vitbook.devices import float64_device
from vitbook.errors import check_count
from vitbook.model_utilities import evaluating


def window(kernels_and_strides: Iterable[tuple[int, int]]) -> int:
    r"""Pixels on a side that one output of stacked windows sees, far from the border.

    .. math:: r_\mathrm{in} = s\,(r_\mathrm{out} - 1) + k

    from the last layer, where :math:`r_\mathrm{out} = 1`, back to the image. A patch embedding
    is one window whose stride is its kernel; the three soft splits of T2T-ViT, (7, 4), (3, 2) and
    (3, 2), see 31 pixels.

    Args:
        kernels_and_strides: (kernel, stride) of each layer, the one on the image first.

    Example:
        >>> from vitbook.analysis import window
        >>> window([(7, 4), (3, 2), (3, 2)])
        31
    """
    size = 1
    for kernel, stride in reversed(list(kernels_and_strides)):
        if min(kernel, stride) < 1:
            raise ValueError(f"kernel {kernel} and stride {stride}: expected at least 1")
        size = stride * (size - 1) + kernel
    return size


def pixels_seen(
    tokenizer: nn.Module,
    image_size: Sequence[int],
    channels: int = 3,
    tokens: Iterable[int] | None = None,
) -> Bool[Tensor, "tokens height width"]:
    """Which pixels change a token: the support of its gradient, on the real module.

    A copy of the module runs in evaluation mode on one random image, in float64 so that a small
    gradient is not taken for none.

    Args:
        tokenizer: images to "batch tokens width": a tokenizer of ours, or any such module.
        image_size: (height, width) in pixels.
        channels: of the image.
        tokens: numbers of the tokens, row by row; by default all.

    Raises:
        ValueError: the module gives no tokens for such an image, or not that one.

    Example:
        >>> from vitbook.analysis import pixels_seen
        >>> from vitbook.layers import PatchEmbedding
        >>> seen = pixels_seen(PatchEmbedding(32, 8, 3, 64), (32, 32), tokens=[0, 5])
        >>> tuple(seen.shape), seen.sum((1, 2)).tolist()
        ((2, 32, 32), [64, 64])
    """
    place = float64_device(next(tokenizer.parameters(), torch.zeros(())).device)
    copy = deepcopy(tokenizer).eval().to(place).double()
    image = torch.rand(1, channels, *image_size, dtype=torch.float64, device=place)
    out = copy(image.requires_grad_())
    if out.ndim != 3 or not out.requires_grad:
        raise ValueError(
            f"{type(tokenizer).__name__} gave {tuple(out.shape)}: expected tokens, "
            "(batch, tokens, width), that depend on the image"
        )
    chosen = range(out.shape[1]) if tokens is None else list(tokens)
    if wrong := [token for token in chosen if not 0 <= token < out.shape[1]]:
        raise ValueError(f"token {wrong[0]}: expected 0 to {out.shape[1] - 1}")
    mixed = (out[0] * torch.rand_like(out[0])).sum(-1)
    seen = []
    for token in chosen:
        (gradient,) = torch.autograd.grad(mixed[token], image, retain_graph=True)
        seen.append((gradient[0] != 0).any(0))
    return torch.stack(seen)


@takes_images(gradients=True)
def effective_field(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    layer: str | int | None = None,
    place: Pair | None = None,
    *,
    seed: int = 0,
    batch_size: int = 8,
    grid_size: Pair | None = None,
    num_prefix_tokens: int | None = None,
) -> Float[Tensor, "height width"]:
    r"""How much each pixel moves a layer's token, averaged over images.

    .. math:: \frac{1}{n} \sum_x \sum_c \Big(\frac{\partial\, r_x^\top z_{ij}(x)}
              {\partial x_{c,p}}\Big)^2, \qquad r_x \in \{-1, 1\}^D \text{ at random}

    The effective receptive field of Luo et al. 2016, section 2, in squares: over the signs the
    mean is the sum of :math:`(\partial z_{ij,d} / \partial x_{c,p})^2` over all numbers of the
    token. The sum of the numbers themselves will not do here: behind a LayerNorm it is nearly
    constant, and has no gradient. Far pixels that a token *can* see (:func:`pixels_seen`) may move
    it next to nothing. The model runs in evaluation mode; its modes and the ``.grad`` of its
    parameters are left as they were.

    Args:
        model: ours, timm's, torchvision's or Hugging Face's ViT, or a convolutional network.
        images: normalised as the model takes them.
        layer: path of a module that gives tokens or a map, or number of a block; by default the
            last block.
        place: (row, column) of the token on its grid; by default the middle one.
        seed: of the signs; one draw for each image.
        batch_size: images at a time.
        grid_size: (rows, columns) of patches, for a model that does not say it.
        num_prefix_tokens: likewise.

    Raises:
        TypeError: images that are not floating point.
        ValueError: no images, NaN in them, no layers, an output that does not lie on the grid or
            does not depend on the image, or no such place.
        UnknownNameError: a layer that is not there; names the nearest.
        RuntimeError: a layer that did not run.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.analysis import effective_field
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> images = torch.rand(4, 1, 8, 8) * 2 - 1
        >>> field = effective_field(model, images, "tokenizer", place=(0, 0))
        >>> tuple(field.shape), int((field > 0).sum())  # of one patch
        ((8, 8), 4)
    """
    check_count("batch_size", batch_size)
    layers = find_layers(model, None if layer is None else [layer])[-1:]
    as_map = map_maker(model, images, grid_size, num_prefix_tokens)
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(())
    for batch in images.split(batch_size):
        inputs = as_model_takes(model, batch).detach().clone().requires_grad_()
        with (
            torch.enable_grad(),
            evaluating(model),
            capture_outputs(model, layers, as_map) as outputs,
        ):
            model(inputs)
            if not outputs:
                raise RuntimeError(f"layer {layers[0]} did not run: expected one that is called")
            tokens = _at(outputs[layers[0]], place)
            signs = torch.randint(2, tokens.shape, generator=generator).to(tokens) * 2 - 1
            if tokens.requires_grad:
                mixed = (tokens * signs).sum()
                (gradient,) = torch.autograd.grad(mixed, inputs, allow_unused=True)
            if not tokens.requires_grad or gradient is None:
                raise ValueError(
                    f"{layers[0]} gives what does not depend on the image: expected a layer "
                    "that sees it"
                )
        exact = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
        total = total.to(exact) + exact.square().sum((0, 1))
    return total / len(images)


def _at(maps: Tensor, place: Pair | None) -> Float[Tensor, "batch channels"]:
    rows, columns = maps.shape[2:]
    row, column = (rows // 2, columns // 2) if place is None else place
    if not (0 <= row < rows and 0 <= column < columns):
        raise ValueError(
            f"place ({row}, {column}) on a grid of {rows}x{columns}: expected a row from 0 to "
            f"{rows - 1} and a column from 0 to {columns - 1}"
        )
    return maps[:, :, row, column]
