"""Ridge regression on one half of some images, scored on the other half."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.errors import is_whole_number
from vitbook.training.transfer.examples import check_examples
from vitbook.training.transfer.ridge import RidgePath

# Of the half that is learned from, to choose the penalty.
FOLDS = 5


def score_halves(
    features: Float[Tensor, "n features"],
    labels: Int64[Tensor, "n"],
    draws: int = 5,
    num_classes: int | None = None,
) -> tuple[float, ...]:
    """Accuracy on one half of the images of a linear layer that knows the other half.

    Halves are drawn anew each time. The penalty of the ridge regression is chosen inside the half
    that is learned from, with a fifth of its images left out at a time.

    Args:
        features: a row an image.
        draws: of the halves, by seeds 0, 1, ...
        num_classes: by default as many as the largest label tells.

    Raises:
        TypeError, ValueError: features or labels that
            :func:`~vitbook.training.transfer.examples.check_examples` refuses.
        ValueError: fewer than 2 draws, or fewer than 20 images.

    Example:
        >>> import torch
        >>> from vitbook.training.transfer.halves import score_halves
        >>> labels = torch.arange(40) % 2
        >>> features = labels[:, None] + 0.1 * torch.randn(40, 3)
        >>> score_halves(features, labels)
        (1.0, 1.0, 1.0, 1.0, 1.0)
    """
    num_classes = check_examples(features, labels, num_classes)
    if not is_whole_number(draws) or draws < 2:
        raise ValueError(f"{draws!r} draws: expected a whole number from 2 on, for an interval")
    if len(features) < 4 * FOLDS:
        raise ValueError(f"{len(features)} images: expected {4 * FOLDS} or more, to halve them")
    scores = []
    for seed in range(draws):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        known, asked = order.tensor_split(2)
        path = RidgePath(features[known], labels[known], num_classes)
        layer = path.best(_folds(labels[known]))
        right = layer.logits(features[asked]).argmax(dim=1) == labels[asked]
        scores.append(float(right.double().mean()))
    return tuple(scores)


def _folds(labels: Int64[Tensor, "n"]) -> Int64[Tensor, "n"]:
    """A fold for each image; the images of a class are dealt to the folds in turn."""
    order = labels.argsort(stable=True)
    folds = torch.empty_like(order)  # labels may be uint8
    folds[order] = torch.arange(len(labels), device=labels.device) % FOLDS
    return folds
