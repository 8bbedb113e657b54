"""Attention weighted by its gradient: what speaks for one class, through all layers."""

from collections.abc import Iterator
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitbook.analysis.attention.rollout import (
    Query,
    asked_of,
    carried,
    check_one_map,
    fused_by_pieces,
    roll_out,
)
from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.layout import Pair, check_map, of_layer, token_layout
from vitbook.analysis.capture.record import record_attention
from vitbook.analysis.capture.running import (
    batches,
    check_targets,
    encoder_of,
    logits_of,
    takes_images,
)
from vitbook.model_utilities import evaluating


@takes_images(gradients=True)
def gradient_rollout(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int[Tensor, " targets"] | None = None,
    *,
    residual: float = 0.5,
    start_layer: int = 0,
    query: Query | None = None,
    batch_size: int = 8,
    grid_size: Pair | None = None,
    num_prefix_tokens: int | None = None,
) -> Float[Tensor, "batch rows columns"]:
    r"""Rollout of the attention that speaks for a class.

    .. math::
        \hat A_l = r I + (1 - r)\, \mathrm{mean}_h (A_{l,h} \odot \nabla A_{l,h})^+
        \text{, each row brought to sum 1}

    :math:`\nabla A` is the gradient of the class's logit. The weighting of Chefer et al. 2021
    (:func:`relevance`) in the recursion of :func:`vitbook.analysis.attention_rollout`.

    Args:
        model: ours, timm's, torchvision's or Hugging Face's, with logits "batch classes". It runs
            in evaluation mode; its weights' gradients are not touched.
        images: normalised as the model takes them.
        targets: the class that is asked for, by image; by default the one that the model says.
        residual: weight of the path around the attention, 0 to below 1.
        start_layer: the first layer that counts.
        query: the token that is asked: "class", "mean" or a patch; by default what the model's
            head reads.
        batch_size: images at a time.
        grid_size: (rows, columns) of the patches, for a model that does not say it.
        num_prefix_tokens: likewise.

    Raises:
        ValueError: as :func:`vitbook.analysis.attention_rollout`; targets that are no classes.
        TypeError: targets that are no whole numbers in a row.
        RuntimeError: no attention that :func:`vitbook.analysis.capture_attention` knows ran.
    """
    if not 0 <= residual < 1:
        raise ValueError(f"residual {residual}: expected from 0 to below 1")
    given = token_layout(model, images, grid_size=grid_size, num_prefix_tokens=num_prefix_tokens)
    batches = weighted_attention(model, images, targets, batch_size, *given)
    ask = asked_of(model, images, *given, query)
    return carried(batches, ask, partial(roll_out, residual=residual), start_layer, *given)


@takes_images(gradients=True)
def relevance(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int[Tensor, " targets"] | None = None,
    *,
    start_layer: int = 0,
    query: Query | None = None,
    batch_size: int = 8,
    grid_size: Pair | None = None,
    num_prefix_tokens: int | None = None,
) -> Float[Tensor, "batch rows columns"]:
    r"""The relevance of each patch for a class.

    .. math::
        R \leftarrow R + \mathrm{mean}_h (A_{l,h} \odot \nabla A_{l,h})^+ \, R
        \text{ for } l = 1, \ldots, L, \text{ from } R = I

    Chefer, Gur, Wolf 2021 (Generic attention-model explainability), section 3.2, equations 5 and
    6: the row of the token that the head reads. One row is carried from the last layer to the
    first, and what the token itself brings is left out. Arguments and errors are those of
    :func:`gradient_rollout`.

    Example:
        >>> import vitbook
        >>> from vitbook.analysis import relevance
        >>> from vitbook.datasets import load, normalize
        >>> model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
        >>> images = normalize(load("digits", "test").images[:3])
        >>> tuple(relevance(model, images).shape)
        (3, 4, 4)
    """
    given = token_layout(model, images, grid_size=grid_size, num_prefix_tokens=num_prefix_tokens)
    batches = weighted_attention(model, images, targets, batch_size, *given)

    def gather(start: Tensor, layers: list[Tensor]) -> Tensor:
        row = start[:, None]
        for weighted in reversed(layers):
            row = row + row @ weighted
        return row[:, 0] - start

    return carried(batches, asked_of(model, images, *given, query), gather, start_layer, *given)


def weighted_attention(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int[Tensor, " targets"] | None,
    batch_size: int,
    grid_size: Pair,
    num_prefix_tokens: int,
) -> Iterator[dict[str, Float[Tensor, "batch queries keys"]]]:
    r"""Mean over heads of the positive part of attention times its gradient, by layer.

    The fused kernel never writes its weights, so the gradient of them is not to be had from
    autograd. It follows from the gradient of what they made of the values,
    :math:`\nabla A = \nabla(AV)\, V^\top`.

    Yields:
        For one batch after the other: path of the attention module -> "batch queries keys".
    """
    part, where = encoder_of(model)
    if targets is not None:
        check_targets(targets, images)
    start = 0
    for batch in batches(model, images, batch_size):
        some = None if targets is None else targets[start : start + len(batch)]
        start += len(batch)
        calls: list[AttentionCall] = []
        with torch.enable_grad(), evaluating(model):
            with record_attention(part, calls.append):
                logits = logits_of(model)(batch.detach().requires_grad_())
            for call in calls:
                with of_layer(where + call.path):
                    check_map(call.shape, grid_size, num_prefix_tokens)
                    check_one_map(call)
            outputs = [call.output for call in calls]
            gradients = torch.autograd.grad(_score(logits, some), outputs, materialize_grads=True)
        with torch.no_grad():
            yield {
                where + call.path: _weighted(call, gradient)
                for call, gradient in zip(calls, gradients, strict=True)
            }


def _score(logits: Tensor, targets: Tensor | None) -> Tensor:
    classes = logits.shape[1]
    if targets is None:
        targets = logits.argmax(1)
    if targets.min() < 0 or targets.max() >= classes:
        raise ValueError(f"targets {targets.tolist()}: expected classes, 0 to {classes - 1}")
    return logits.gather(1, targets.long().to(logits.device)[:, None]).sum()


def _weighted(call: AttentionCall, gradient: Tensor) -> Tensor:
    exact = torch.promote_types(gradient.dtype, torch.float32)
    of_mixed, values = call.gradient_of_mixed(gradient).to(exact), call.v.to(exact)
    return fused_by_pieces(
        call,
        lambda weights, images, rows: (
            (weights * (of_mixed[images, :, rows] @ values[images].mT)).clamp(min=0).mean(1)
        ),
    )
