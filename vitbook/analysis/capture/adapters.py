"""What attends without a call that can be intercepted: its parts, asked of the module."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vitbook.analysis.capture.calls import AttentionCall
from vitbook.layers.attention.softmax import Attention, GivenAttention

Adapter = Callable[[str, nn.Module, tuple, dict, Any], AttentionCall]


def adapter_of(module: nn.Module) -> Adapter | None:
    """What makes a call of this module's arguments and output; None for all that needs none."""
    if isinstance(module, nn.MultiheadAttention):
        own = "forward" in vars(module) or type(module).forward is not nn.MultiheadAttention.forward
        return None if own else _of_torch
    if isinstance(module, GivenAttention):
        return _of_given
    kind = type(module)
    if isinstance(module, Attention) and kind.forward is not Attention.forward:
        # Whose weights are not its own (a planted fault) is seen as any other.
        return _of_own if kind.weights is not Attention.weights else None
    return None


def _arguments(module: nn.Module, args: tuple, kwargs: dict) -> dict:
    return inspect.signature(module.forward).bind(*args, **kwargs).arguments


def _of_own(
    path: str, module: Attention, args: tuple, kwargs: dict, output: Tensor
) -> AttentionCall:
    """A leaf of ours whose weights are no softmax of all scores."""
    given = _arguments(module, args, kwargs)
    q, k, v = (given[name].detach() for name in "qkv")
    return AttentionCall(path, v, output, q, k, given.get("mask"), form=module.weights)


def _of_given(
    path: str, module: GivenAttention, args: tuple, kwargs: dict, output: Tensor
) -> AttentionCall:
    """Maps that several layers may use: each use is a call of its own."""
    given = _arguments(module, args, kwargs)
    return AttentionCall(path, given["v"].detach(), output, written=given["maps"].detach())


@torch.no_grad()
def _of_torch(
    path: str, module: nn.MultiheadAttention, args: tuple, kwargs: dict, output: tuple
) -> AttentionCall:
    """torch's own attention, which projects inside a kernel: here we must project again."""
    given, who = _arguments(module, args, kwargs), path or "the model"
    if module.bias_k is not None or module.add_zero_attn:
        raise ValueError(
            f"{who}: nn.MultiheadAttention with add_bias_kv or add_zero_attn has keys that are no "
            "tokens: capture_attention takes it without them"
        )
    if given["query"].is_nested or given["query"].ndim != 3:
        came = "nested tensors" if given["query"].is_nested else f"{given['query'].ndim} axes"
        raise ValueError(
            f"{who}: nn.MultiheadAttention was given {came}: expected a batch of tokens, 3 axes; "
            "an nn.TransformerEncoder with padding needs enable_nested_tensor=False"
        )
    layout = "b n (h d)" if module.batch_first else "n b (h d)"

    def project(tokens: Tensor, name: str) -> Tensor:
        which = "qkv".index(name)
        if module.in_proj_weight is not None:
            weight = module.in_proj_weight.chunk(3)[which]
        else:
            weight = getattr(module, f"{name}_proj_weight")
        bias = None if module.in_proj_bias is None else module.in_proj_bias.chunk(3)[which]
        return rearrange(F.linear(tokens, weight, bias), f"{layout} -> b h n d", h=module.num_heads)

    names = {"q": "query", "k": "key", "v": "value"}
    parts = {name: project(given[word], name) for name, word in names.items()}
    return AttentionCall(
        path,
        output=output[0],
        mask=_torch_mask(given, len(parts["q"])),
        layout=layout,
        projection=module.out_proj.weight.detach(),
        **parts,
    )


def _torch_mask(given: dict, batch: int) -> Tensor | None:
    """One additive mask from torch's, in which a true boolean means "leave out"."""

    def additive(mask: Tensor) -> Tensor:
        if mask.dtype != torch.bool:
            return mask
        return torch.zeros_like(mask, dtype=torch.float32).masked_fill(mask, float("-inf"))

    mask = None
    if given.get("attn_mask") is not None:
        mask = additive(given["attn_mask"])
        if mask.ndim == 3:
            mask = rearrange(mask, "(b h) q k -> b h q k", b=batch)
    if given.get("key_padding_mask") is not None:
        padding = rearrange(additive(given["key_padding_mask"]), "b k -> b 1 1 k")
        mask = padding if mask is None else mask + padding
    return mask
