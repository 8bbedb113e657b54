"""Where each library keeps its queries, keys and values.

An adapter hangs hooks on one attention module and calls ``keep(seen)`` once a forward pass. What
went in is read where the module has it, after its own projections and norms.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.layers.attention import Attention

ALL = slice(None)


@dataclass(frozen=True)
class Seen:
    """One attention as it ran: nothing is computed before it is asked for.

    Attributes:
        shape: of its map: batch, heads, queries, keys.
        weights: the map of some images and some queries, ``weights(slice(0, 1), slice(0, 64))``,
            without gradient: "batch heads queries keys".
        values: what the weights mix, without gradient: "batch heads keys width".
        output: what came of it, in the graph of the forward pass.
        to_heads: a gradient of ``output`` -> the gradient of weights times values, "batch heads
            queries width".
    """

    shape: tuple[int, int, int, int]
    weights: Callable[[slice, slice], Tensor]
    values: Callable[[], Tensor]
    output: Tensor
    to_heads: Callable[[Tensor], Tensor]


Keep = Callable[[Seen], None]


def watch_attention(module: nn.Module, keep: Keep) -> list[RemovableHandle]:
    """Hang hooks on ``module`` if it is an attention that we know; no hooks if it is not."""
    if isinstance(module, Attention):
        return _watch_own(module, keep)
    if isinstance(module, nn.MultiheadAttention):
        return _watch_torch(module, keep)
    home, name = type(module).__module__, type(module).__name__
    if home in ("timm.layers.attention", "timm.models.vision_transformer") and name == "Attention":
        return _watch_timm(module, keep)
    if home == "transformers.models.vit.modeling_vit":
        for names in (("q_proj", "k_proj", "v_proj"), ("query", "key", "value")):  # versions 5, 4
            if hasattr(module, names[0]):
                return _watch_hugging_face(module, names, keep)
    return []


def _arguments(module: nn.Module, args: tuple, kwargs: dict) -> dict:
    return inspect.signature(module.forward).bind(*args, **kwargs).arguments


def _seen(
    make: Callable[[Tensor, Tensor, Tensor | None], Tensor],
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    values: Callable[[], Tensor],
    output: Tensor,
    to_heads: Callable[[Tensor], Tensor],
) -> Seen:
    q, k = q.detach(), k.detach()

    @torch.no_grad()
    def weights(images: slice, queries: slice) -> Tensor:
        some = mask
        if mask is not None and mask.shape[-2] > 1:
            some = some[..., queries, :]
        if mask is not None and mask.ndim == 4 and len(mask) > 1:
            some = some[images]
        return make(q[images, :, queries], k[images], some)

    return Seen((*q.shape[:-1], k.shape[-2]), weights, values, output, to_heads)


def _watch_own(module: Attention, keep: Keep) -> list[RemovableHandle]:
    def after(module, args, kwargs, output):
        given = _arguments(module, args, kwargs)
        q, k, v = (given[name] for name in "qkv")
        keep(_seen(module.weights, q, k, given.get("mask"), v.detach, output, lambda g: g))

    return [module.register_forward_hook(after, with_kwargs=True)]


def _watch_timm(module: nn.Module, keep: Keep) -> list[RemovableHandle]:
    seen: dict[str, Tensor] = {}

    def values(projected: Tensor) -> Tensor:
        return rearrange(
            projected.detach(), "b n (three h d) -> three b h n d", three=3, h=module.num_heads
        )[2]

    def after(module, args, kwargs, output):
        given = _arguments(module, args, kwargs)
        q, k, projected = (seen.pop(name) for name in ("q", "k", "qkv"))
        mask = given.get("attn_mask")
        if given.get("is_causal"):
            mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
        given = (q, k, mask, lambda: values(projected), seen.pop("mixed"))
        keep(_seen(Attention.weights, *given, _split(module.num_heads)))

    # Of the norm before the output's projection; an old timm has none.
    mixed = module.norm if hasattr(module, "norm") else module.proj
    return [
        _note_output(module.q_norm, seen, "q"),
        _note_output(module.k_norm, seen, "k"),
        _note_output(module.qkv, seen, "qkv"),
        mixed.register_forward_pre_hook(lambda m, args: seen.update(mixed=args[0])),
        module.register_forward_hook(after, with_kwargs=True),
    ]


def _watch_hugging_face(
    module: nn.Module, names: tuple[str, str, str], keep: Keep
) -> list[RemovableHandle]:
    """Projected first, split into heads after."""
    seen: dict[str, Tensor] = {}
    heads = _split(module.num_attention_heads)

    def after(module, args, kwargs, output):
        q, k, v = (heads(seen.pop(name)) for name in names)
        mask = _arguments(module, args, kwargs).get("attention_mask")
        # Version 4 projects the output in the next module.
        mixed = seen.pop("mixed", output[0])
        keep(_seen(Attention.weights, q, k, mask, v.detach, mixed, heads))

    handles = [_note_output(getattr(module, name), seen, name) for name in names]
    if hasattr(module, "o_proj"):
        handles.append(
            module.o_proj.register_forward_pre_hook(lambda m, args: seen.update(mixed=args[0]))
        )
    return [*handles, module.register_forward_hook(after, with_kwargs=True)]


def _note_output(module: nn.Module, seen: dict[str, Tensor], name: str) -> RemovableHandle:
    return module.register_forward_hook(lambda m, args, output: seen.update({name: output}))


def _split(num_heads: int) -> Callable[[Tensor], Tensor]:
    return lambda tokens: rearrange(tokens, "b n (h d) -> b h n d", h=num_heads)


def _watch_torch(module: nn.MultiheadAttention, keep: Keep) -> list[RemovableHandle]:
    """torch's own attention, which projects inside a kernel: here we must project again."""
    if module.bias_k is not None or module.add_zero_attn:
        raise ValueError(
            "torch.nn.MultiheadAttention with add_bias_kv or add_zero_attn has keys that are no "
            "tokens: capture_attention takes it without them"
        )
    layout = "b n (h d) -> b h n d" if module.batch_first else "n b (h d) -> b h n d"

    def heads(tokens: Tensor) -> Tensor:
        return rearrange(tokens, layout, h=module.num_heads)

    @torch.no_grad()
    def project(tokens: Tensor, name: str) -> Tensor:
        which = "qkv".index(name)
        if module.in_proj_weight is not None:
            weight = module.in_proj_weight.chunk(3)[which]
        else:
            weight = getattr(module, f"{name}_proj_weight")
        bias = None if module.in_proj_bias is None else module.in_proj_bias.chunk(3)[which]
        return heads(F.linear(tokens, weight, bias))

    def before_projection(gradient: Tensor) -> Tensor:
        return heads(gradient @ module.out_proj.weight.detach())

    def after(module, args, kwargs, output):
        given = _arguments(module, args, kwargs)
        q, k = project(given["query"], "q"), project(given["key"], "k")
        mask, values = _torch_mask(given, q), lambda: project(given["value"], "v")
        keep(_seen(Attention.weights, q, k, mask, values, output[0], before_projection))

    return [module.register_forward_hook(after, with_kwargs=True)]


def _torch_mask(given: dict, q: Tensor) -> Tensor | None:
    """One additive mask from torch's two, in which a true boolean means "leave out"."""

    def additive(mask: Tensor) -> Tensor:
        if mask.dtype != torch.bool:
            return mask
        return torch.zeros_like(mask, dtype=torch.float32).masked_fill(mask, float("-inf"))

    mask = None
    if given.get("attn_mask") is not None:
        mask = additive(given["attn_mask"])
        if mask.ndim == 3:
            mask = rearrange(mask, "(b h) q k -> b h q k", b=len(q))
    if given.get("key_padding_mask") is not None:
        padding = rearrange(additive(given["key_padding_mask"]), "b k -> b 1 1 k")
        mask = padding if mask is None else mask + padding
    return mask
