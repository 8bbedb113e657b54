"""How far a cheaper attention is from softmax attention."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.record import record_attention
from vitbook.devices import to_float64
from vitbook.layers.attention.softmax import Attention


def relative_error(
    approximate: Float[Tensor, "*lead rows columns"], exact: Float[Tensor, "*lead rows columns"]
) -> Float[Tensor, "*lead"]:
    r"""How far one matrix is from another, :math:`\lVert\hat A - A\rVert_F / \lVert A\rVert_F`.

    0 is equal; 1 is no better than a matrix of zeros. In float32 at least.
    """
    dtype = torch.promote_types(exact.dtype, torch.float32)
    approximate, exact = approximate.to(dtype), exact.to(dtype)
    return torch.linalg.matrix_norm(approximate - exact) / torch.linalg.matrix_norm(exact)


@torch.no_grad()
def attention_error(
    attention: Attention,
    q: Float[Tensor, "batch heads queries width"],
    k: Float[Tensor, "batch heads keys width"],
    v: Float[Tensor, "batch heads keys value_width"] | None = None,
) -> Float[Tensor, "batch heads"]:
    r""":func:`relative_error` of an attention to softmax attention on the same inputs.

    .. math:: \mathrm{softmax}(qk^\top/\sqrt d) \quad\text{or, with values,}\quad
              \mathrm{softmax}(qk^\top/\sqrt d)\,v

    Args:
        attention: stands for softmax attention, for example
            ``PerformerAttention(width, num_features, scale=width**-0.5)``.
        q: as the model makes them (:func:`attention_inputs`).
        k: likewise.
        v: to compare the outputs; without them the maps are compared.
    """
    exact = Attention.weights(q, k)
    if v is None:
        return relative_error(attention.weights(q, k), exact)
    return relative_error(attention(q, k, v), exact @ v.to(exact.dtype))


@torch.no_grad()
def low_rank_error(
    weights: Float[Tensor, "*lead queries keys"],
) -> Float[Tensor, "*lead ranks"]:
    r"""The least :func:`relative_error` to ``weights`` that a matrix of rank 1, 2, ... can have.

    .. math:: \sqrt{\sum_{i>r} \sigma_i^2 \Big/ \sum_i \sigma_i^2}

    Eckart and Young 1936; :math:`\sigma_i` are the singular values. The floor for every attention
    that passes through few keys or features: a Performer's map of m features has rank m at most.
    Linformer's case for itself is that the map of a trained model is near a matrix of low rank
    (Wang et al. 2020, section 3).
    """
    squares = torch.linalg.svdvals(to_float64(weights)).square()
    left = squares.flip(-1).cumsum(-1).flip(-1) - squares
    return (left.clamp(min=0) / squares.sum(-1, keepdim=True)).sqrt().to(torch.float32)


@torch.no_grad()
def attention_inputs(
    model: nn.Module, images: Float[Tensor, "batch channels height width"]
) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Queries, keys and values of every attention of a model, in the order run.

    Returns:
        Path of the module that attends -> (q, k, v), each "batch heads tokens width". The paths
        are those of :func:`vitbook.analysis.capture_attention`.
    """
    inputs: dict[str, tuple[Tensor, Tensor, Tensor]] = {}

    def keep(call: AttentionCall) -> None:
        inputs[call.path] = (call.q.clone(), call.k.clone(), call.v.clone())

    with record_attention(model, keep):
        model(images)
    return inputs
