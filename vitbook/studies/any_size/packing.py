"""Images of several sizes in one sequence: each attends to its own tokens (NaViT).

Dehghani et al. 2023, "Patch n' Pack: NaViT, a Vision Transformer for any aspect ratio and
resolution", sections 2.1 and 2.2. Positions are those of a resized table here; the paper has one
learned vector for the row and one for the column.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitbook.figures.token_packer import packed
from vitbook.layers import Attention, SelfAttention, resize_patch_kernel, resize_positions
from vitbook.layers.shapes import Images, Size, TokensOfImages
from vitbook.layers.tokenizers import divide_into_patches, pair
from vitbook.models import VisionTransformer


def first_fit(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Which images lie in which sequence: each goes into the first that has room for it.

    Args:
        lengths: tokens of each image.
        most: tokens of a sequence.

    Raises:
        ValueError: an image that is longer than a sequence.

    Example:
        >>> from vitbook.studies.any_size.packing import first_fit
        >>> first_fit([5, 6, 4, 2], 10)
        [[0, 2], [1, 3]]
    """
    for image, length in enumerate(lengths):
        if length > most:
            raise ValueError(
                f"image {image} has {length} tokens, a sequence {most} at most: show it smaller, "
                "take larger patches, or allow longer sequences"
            )
    return packed(lengths, most)


def block_mask(lengths: Sequence[int]) -> Bool[Tensor, "tokens tokens"]:
    """True where two tokens of a sequence belong to one image.

    Example:
        >>> from vitbook.studies.any_size.packing import block_mask
        >>> block_mask([1, 2]).int()
        tensor([[1, 0, 0],
                [0, 1, 1],
                [0, 1, 1]], dtype=torch.int32)
    """
    image = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths, dtype=torch.int64))
    return image[:, None] == image


def embed_any(
    model: VisionTransformer,
    images: Images,
    patch_size: Size | None = None,
    method: str = "bicubic",
) -> TokensOfImages:
    """Tokens of images of any size, in patches of any size, with the weights that the model has.

    As ``embed`` of the model that :func:`vitbook.models.change_input` makes; the model stays.

    Args:
        patch_size: by default the model's own.
        method: of the positions, see :func:`vitbook.layers.resize_positions`.

    Raises:
        ValueError: images that the patch does not divide.
    """
    layer, position, prefix = model.tokenizer.projection, model.position, model.prefix
    patch = model.tokenizer.patch if patch_size is None else pair(patch_size, "patch size")
    grid = divide_into_patches(tuple(images.shape[2:]), patch)
    patches = F.conv2d(images, resize_patch_kernel(layer.weight, patch), layer.bias, patch)
    first = repeat(prefix, "n d -> b n d", b=len(images))
    tokens = torch.cat([first, rearrange(patches, "b d r c -> b (r c) d")], dim=1)
    return tokens + resize_positions(position.table, position.grid_size, grid, len(prefix), method)


class _Within(Attention):
    """Attention in which a token sees the tokens of its own image, and no others."""

    def __init__(self, mask: Bool[Tensor, "tokens tokens"]):
        super().__init__()
        self.mask = mask

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: None = None) -> Tensor:
        return super().forward(q, k, v, self.mask)


@contextmanager
def attending_within(encoder: nn.Module, mask: Bool[Tensor, "tokens tokens"]) -> Iterator[None]:
    """Inside, each self-attention of the encoder has this mask."""
    layers = [part for part in encoder.modules() if type(part) is SelfAttention]
    cores = [layer.core for layer in layers]
    for layer in layers:
        layer.core = _Within(mask)
    try:
        yield
    finally:
        for layer, core in zip(layers, cores, strict=True):
            layer.core = core


def packed_features(
    model: VisionTransformer, images: Sequence[Float[Tensor, "c _ _"]], most: int
) -> list[Float[Tensor, "_ width"]]:
    """Of each image its tokens after the last norm, computed in sequences of at most ``most``.

    Raises:
        ValueError: an image that the patch does not divide, or with more tokens than a sequence.
    """
    tokens = [embed_any(model, image[None])[0] for image in images]
    lengths = [len(each) for each in tokens]
    found: dict[int, Tensor] = {}
    for sequence in first_fit(lengths, most):
        parts = [lengths[image] for image in sequence]
        with attending_within(model.encoder, block_mask(parts)):
            features = model.encoder(torch.cat([tokens[image] for image in sequence])[None])[0]
        found |= dict(zip(sequence, features.split(parts), strict=True))
    return [found[image] for image in range(len(tokens))]
