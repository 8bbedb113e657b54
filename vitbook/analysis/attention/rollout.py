"""Attention through all layers: which patches a token has heard of at the end."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.layout import Pair, check_map, has_class_token, of_layer, token_layout
from vitbook.analysis.capture.reading import tokens_read
from vitbook.analysis.capture.running import takes_images
from vitbook.analysis.capture.streaming import fold_attention, pieces

Maps = Mapping[str, Tensor] | Iterable[Tensor]
Query = int | str
FUSIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda weights: weights.mean(1),
    "max": lambda weights: weights.amax(1),
    "min": lambda weights: weights.amin(1),
}


@takes_images()
def attention_rollout(
    source: nn.Module | Maps,
    images: Float[Tensor, "batch channels height width"] | None = None,
    *,
    residual: float = 0.5,
    head_fusion: str = "mean",
    discard: float = 0.0,
    start_layer: int = 0,
    query: Query | None = None,
    batch_size: int = 8,
    grid_size: Pair | None = None,
    num_prefix_tokens: int | None = None,
) -> Float[Tensor, "batch rows columns"]:
    r"""How much of each patch reaches a token through all layers, if layers only mixed tokens.

    .. math::
        R = e_q^\top \hat A_L \cdots \hat A_1, \qquad
        \hat A_l = r I + (1 - r)\, \mathrm{fuse}_h A_{l,h} \text{, each row brought to sum 1}

    Abnar & Zuidema 2020, section 3; the ViT paper, appendix D.8 (mean over heads, r = 1/2). The
    prefix tokens are cut from the answer, which then sums to less than 1. One row is carried from
    the last layer to the first, so that no two maps are multiplied; what is kept of a layer is its
    fused map.

    Args:
        source: a model, or its maps, "batch heads queries keys" for each layer in the order run,
            as :func:`vitbook.analysis.capture_attention` gives them.
        images: normalised as the model takes them; for maps none.
        residual: weight of the path around the attention, 0 to below 1.
        head_fusion: "mean", "max" or "min" over the heads.
        discard: share of the weights of each row that is set to zero, the smallest first.
        start_layer: number of the first layer that counts, from 0; each layer before it is replaced
            by the identity.
        query: the token that is asked: "class", the first of all; a patch by its number, row by
            row; or "mean", the mean of the patches. By default what the model's head reads; for
            maps, and for a head of zeros, the class token if there is a prefix, else the mean.
        batch_size: images at a time.
        grid_size: (rows, columns) of the patches, for a model that does not say it and for maps.
        num_prefix_tokens: likewise.

    Raises:
        ValueError: maps that are not square, or whose tokens are not ``num_prefix_tokens`` plus the
            patches of the grid; NaN in a map (the message names the layer); a setting out of range;
            a query that is no token; no query for a model without a head.
        TypeError: a model without images, or maps with images.
        RuntimeError: no attention that :func:`vitbook.analysis.capture_attention` knows ran.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.analysis import attention_rollout
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> tuple(attention_rollout(model, torch.rand(3, 1, 8, 8), query="class").shape)
        (3, 4, 4)
    """
    fuse = _fusion(head_fusion, discard)
    if not 0 <= residual < 1:
        raise ValueError(f"residual {residual}: expected from 0 to below 1")
    if isinstance(source, nn.Module):
        if images is None:
            raise TypeError("a model came without images: attention_rollout(model, images)")
        grid_size, num_prefix_tokens = token_layout(
            source, images, grid_size=grid_size, num_prefix_tokens=num_prefix_tokens
        )

        def fold(call: AttentionCall) -> Tensor:
            check_map(call.shape, grid_size, num_prefix_tokens)
            check_one_map(call)
            return fused_by_pieces(call, lambda weights, images, rows: fuse(weights))

        batches = fold_attention(source, images, batch_size, fold)
        ask = asked_of(source, images, grid_size, num_prefix_tokens, query)
    else:
        if images is not None:
            raise TypeError("maps came with images: expected a model and images, or maps alone")
        if grid_size is None or num_prefix_tokens is None:
            raise ValueError("maps do not say their tokens: pass grid_size and num_prefix_tokens")
        batches = [_fused_maps(source, fuse, grid_size, num_prefix_tokens)]

        def ask(fused: Tensor) -> Tensor:
            return first_row(fused, grid_size, num_prefix_tokens, query)

    carry = partial(roll_out, residual=residual)
    return carried(batches, ask, carry, start_layer, grid_size, num_prefix_tokens)


def carried(
    batches: Iterable[Mapping[str, Float[Tensor, "batch tokens tokens"]]],
    ask: Callable[[Tensor], Float[Tensor, "batch tokens"]],
    carry: Callable[[Tensor, list[Tensor]], Float[Tensor, "batch tokens"]],
    start_layer: int,
    grid_size: Pair,
    num_prefix_tokens: int,
) -> Float[Tensor, "batch rows columns"]:
    """What ``carry`` makes of the row that is asked and the fused maps of all layers, on the grid.

    Args:
        batches: fused maps of each layer, in the order run, some images at a time.
        ask: of the first of them, which token it is about, as :func:`first_row`.
        start_layer: the first layer that counts.
    """
    found = []
    for layers in batches:
        if not 0 <= start_layer < len(layers):
            raise ValueError(f"start_layer {start_layer}: expected 0 to {len(layers) - 1}")
        for name, fused in layers.items():
            if fused.isnan().any():
                raise ValueError(f"{name}: the attention is NaN; look at the images and weights")
        counted = list(layers.values())[start_layer:]
        found.append(carry(ask(counted[0]), counted))
    patches = torch.cat(found)[:, num_prefix_tokens:]
    return rearrange(patches, "b (rows columns) -> b rows columns", rows=grid_size[0])


def roll_out(
    start: Float[Tensor, "batch *some tokens"],
    layers: Iterable[Float[Tensor, "batch tokens tokens"]],
    residual: float = 0.5,
) -> Float[Tensor, "batch *some tokens"]:
    """Rows carried back from the last layer to the first: ``start`` times all matrices.

    With the identity for ``start`` it is the whole rollout.

    Args:
        start: rows over the tokens, one or several for each image.
        layers: fused maps, the first layer first.
        residual: weight of the identity in each; rows are brought to sum 1.

    Raises:
        ValueError: a row that sums to zero and has no residual.
    """
    rows = start[:, None] if start.ndim == 2 else start
    for fused in reversed(list(layers)):
        total = residual + (1 - residual) * fused.sum(-1)
        if not (total > 0).all():
            raise ValueError(
                "a row of a fused map sums to 0 and there is no residual: give a residual, "
                "discard less, or fuse by mean"
            )
        rows = rows / total[:, None]
        rows = residual * rows + (1 - residual) * rows @ fused
    return rows[:, 0] if start.ndim == 2 else rows


def asked_of(
    model: nn.Module, images: Tensor, grid_size: Pair, num_prefix_tokens: int, query: Query | None
) -> Callable[[Tensor], Float[Tensor, "batch tokens"]]:
    """:func:`first_row` of a model, whose head is looked at once if no token is asked."""
    given = grid_size, num_prefix_tokens
    read, has_class = cache(partial(tokens_read, model, images, *given)), has_class_token(model)
    return lambda like: first_row(like, *given, query, read, has_class)


def first_row(
    like: Float[Tensor, "batch tokens tokens"],
    grid_size: Pair,
    num_prefix_tokens: int,
    query: Query | None,
    read: Callable[[], Tensor | None] | None = None,
    has_class: bool = True,
) -> Float[Tensor, "batch tokens"]:
    """The token that is asked, as a row over the tokens that sums to 1.

    Args:
        read: without a query: says the tokens that a model's head reads, as such a row.
        has_class: whether the first prefix token is a class token.
    """
    batch, tokens, _ = like.shape
    patches = grid_size[0] * grid_size[1]
    row = like.new_zeros(batch, tokens)
    if query is None and read is not None and (tokens_of_head := read()) is not None:
        return row + tokens_of_head.to(row)
    if query is None:
        query = "class" if num_prefix_tokens and has_class else "mean"
    if query == "mean":
        row[:, num_prefix_tokens:] = 1 / patches
    elif query == "class" and num_prefix_tokens and has_class:
        row[:, 0] = 1
    elif query == "class":
        prefix = "registers and no class token" if num_prefix_tokens else "no prefix token"
        raise ValueError(f'query "class", but the model has {prefix}: ask "mean" or a patch')
    elif isinstance(query, int) and 0 <= query < patches:
        row[:, num_prefix_tokens + query] = 1
    else:
        raise ValueError(
            f'query {query!r}: expected "class", "mean" or the number of a patch, 0 to '
            f"{patches - 1}"
        )
    return row


def discarded(
    weights: Float[Tensor, "batch queries keys"], share: float
) -> Float[Tensor, "batch queries keys"]:
    """The smallest ``share`` of the weights of each row set to zero."""
    count = int(share * weights.shape[-1])
    if not count:
        return weights
    smallest = weights.topk(count, dim=-1, largest=False).indices
    return weights.scatter(-1, smallest, 0)


def _fusion(head_fusion: str, discard: float) -> Callable[[Tensor], Tensor]:
    if head_fusion not in FUSIONS:
        raise ValueError(f"head_fusion {head_fusion!r}: expected mean, max or min")
    if not 0 <= discard < 1:
        raise ValueError(f"discard {discard}: expected from 0 to below 1")
    return lambda weights: discarded(FUSIONS[head_fusion](weights), discard)


def fused_by_pieces(
    call: AttentionCall, fuse: Callable[[Tensor, slice, slice], Tensor]
) -> Float[Tensor, "batch queries keys"]:
    """One map for all heads, without all heads' maps at once.

    Args:
        fuse: weights, and of which images and queries they are -> "batch queries keys".
    """
    batch, _, queries, keys = call.shape
    fused = None
    for images, rows in pieces(call):
        part = fuse(call.weights(images, rows), images, rows)
        if fused is None:
            fused = part.new_empty(batch, queries, keys)
        fused[images, rows] = part
    return fused


def check_one_map(call: AttentionCall) -> None:
    """Whether a layer mixes by one map, so that the maps of all layers follow one another.

    Raises:
        ValueError: it attends twice, side by side.
    """
    if call.turn:
        raise ValueError(
            "the layer attends more than once, side by side (differential attention): its maps do "
            "not follow one another"
        )


def _fused_maps(
    maps: Maps, fuse: Callable[[Tensor], Tensor], grid_size: Pair, num_prefix_tokens: int
) -> dict[str, Tensor]:
    named = maps if isinstance(maps, Mapping) else {f"layer {i}": map for i, map in enumerate(maps)}
    if not named:
        raise ValueError("no maps came: expected one for each layer")
    fused = {}
    for name, weights in named.items():
        with of_layer(name):
            check_map(weights.shape, grid_size, num_prefix_tokens)
        fused[name] = fuse(weights.to(torch.promote_types(weights.dtype, torch.float32)))
    return fused
