"""Image GPT (Chen et al. 2020, "Generative Pretraining from Pixels"): pixels read one by one.

The tokens of a Vision Transformer see themselves and those in front of them, row by row. The class
token comes first and sees nothing: it is the paper's start of the sequence. The token behind pixel
i knows the pixels up to i, and so can predict the next one; the head reads the mean of the pixels'
tokens, as in section 2.3. The paper looks each of its 512 colours up in a table. Here, as in every
model of the catalogue, the value is multiplied by a learned vector, so that greys which are close
start close.
"""

from functools import partial

from torch import nn

from vitbook.layers import CausalSelfAttention, MeanPoolHead
from vitbook.models.papers.vit import MICRO, VisionTransformer, vit

# The paper's patches, too, are of one pixel.
IGPT = dict(
    patch_size=1,
    make_attention=CausalSelfAttention,
    make_head=partial(MeanPoolHead, num_prefix_tokens=1),
)


def is_causal(model: nn.Module) -> bool:
    """Whether it is a Vision Transformer whose tokens see none that comes behind them."""
    return isinstance(model, VisionTransformer) and all(
        isinstance(getattr(block, "attention", None), CausalSelfAttention)
        for block in model.encoder.blocks
    )


# Settings of `vit`.
IGPT_MODELS = {"igpt_micro_patch1_8": MICRO | IGPT}

MODELS = {vit: IGPT_MODELS}
