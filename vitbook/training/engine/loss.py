"""What training lowers."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

Logits = Float[Tensor, "batch classes"]


def cross_entropy(
    logits: Logits | tuple[Logits, Logits],
    targets: Int[Tensor, " batch"] | Float[Tensor, "batch classes"],
    label_smoothing: float | int = 0.0,
) -> Float[Tensor, ""]:
    """Mean cross-entropy against labels, or against shares of classes.

    A distilled model has two heads. Without a teacher both learn the same targets, and the loss
    is the mean of theirs.
    """
    heads = logits if isinstance(logits, tuple) else (logits,)
    return sum(
        F.cross_entropy(head, targets, label_smoothing=label_smoothing) for head in heads
    ) / len(heads)
