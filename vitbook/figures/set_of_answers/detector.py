"""A detector's weights as a page gets them, and what `detector.js` computes with them."""

import re
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vitbook.figures.parts.plain_vit import (
    answer,
    attend,
    attention,
    count_blocks,
    encode,
    halves,
    mlp,
    norm,
    page_weights,
)
from vitbook.model_utilities import evaluating

MOST = 220_000  # weights, of two bytes each
_ALIKE = 0.02  # of a probability, and of the canvas: float16 weights change 0.002 of it
_OUTSIDE = ("decoder.norm", "class_head", "box_head.layers.0", "box_head.layers.2",
            "box_head.layers.4")  # fmt: skip
_INSIDE = ("norm1", "attention.qkv", "attention.projection", "norm2", "cross_attention.to_queries",
           "cross_attention.to_keys", "cross_attention.to_values", "cross_attention.projection",
           "norm3", "mlp.expand", "mlp.contract")  # fmt: skip


class Said(NamedTuple):
    """What the queries say of one canvas.

    Attributes:
        chances: "queries classes + 1", the last one of "no object".
        boxes: "queries 4", centre x, centre y, width and height in shares of the canvas.
        looks: "queries tokens", attention to the image in the last block, mean of the heads.
    """

    chances: np.ndarray
    boxes: np.ndarray
    looks: np.ndarray


class _ImageEncoder(nn.Module):
    """Of a detector what a plain Vision Transformer has too, without prefix tokens."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.tokenizer, self.position, self.encoder = (
            model.tokenizer, model.position, model.encoder,
        )  # fmt: skip
        self.prefix = nn.Parameter(model.queries.detach()[:0])
        self.grid_size = model.grid_size


def detector_weights(model: nn.Module) -> dict[str, Tensor]:
    """All weights in float16, under the names that the page's code uses.

    Raises:
        ValueError: another architecture, more weights than a page should carry, or weights that
            float16 does not hold.
    """
    found = {name: value.detach() for name, value in model.state_dict().items()}
    behind = ("queries", "decoder", "class_head", "box_head")
    ours = {name: value for name, value in found.items() if name.split(".")[0] in behind}
    blocks = {int(m[1]) for name in ours if (m := re.match(r"decoder\.blocks\.(\d+)\.", name))}
    layers = [*_OUTSIDE, *(f"decoder.blocks.{i}.{part}" for i in blocks for part in _INSIDE)]
    wanted = {"queries", *(f"{each}.{kind}" for each in layers for kind in ("weight", "bias"))}
    if odd := sorted(wanted ^ set(ours)):
        raise ValueError(
            f"the page does not know {type(model).__name__}: {odd[0]!r} is "
            f"{'missing' if odd[0] in wanted else 'extra'}, expected a detector whose queries "
            "attend to one another, and to all tokens rather than to a few points"
        )
    if (count := sum(value.numel() for value in found.values())) > MOST:
        raise ValueError(
            f"{type(model).__name__} has {count:,} weights, expected at most {MOST:,}: a page "
            "fetches two bytes for each; pass a smaller one"
        )
    return page_weights(_ImageEncoder(model), head=False) | halves(ours)


@torch.no_grad()
def said_of(
    weights: dict[str, Tensor], heads: int, step: tuple[int, int], canvas: np.ndarray
) -> Said:
    """What the page computes, in float32.

    Args:
        step: pixels from patch to patch.
        canvas: uint8 "height width".
    """
    tokens, _ = encode(weights, heads, torch.from_numpy(canvas)[None, None], step=step)
    x = weights["queries"].float()[None]
    for i in range(count_blocks(weights, "decoder")):
        block = f"decoder.blocks.{i}"
        x = x + attention(weights, block, heads, norm(weights, f"{block}.norm1", x))[0]
        asked, cross = norm(weights, f"{block}.norm2", x), f"{block}.cross_attention"
        q, k, v = (answer(weights, f"{cross}.to_{name}", of) for name, of in
                   (("queries", asked), ("keys", tokens), ("values", tokens)))  # fmt: skip
        read, looked = attend(weights, f"{cross}.projection", heads, q, k, v)
        x = x + read
        x = x + mlp(weights, block, norm(weights, f"{block}.norm3", x))
    (x,) = norm(weights, "decoder.norm", x)
    box = answer(weights, "box_head.layers.0", x).relu()
    box = answer(weights, "box_head.layers.2", box).relu()
    return Said(
        answer(weights, "class_head", x).softmax(-1).numpy(),
        answer(weights, "box_head.layers.4", box).sigmoid().numpy(),
        looked[0].mean(0).numpy(),
    )


@torch.no_grad()
def check_computed(model: nn.Module, said: Said, canvas: np.ndarray) -> None:
    """A model whose parts have these names may still compute another thing, such as a ReLU.

    Raises:
        ValueError: it does.
    """
    like = next(model.parameters())
    image = torch.from_numpy(canvas)[None, None].to(like) / 127.5 - 1
    with evaluating(model):
        logits, boxes = (each[0].float().cpu() for each in model(image))
    apart = max(
        np.abs(said.chances - logits.softmax(-1).numpy()).max(),
        np.abs(said.boxes - boxes.numpy()).max(),
    )
    if not apart < _ALIKE:
        raise ValueError(
            f"the page's answers of {type(model).__name__} differ from the model's by {apart:.2g} "
            "of a probability or of the canvas: expected GELU in its MLPs, and LayerNorm before "
            "attention and MLP"
        )
