"""Which tokens the answer of a model is read from."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.layout import Pair, check_map, of_layer
from vitbook.analysis.capture.record import record_attention
from vitbook.analysis.capture.running import batches, check_differentiable, encoder_of, logits_of
from vitbook.model_utilities import evaluating


def tokens_read(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    grid_size: Pair,
    num_prefix_tokens: int,
) -> Float[Tensor, " tokens"] | None:
    """The tokens that the head reads, as a row over the tokens that sums to 1; None if none.

    Asked of the model and not of its description: behind the last attention nothing mixes tokens,
    so that the logits have a gradient at the tokens that are read, and none at the others. One is
    a class token, two are those of a distilled model, all patches a mean. A head of zeros, with
    which training begins, reads none.

    Raises:
        ValueError: no logits come, or the model pools by attention.
    """
    check_differentiable(model)
    part, where = encoder_of(model)
    calls: list[AttentionCall] = []
    # What the reader may have switched off around this call.
    with torch.inference_mode(False), torch.enable_grad(), evaluating(model):
        (image,) = batches(model, images[:1].clone(), 1)
        with record_attention(part, calls.append):
            try:
                logits = logits_of(model)(image.requires_grad_())
            except ValueError as error:
                raise ValueError(f"{error}, or query= of a model without a head") from error
        last = calls[-1]
        with of_layer(where + last.path):
            check_map(last.shape, grid_size, num_prefix_tokens)
        (gradient,) = torch.autograd.grad(logits.sum(), last.output, allow_unused=True)
    read = None if gradient is None else last.gradient_of_mixed(gradient).ne(0).any(-1).any(1)[0]
    return None if read is None or not read.any() else read.to(torch.float32) / read.sum()
