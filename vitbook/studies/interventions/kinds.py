"""Heads sorted into kinds by what their attention maps show, never by what they are good for."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis import (
    PARTS,
    head_variance_parts,
    mean_attention_distance,
    uniform_attention_distance,
)
from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.layout import token_layout, token_step
from vitbook.analysis.capture.streaming import fold_attention

# In the order in which they are asked: a head is of the first kind that fits.
KINDS = ("idle", "near", "offset", "content", "other")
# At least so much of the weight on one token; a reach below so much of that of even attention; at
# least so much of the variance.
IDLE, NEAR, EXPLAINS = 0.5, 0.5, 0.3


class HeadKinds(NamedTuple):
    """The kind of each head, and the four numbers that decide it.

    Attributes:
        names: by layer, then by head; each from :data:`KINDS`.
        one_token: weight on the token that all queries of an image look at most.
        reach: mean attention distance without prefix tokens, in units of even attention.
        offset: share of the variance that the offset from query to key explains.
        content: share that the content of the keys explains.
    """

    names: tuple[tuple[str, ...], ...]
    one_token: Float[Tensor, "layers heads"]
    reach: Float[Tensor, "layers heads"]
    offset: Float[Tensor, "layers heads"]
    content: Float[Tensor, "layers heads"]

    def of(self, kind: str) -> list[tuple[int, int]]:
        """(layer, head), counted from 0, of each head of a kind."""
        return [
            (layer, head)
            for layer, names in enumerate(self.names)
            for head, name in enumerate(names)
            if name == kind
        ]


def head_kinds(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    *,
    batch_size: int = 8,
) -> HeadKinds:
    """Which heads of a model are idle, near, or choose by offset or by content.

    A head has the first kind that fits:

    1. *idle*: at least half of its weight goes to one token, the same for all queries of an
       image (:func:`weight_on_one_token`), so that all of them read the same. The token may be the
       class token or a patch. Clark et al. 2019 found such heads in BERT, at its separators.
    2. *near*: its mean attention distance, rows brought back to sum 1, is below half of
       that of even attention (:func:`vitbook.analysis.mean_attention_distance`).
    3. *offset*: the offset explains at least 0.3 of the variance of its weights
       (:func:`vitbook.analysis.variance_parts`).
    4. *content*: the content of the keys does.
    5. *other*: none of these.

    Args:
        model: any that :func:`vitbook.analysis.capture_attention` knows and that says its grid.
        images: several, normalised as the model takes them.
        batch_size: images at a time.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.studies.interventions import head_kinds
        >>> model = vitbook.create_model("vit_micro_patch2_8")  # fresh: its heads hardly choose
        >>> kinds = head_kinds(model, torch.rand(4, 1, 8, 8))
        >>> len(kinds.names), kinds.of("near"), kinds.of("idle")
        (4, [], [])
    """
    grid_size, prefix = token_layout(model, images, grid_size=None, num_prefix_tokens=None)
    shares = head_variance_parts(model, images, batch_size=batch_size).shares
    even = uniform_attention_distance(grid_size, token_step(model, images, grid_size))
    reach = mean_attention_distance(model, images, batch_size=batch_size, renormalize=True) / even

    def fold(call: AttentionCall) -> Tensor:
        each = [
            weight_on_one_token(call.weights(slice(m, m + 1)), prefix) for m in range(call.shape[0])
        ]
        return torch.cat(each).sum(0)

    total = 0
    for layers in fold_attention(model, images, batch_size, fold):
        total = total + torch.stack(list(layers.values()))
    offset, content = (shares[..., PARTS.index(part)] for part in ("offset", "content"))
    return sort_heads(total / len(images), reach, offset, content)


def sort_heads(
    one_token: Float[Tensor, "layers heads"],
    reach: Float[Tensor, "layers heads"],
    offset: Float[Tensor, "layers heads"],
    content: Float[Tensor, "layers heads"],
) -> HeadKinds:
    """:func:`head_kinds` of numbers that are known; a number that is nan decides nothing."""
    tests = (one_token >= IDLE, reach < NEAR, offset >= EXPLAINS, content >= EXPLAINS)
    names = tuple(
        tuple(
            next((KINDS[k] for k, test in enumerate(tests) if test[layer, head]), KINDS[-1])
            for head in range(one_token.shape[1])
        )
        for layer in range(one_token.shape[0])
    )
    return HeadKinds(names, one_token, reach, offset, content)


def weight_on_one_token(
    weights: Float[Tensor, "batch heads queries keys"], num_prefix_tokens: int
) -> Float[Tensor, "batch heads"]:
    """Weight that the patches of an image give, on average, to the token that they read most.

    1 where all patches look at one token, the same for all; of even weight over n tokens, and of
    patches that each look at themselves, 1 / n or little more.
    """
    exact = torch.promote_types(weights.dtype, torch.float32)
    return weights[..., num_prefix_tokens:, :].mean(-2, dtype=exact).amax(-1)
