"""What the nearest images say: a reader of features that learns nothing."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.training.transfer.examples import count_classes

TEMPERATURE = 0.07
# Similarities that are held at once: 64 MB.
MOST = 2**24


@torch.no_grad()
def neighbours(
    train_features: Float[Tensor, "n features"],
    train_labels: Int64[Tensor, "n"],
    test_features: Float[Tensor, "test features"],
    number: int = 20,
    num_classes: int | None = None,
) -> Float[Tensor, "test classes"]:
    """Share of the votes that each class gets from the nearest training images.

    Near is a large cosine s of the features as they come, and a neighbour's vote weighs
    ``exp(s / TEMPERATURE)``: Wu et al. 2018, section 3.4, and Caron et al. 2021, who found 20
    neighbours best (facebookresearch/dino, ``eval_knn.py``).

    Args:
        number: of neighbours, at most as many as there are training images.
        num_classes: by default as many as the largest label tells.

    Example:
        >>> import torch
        >>> from vitbook.training.transfer.neighbours import neighbours
        >>> known, labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
        >>> neighbours(known, labels, torch.tensor([[3.0, 3.0], [0.0, 5.0]]), number=2)
        tensor([[5.0000e-01, 5.0000e-01],
                [6.2487e-07, 1.0000e+00]])
    """
    num_classes = count_classes(train_labels, num_classes)
    known = F.normalize(train_features.float(), dim=1)
    votes = test_features.new_zeros((len(test_features), num_classes), dtype=torch.float32)
    rows = max(1, MOST // len(known))
    for some, into in zip(test_features.split(rows), votes.split(rows), strict=True):
        nearest = (F.normalize(some.float(), dim=1) @ known.T).topk(number, dim=1)
        weights = (nearest.values / TEMPERATURE).softmax(dim=1)
        into.scatter_add_(1, train_labels[nearest.indices].long(), weights)
    return votes
