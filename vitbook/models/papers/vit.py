"""The Vision Transformer (Dosovitskiy et al. 2021, "An image is worth 16x16 words")."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from einops import repeat
from torch import nn

from vitbook.layers import (
    MLP,
    ClassTokenHead,
    Dropout,
    Encoder,
    EncoderBlock,
    LearnedPosition,
    PatchEmbedding,
    PostNormBlock,
    SelfAttention,
    layer_norm,
)
from vitbook.layers.heads import Both
from vitbook.layers.shapes import Images, Logits, Size, TokensOfImages


class VisionTransformer(nn.Module):
    r"""Image to patches, patches to tokens, tokens through an encoder, one answer.

    .. math::
        z_0 = [x_\mathrm{class};\, x_p^1 E;\, \ldots;\, x_p^N E] + E_\mathrm{pos}, \qquad
        y = \mathrm{head}(\mathrm{LN}(z_L))

    ViT paper, section 3.1 and figure 1. A variant swaps a part instead of setting a flag.

    Args:
        tokenizer: images to patch tokens; has ``grid_size`` and ``patch_size``.
        position: tells a token its position; applied after the prefix tokens are put in front.
        encoder: tokens to tokens, with the last norm.
        head: tokens to logits.
        width: of a token.
        num_prefix_tokens: learned tokens in front of the patches: 1 is the class token.

    Example:
        >>> import torch
        >>> from vitbook import layers
        >>> from vitbook.models import VisionTransformer
        >>> blocks = [
        ...     layers.EncoderBlock(layers.SelfAttention(64, 4), layers.MLP(64, 128), 64)
        ...     for _ in range(2)
        ... ]
        >>> model = VisionTransformer(
        ...     tokenizer=layers.PatchEmbedding(32, 8, 3, 64),
        ...     position=layers.LearnedPosition((4, 4), 64),
        ...     encoder=layers.Encoder(blocks, 64),
        ...     head=layers.ClassTokenHead(64, 10),
        ...     width=64,
        ... )
        >>> images = torch.zeros(5, 3, 32, 32)
        >>> tuple(model.features(images).shape), tuple(model(images).shape)
        ((5, 17, 64), (5, 10))
    """

    def __init__(
        self,
        tokenizer: nn.Module,
        position: nn.Module,
        encoder: nn.Module,
        head: nn.Module,
        *,
        width: int,
        num_prefix_tokens: int = 1,
    ):
        super().__init__()
        self.tokenizer = tokenizer
        self.prefix = nn.Parameter(torch.zeros(num_prefix_tokens, width))
        self.position = position
        self.dropout = Dropout()
        self.encoder = encoder
        self.head = head

    @property
    def grid_size(self) -> tuple[int, int]:
        """(rows, columns) of the patch tokens."""
        return self.tokenizer.grid_size

    @property
    def patch_size(self) -> int:
        """Pixels that a token steps."""
        return self.tokenizer.patch_size

    @property
    def num_prefix_tokens(self) -> int:
        return len(self.prefix)

    def embed(self, images: Images) -> TokensOfImages:
        """Tokens as they enter the encoder: prefix in front, positions added."""
        patches = self.tokenizer(images)
        prefix = repeat(self.prefix, "n d -> b n d", b=patches.shape[0])
        return self.dropout(self.position(torch.cat([prefix, patches], dim=1)))

    def features(self, images: Images) -> TokensOfImages:
        """Tokens after the last norm, prefix first."""
        return self.encoder(self.embed(images))

    def forward(self, images: Images) -> Logits | Both:
        return self.head(self.features(images))


@dataclass(frozen=True)
class Body:
    """The sizes of an encoder (table 1).

    Attributes:
        width: of a token.
        depth: number of blocks.
        num_heads: of each block's attention.
        mlp_width: hidden width of each block's MLP.
        qkv_bias: whether queries, keys and values have a bias.
    """

    width: int
    depth: int
    num_heads: int
    mlp_width: int
    qkv_bias: bool = True


def make_encoder(
    body: Body,
    make_attention: Callable[..., nn.Module] = SelfAttention,
    make_mlp: Callable[..., nn.Module] = MLP,
    make_block: Callable[..., nn.Module] = EncoderBlock,
    make_norm: Callable[[int], nn.Module] = layer_norm,
) -> Encoder:
    """The paper's encoder: ``body.depth`` blocks alike, and the last norm.

    Args:
        make_attention: called for each block with ``width, num_heads, qkv_bias``.
        make_mlp: called for each block with ``width, mlp_width``.
        make_block: called with ``attention, mlp, width``.
        make_norm: of the last norm, called with ``width``; a block has its own.
    """
    blocks = [
        make_block(
            attention=make_attention(body.width, body.num_heads, body.qkv_bias),
            mlp=make_mlp(body.width, body.mlp_width),
            width=body.width,
        )
        for _ in range(body.depth)
    ]
    return Encoder(blocks, body.width, make_norm)


def vit(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
    num_prefix_tokens: int = 1,
    make_tokenizer: Callable[..., nn.Module] = PatchEmbedding,
    make_position: Callable[..., nn.Module] = LearnedPosition,
    make_attention: Callable[..., nn.Module] = SelfAttention,
    make_mlp: Callable[..., nn.Module] = MLP,
    make_block: Callable[..., nn.Module] = EncoderBlock,
    make_norm: Callable[[int], nn.Module] = layer_norm,
    make_head: Callable[..., nn.Module] = ClassTokenHead,
) -> VisionTransformer:
    """The paper's model of any size (table 1; the small bodies: Lee et al. 2021, SL-ViT code).

    Args:
        num_prefix_tokens: learned tokens in front of the patches.
        make_tokenizer: called with ``image_size, patch_size, channels, width``.
        make_position: called with ``grid_size, width, num_prefix_tokens``.
        make_attention, make_mlp, make_block, make_norm: as in :func:`make_encoder`.
        make_head: called with ``width, num_classes``.

    Example:
        >>> from vitbook.layers import NoPosition
        >>> from vitbook.models.papers.vit import MICRO_BODY, vit
        >>> model = vit(
        ...     image_size=32, patch_size=8, num_classes=10, body=MICRO_BODY,
        ...     make_position=NoPosition,
        ... )
        >>> type(model.position).__name__, len(model.encoder.blocks)
        ('NoPosition', 4)
    """
    tokenizer = make_tokenizer(image_size, patch_size, channels, body.width)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=make_position(tokenizer.grid_size, body.width, num_prefix_tokens),
        encoder=make_encoder(body, make_attention, make_mlp, make_block, make_norm),
        head=make_head(body.width, num_classes),
        width=body.width,
        num_prefix_tokens=num_prefix_tokens,
    )


SIZES = {
    "tiny": Body(width=192, depth=12, num_heads=3, mlp_width=768),
    "small": Body(width=384, depth=12, num_heads=6, mlp_width=1536),
    "base": Body(width=768, depth=12, num_heads=12, mlp_width=3072),
    "large": Body(width=1024, depth=24, num_heads=16, mlp_width=4096),
    "huge": Body(width=1280, depth=32, num_heads=16, mlp_width=5120),
}
# ViT-b of figure 4: "all hidden dimensions halved".
HALF_BASE = Body(width=384, depth=12, num_heads=12, mlp_width=1536)
TINY_BODY = Body(width=192, depth=9, num_heads=12, mlp_width=384, qkv_bias=False)
MINI_BODY = Body(width=96, depth=6, num_heads=6, mlp_width=192, qkv_bias=False)
MICRO_BODY = Body(width=64, depth=4, num_heads=4, mlp_width=128)

# What the small bodies are trained on, and the patches that they cut it into.
IMAGENET = dict(image_size=224, num_classes=1000)
CIFAR10 = dict(image_size=32, patch_size=4, num_classes=10)
TINY_IMAGENET = dict(image_size=64, patch_size=8, num_classes=200)
FLOWERS = dict(image_size=128, patch_size=8, num_classes=5)
DIGITS = dict(image_size=8, patch_size=2, channels=1, num_classes=10)
SMALL_IMAGES = {"patch4_32": CIFAR10, "patch8_64": TINY_IMAGENET, "patch8_128": FLOWERS}
TINY = {patches: images | dict(body=TINY_BODY) for patches, images in SMALL_IMAGES.items()}
MINI = {patches: images | dict(body=MINI_BODY) for patches, images in SMALL_IMAGES.items()}
MICRO = DIGITS | dict(body=MICRO_BODY)
# Learns in a page within seconds.
NANO = DIGITS | dict(body=Body(width=32, depth=2, num_heads=4, mlp_width=64))
MICRO_PIXELS = MICRO | dict(patch_size=1)

POST_NORM = dict(make_block=PostNormBlock)
# Neighbours of the mini: other depths, widths with heads as wide, MLPs, and patches.
MINI_NEIGHBOURS = (
    {f"d{depth}_patch4_32": dict(body=replace(MINI_BODY, depth=depth)) for depth in (2, 3, 12, 24)}
    | {
        f"w{width}_patch4_32": dict(
            body=replace(MINI_BODY, width=width, num_heads=width // 16, mlp_width=2 * width)
        )
        for width in (48, 144, 192)
    }
    | {f"mlp{m}_patch4_32": dict(body=replace(MINI_BODY, mlp_width=m)) for m in (640, 1536)}
    | {f"patch{patch}_32": dict(patch_size=patch) for patch in (2, 8)}
)
# Neighbours of the micro, one dimension changed at a time: about a quarter of its multiply-adds,
# twice and four times as many (d10 and d13: those of the hybrids vit_micro_r8_s2_8 and
# vit_micro_r14_s2_8). Always four heads.
MICRO_NEIGHBOURS = {
    f"{name}_patch2_8": dict(body=replace(MICRO_BODY, **other))
    for name, other in (
        *((f"d{depth}", dict(depth=depth)) for depth in (1, 8, 10, 13, 16)),
        *((f"w{width}", dict(width=width, mlp_width=2 * width)) for width in (32, 92, 128)),
        *((f"mlp{mlp_width}", dict(mlp_width=mlp_width)) for mlp_width in (400, 960)),
    )
} | {f"patch{patch}_8": dict(patch_size=patch) for patch in (1, 4)}

# Everything that `vit` takes, by name; the paper's models are one table times three patch sizes.
VIT_MODELS = (
    {
        f"vit_{size}_patch{patch}_224": IMAGENET | dict(patch_size=patch, body=body)
        for size, body in SIZES.items()
        for patch in (14, 16, 32)
    }
    | {
        "vit_halfbase_patch32_224": IMAGENET | dict(patch_size=32, body=HALF_BASE),
        "vit_postnorm_tiny_patch4_32": TINY["patch4_32"] | POST_NORM,
        "vit_postnorm_mini_patch4_32": MINI["patch4_32"] | POST_NORM,
    }
    | {f"vit_tiny_{patches}": tiny for patches, tiny in TINY.items()}
    | {f"vit_mini_{patches}": mini for patches, mini in MINI.items()}
    | {f"vit_mini_{name}": MINI["patch4_32"] | other for name, other in MINI_NEIGHBOURS.items()}
    | {"vit_micro_patch2_8": MICRO, "vit_postnorm_micro_patch2_8": MICRO | POST_NORM}
    | {f"vit_micro_{name}": MICRO | other for name, other in MICRO_NEIGHBOURS.items()}
    | {f"vit_nano_patch{patch}_8": NANO | dict(patch_size=patch) for patch in (1, 2, 4)}
    | {"vit_postnorm_nano_patch2_8": NANO | POST_NORM}
)

MODELS = {vit: VIT_MODELS}
