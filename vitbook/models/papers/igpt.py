"""Image GPT (Chen et al. 2020, "Generative Pretraining from Pixels"): pixels read one by one."""

from collections.abc import Sequence

from torch import nn

from vitbook.layers import CausalSelfAttention, LearnedPosition, MeanPoolHead, PatchEmbedding
from vitbook.models.papers.vit import DIGITS, MICRO_BODY, VisionTransformer, make_encoder


def igpt(
    *,
    image_size: int | Sequence[int],
    patch_size: int | Sequence[int] = 1,
    channels: int = 3,
    width: int,
    depth: int,
    num_heads: int,
    mlp_width: int,
    num_classes: int,
    qkv_bias: bool = True,
) -> VisionTransformer:
    """A Vision Transformer whose tokens see themselves and those in front of them, row by row.

    The class token comes first and sees nothing: it is the paper's start of the sequence. The
    token behind pixel i knows the pixels up to i, and so can predict the next one; the head reads
    the mean of the pixels' tokens, as in section 2.3. The paper looks each of its 512 colours up
    in a table. Here, as in every model of the catalogue, the value is multiplied by a learned
    vector, so that greys which are close start close.

    Args:
        patch_size: in pixels; the paper's is 1.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, width)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, width),
        encoder=make_encoder(
            width, depth, num_heads, mlp_width, qkv_bias, make_attention=CausalSelfAttention
        ),
        head=MeanPoolHead(width, num_classes, num_prefix_tokens=1),
        width=width,
    )


def is_causal(model: nn.Module) -> bool:
    """Whether it is a Vision Transformer whose tokens see none that comes behind them."""
    return isinstance(model, VisionTransformer) and all(
        isinstance(getattr(block, "attention", None), CausalSelfAttention)
        for block in model.encoder.blocks
    )


# Settings of `igpt`.
IGPT_MODELS = {"igpt_micro_patch1_8": DIGITS | MICRO_BODY | dict(patch_size=1)}
