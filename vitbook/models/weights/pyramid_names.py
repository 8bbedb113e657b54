"""What timm calls the parameters of Swin, PVT v2 and Hiera, in the form of :mod:`.names`.

timm counts blocks stage by stage, we count them through the whole encoder.
"""

import re
from itertools import accumulate
from math import prod

from torch import nn

from vitbook.layers import (
    BlockLocalSelfAttention,
    QueryPoolingAttention,
    SpatialReductionAttention,
    WindowSelfAttention,
)
from vitbook.models.papers.pyramid import PyramidTransformer
from vitbook.models.weights.names import Names

# Ours -> timm's: inside a block, between two stages, around all of them.
_BLOCK = {
    "norm1": "norm1",
    "norm2": "norm2",
    "attention.projection": "attn.proj",
    "mlp.expand": "mlp.fc1",
    "mlp.contract": "mlp.fc2",
}
_SWIN_BLOCK = _BLOCK | {
    "attention.qkv": "attn.qkv",
    "attention.bias.table": "attn.relative_position_bias_table",
}
_SWIN_BETWEEN = {"norm": "downsample.norm", "reduction": "downsample.reduction"}
_PVT_BLOCK = _BLOCK | {
    "attention.q": "attn.q",
    "attention.kv": "attn.kv",
    "attention.reduced.convolution.layer": "attn.sr",
    "attention.reduced.norm": "attn.norm",
    "mlp.convolution.layer": "mlp.dwconv",
}
_PVT_BETWEEN = {"convolution.layer": "downsample.proj", "norm": "downsample.norm"}
_HIERA_BLOCK = _BLOCK | {"attention.qkv": "attn.qkv", "widen": "proj"}
_AROUND = {"tokenizer.projection": "patch_embed.proj", "tokenizer.norm": "patch_embed.norm"}


def timm_pyramid_names(model: PyramidTransformer) -> Names:
    """Rules for this model; none if timm has no such pyramid."""
    kinds, depths = {type(part) for part in model.modules()}, model.encoder.depths
    if WindowSelfAttention in kinds:
        around = _AROUND | {"encoder.norm": "norm", "head.classifier": "head.fc"}
        inside = _in_stages(depths, "layers", _SWIN_BLOCK, _SWIN_BETWEEN)
    elif SpatialReductionAttention in kinds:
        last = f"stages.{len(depths) - 1}.norm"
        around = _AROUND | {"encoder.norm": last, "head.classifier": "head"}
        # What ends a stage stands in front of the next one here.
        around |= {
            f"encoder.blocks.{first}.shrink.last": f"stages.{stage}.norm"
            for stage, first in enumerate(accumulate(depths[:-1]))
        }
        inside = _in_stages(depths, "stages", _PVT_BLOCK, _PVT_BETWEEN)
    elif QueryPoolingAttention in kinds:
        around = _AROUND | {"head.norm": "head.norm", "head.classifier": "head.fc"}
        inside = {
            f"encoder.blocks.{number}.{ours}": f"blocks.{number}.{theirs}"
            for number in range(sum(depths))
            for ours, theirs in _HIERA_BLOCK.items()
        }
    else:
        return ()
    table = (r"^position\.table$", "pos_embed", "n d -> 1 n d")  # Hiera's alone
    return (table, *(_rule(ours, theirs) for ours, theirs in (around | inside).items()))


def of_hiera(model: PyramidTransformer, source: nn.Module) -> dict[str, tuple[list, list]]:
    """What timm's Hiera and ours compute beside their weights: its name, theirs, ours."""
    theirs, ours = [block.attn for block in source.blocks], []
    units = []
    for block, other in zip(model.encoder.blocks, theirs, strict=False):
        layer, local = block.attention, isinstance(block.attention, BlockLocalSelfAttention)
        ours.append(prod(layer.block_size) if local else 0)
        # A unit as large as the map is the map.
        whole = prod(layer.grid_size) if local else 0
        units.append(other.window_size * other.q_stride if other.use_mask_unit_attn else whole)
    pools = [isinstance(b.attention, QueryPoolingAttention) for b in model.encoder.blocks]
    return {
        "tokens of a mask unit, block by block": (units, ours),
        "the first mask unit": (
            list(source.mask_unit_size),
            list(model.encoder.blocks[0].attention.block_size),
        ),
        "queries that become one": ([o.q_stride for o in theirs], [4 if p else 1 for p in pools]),
        "zeros around the image": (
            list(source.patch_embed.proj.padding),
            list(model.tokenizer.projection.padding),
        ),
        "pooling of the last map": ([source.head.pool_type], ["avg"]),
    }


def _in_stages(
    depths: tuple[int, ...], stages: str, block: dict[str, str], between: dict[str, str]
) -> dict[str, str]:
    names = {}
    for stage, depth in enumerate(depths):
        for place in range(depth):
            number = f"encoder.blocks.{sum(depths[:stage]) + place}"
            # The first block of a later stage stands behind what shrinks.
            shrinks = stage > 0 and place == 0
            here = f"{number}.block" if shrinks else number
            for ours, theirs in block.items():
                names[f"{here}.{ours}"] = f"{stages}.{stage}.blocks.{place}.{theirs}"
            for ours, theirs in between.items() if shrinks else ():
                names[f"{number}.shrink.{ours}"] = f"{stages}.{stage}.{theirs}"
    return names


def _rule(ours: str, theirs: str) -> tuple[str, str, str]:
    return rf"^{re.escape(ours)}(?=\.|$)", theirs, ""
