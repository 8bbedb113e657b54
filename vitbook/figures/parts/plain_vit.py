"""A plain Vision Transformer as a page gets it, and what the page computes with it."""

import re

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor, nn

_OUTSIDE = ("tokenizer.projection.weight", "tokenizer.projection.bias", "prefix", "position.table",
            "encoder.norm.weight", "encoder.norm.bias")  # fmt: skip
_HEAD = ("head.classifier.weight", "head.classifier.bias")
_INSIDE = ("norm1", "attention.qkv", "attention.projection", "norm2", "mlp.expand", "mlp.contract")


def page_weights(model: nn.Module, *, head: bool = True) -> dict[str, Tensor]:
    """The model's weights rounded to float16, under the names that the page's code uses.

    Args:
        head: with the classifier; without it what stands behind the tokens is not asked for.

    Raises:
        ValueError: another architecture, or weights that float16 does not hold.
    """
    found = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    if not head:
        found = {name: value for name, value in found.items() if not name.startswith("head.")}
    blocks = {int(m[1]) for name in found if (m := re.match(r"encoder\.blocks\.(\d+)\.", name))}
    for i in blocks:  # a projection without a bias is one with zeros
        block = f"encoder.blocks.{i}.attention.qkv"
        if f"{block}.weight" in found and f"{block}.bias" not in found:
            found[f"{block}.bias"] = torch.zeros(len(found[f"{block}.weight"]))
    if isinstance(getattr(model, "position", None), nn.Module) and "prefix" in found:
        found = {name: value for name, value in found.items() if not name.startswith("position.")}
        found["position.table"] = _positions(model)
    wanted = {*_OUTSIDE, *(_HEAD if head else ())} | {
        f"encoder.blocks.{i}.{part}.{kind}"
        for i in range(len(blocks)) for part in _INSIDE for kind in ("weight", "bias")
    }  # fmt: skip
    if odd := sorted(wanted ^ set(found)):
        raise ValueError(
            f"the page does not know {type(model).__name__}: {odd[0]!r} is "
            f"{'missing' if odd[0] in wanted else 'extra'}, expected the parts of a plain "
            "Vision Transformer: pass vit_micro_patch2_8 or one built like it"
        )
    return halves(found)


@torch.no_grad()
def _positions(model: nn.Module) -> Tensor:
    """What its positions, of whatever kind, add to tokens "tokens width"."""
    rows, columns = model.grid_size
    nothing = model.prefix.new_zeros(len(model.prefix) + rows * columns, model.prefix.shape[-1])
    return model.position(nothing[None])[0].cpu()


def halves(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """In float16.

    Raises:
        ValueError: numbers that it does not hold.
    """
    rounded = {name: value.detach().cpu().half() for name, value in weights.items()}
    for name, value in rounded.items():
        if not value.isfinite().all():
            raise ValueError(
                f"{name!r} holds NaN, infinity or numbers beyond 65,504: expected weights that "
                "float16 holds, as a page gets them"
            )
    return rounded


def shapes(weights: dict[str, Tensor]) -> list:
    """Names and shapes, in the order in which :func:`values` has the numbers."""
    return [[name, list(value.shape)] for name, value in weights.items()]


def values(weights: dict[str, Tensor]) -> np.ndarray:
    """All numbers in a row."""
    return np.concatenate([value.numpy().ravel() for value in weights.values()])


def count_heads(model: nn.Module) -> int:
    return int(model.encoder.blocks[0].attention.num_heads)


@torch.no_grad()
def encode(
    weights: dict[str, Tensor],
    num_heads: int,
    images: Tensor,
    masked: Tensor | None = None,
    step: tuple[int, int] | None = None,
) -> tuple[Tensor, Tensor]:
    """What `vision_transformer.js` computes, in float32.

    Args:
        images: uint8 "b c h w".
        masked: bool "b patches": where the weight "mask" stands in the embedding's place.
        step: pixels from patch to patch, of patches that overlap.

    Returns:
        Tokens after the last norm "b tokens width", prefix first, and attention
        "layers b heads queries keys".
    """
    kernel = weights["tokenizer.projection.weight"].float()
    sides = kernel.shape[2:]
    step = sides if step is None else step
    beyond = [(side - one) // 2 for side, one in zip(sides, step, strict=True)]
    pixels = (images.float() / 255 - 0.5) / 0.5
    x = F.conv2d(pixels, kernel, weights["tokenizer.projection.bias"].float(), step, beyond)
    x = rearrange(x, "b width rows columns -> b (rows columns) width")
    if masked is not None:
        x = torch.where(masked[..., None], weights["mask"].float(), x)
    prefix = weights["prefix"].float().reshape(-1, x.shape[-1])
    x = torch.cat([repeat(prefix, "n d -> b n d", b=len(x)), x], dim=1)
    x = x + weights["position.table"].float()
    maps = []
    for i in range(count_blocks(weights, "encoder")):
        block = f"encoder.blocks.{i}"
        mixed, looked = attention(weights, block, num_heads, norm(weights, f"{block}.norm1", x))
        x = x + mixed
        x = x + mlp(weights, block, norm(weights, f"{block}.norm2", x))
        maps.append(looked)
    return norm(weights, "encoder.norm", x), torch.stack(maps)


def count_blocks(weights: dict[str, Tensor], where: str) -> int:
    return sum(bool(re.fullmatch(rf"{where}\.blocks\.\d+\.norm1\.bias", name)) for name in weights)


def answer(weights: dict[str, Tensor], layer: str, tokens: Tensor) -> Tensor:
    """One linear layer behind the tokens, in float32."""
    return F.linear(tokens, weights[f"{layer}.weight"].float(), weights[f"{layer}.bias"].float())


def norm(weights: dict[str, Tensor], layer: str, tokens: Tensor) -> Tensor:
    scale, shift = (weights[f"{layer}.{kind}"].float() for kind in ("weight", "bias"))
    return F.layer_norm(tokens, tokens.shape[-1:], scale, shift, 1e-6)


def mlp(weights: dict[str, Tensor], block: str, tokens: Tensor) -> Tensor:
    hidden = F.gelu(answer(weights, f"{block}.mlp.expand", tokens))
    return answer(weights, f"{block}.mlp.contract", hidden)


def attention(
    weights: dict[str, Tensor], block: str, num_heads: int, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Among the tokens themselves: what each is given, and the map "b heads queries keys"."""
    parts = answer(weights, f"{block}.attention.qkv", tokens).chunk(3, dim=-1)
    return attend(weights, f"{block}.attention.projection", num_heads, *parts)


def attend(
    weights: dict[str, Tensor], projection: str, num_heads: int, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor]:
    """Queries read keys and values, all "b n width": what each is given, and the map."""
    q, k, v = (rearrange(each, "b n (h d) -> b h n d", h=num_heads) for each in (q, k, v))
    looked = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return answer(weights, projection, rearrange(looked @ v, "b h n d -> b n (h d)")), looked
