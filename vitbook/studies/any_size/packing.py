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

from vitbook.errors import first_few
from vitbook.figures.token_packer import packed
from vitbook.layers import (
    MLP,
    Attention,
    Encoder,
    EncoderBlock,
    LearnedPosition,
    LearnedPosition2D,
    PatchEmbedding,
    SelfAttention,
    SinusoidPosition,
    SinusoidPosition2D,
    SwiGLU,
    resize_patch_kernel,
    resize_positions,
)
from vitbook.layers.shapes import Images, Size, TokensOfImages
from vitbook.layers.tokenizers import check_images, divide_into_patches, pair
from vitbook.models import VisionTransformer

_TABLES = (LearnedPosition, LearnedPosition2D, SinusoidPosition, SinusoidPosition2D)


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


def block_mask(
    lengths: Sequence[int], device: torch.device | None = None
) -> Bool[Tensor, "tokens tokens"]:
    """True where two tokens of a sequence belong to one image.

    Example:
        >>> from vitbook.studies.any_size.packing import block_mask
        >>> block_mask([1, 2]).int()
        tensor([[1, 0, 0],
                [0, 1, 1],
                [0, 1, 1]], dtype=torch.int32)
    """
    counts = torch.tensor(lengths, dtype=torch.int64)
    image = torch.arange(len(counts)).repeat_interleave(counts).to(device)
    return image[:, None] == image


def embed_any(
    model: VisionTransformer,
    images: Images,
    patch_size: Size | None = None,
    method: str = "timm_bicubic",
) -> TokensOfImages:
    """Tokens of images of any size, in patches of any size, with the weights that the model has.

    As ``embed`` of the model that :func:`vitbook.models.change_input` makes; the model stays.

    Args:
        patch_size: by default the model's own.
        method: of the positions, see :func:`vitbook.layers.resize_positions`.

    Raises:
        TypeError: images of whole numbers.
        ValueError: images that the patch does not divide, of other channels or without a batch; a
            model without a plain :class:`vitbook.layers.PatchEmbedding` or a table of positions.
    """
    tokenizer, position = (getattr(model, part, None) for part in ("tokenizer", "position"))
    if type(tokenizer) is not PatchEmbedding or type(position) not in _TABLES:
        raise ValueError(
            f"images of any size for a {type(model).__name__} with a {type(tokenizer).__name__} "
            f"and a {type(position).__name__}: expected a Vision Transformer with a "
            f"PatchEmbedding and a {' or '.join(kind.__name__ for kind in _TABLES)}"
        )
    check_images(images, tokenizer.channels, None)
    layer, prefix = tokenizer.projection, model.prefix
    patch = tokenizer.patch if patch_size is None else pair(patch_size, "patch size")
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


def _kinds(block: nn.Module) -> tuple[type, ...]:
    """Of its parts in which tokens could meet."""
    if not isinstance(block, EncoderBlock):
        return (type(block),)
    return type(block.attention), type(getattr(block.attention, "core", None)), type(block.mlp)


@contextmanager
def attending_within(encoder: nn.Module, mask: Bool[Tensor, "tokens tokens"]) -> Iterator[None]:
    """Inside, each self-attention of the encoder has this mask.

    Raises:
        ValueError: an encoder in which tokens may meet elsewhere than in plain self-attention.
    """
    blocks = list(getattr(encoder, "blocks", []))
    found = [kind for block in blocks for kind in _kinds(block)]
    odd = {type(encoder), *found} - {Encoder, SelfAttention, Attention, MLP, SwiGLU}
    if odd:
        raise ValueError(
            f"packed images in an encoder with {first_few(sorted(k.__name__ for k in odd))}: only "
            "plain SelfAttention is masked, and others would let images hear each other; compute "
            "each image alone"
        )
    layers = [block.attention for block in blocks]
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
        ValueError: what :func:`embed_any` and :func:`attending_within` refuse; an image with more
            tokens than a sequence, or with NaN or infinity, which would reach its neighbours.
    """
    for number, image in enumerate(images):
        if not image.isfinite().all():
            raise ValueError(f"image {number} holds NaN or infinity: expected finite numbers")
    tokens = [embed_any(model, image[None])[0] for image in images]
    lengths = [len(each) for each in tokens]
    found: dict[int, Tensor] = {}
    for sequence in first_fit(lengths, most):
        parts = [lengths[image] for image in sequence]
        with attending_within(model.encoder, block_mask(parts, tokens[0].device)):
            features = model.encoder(torch.cat([tokens[image] for image in sequence])[None])[0]
        found |= dict(zip(sequence, features.split(parts), strict=True))
    return [found[image] for image in range(len(tokens))]
