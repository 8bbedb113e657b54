"""A linear head on painted patches, and what it marks: what `head.js` computes."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int8
from torch.nn.functional import interpolate

# In units of a source's mean squared component. On the book's six photographs, with 4 to 16 patches
# a class painted on one, the mean IoU of the other five is best with 3 to 30 for block 10 (0.495)
# and with 0.1 for colours (0.304) and random weights (0.291). With 1 they lose 0.01 at most.
PENALTY = 1.0


def head_scores(
    levels: Int8[np.ndarray, "patches width"], marks: Int[np.ndarray, " patches"]
) -> Float[np.ndarray, " patches"] | None:
    """Scores of all patches by ridge regression on the painted ones; nothing if a class lacks.

    Args:
        marks: 1 where the object is painted, -1 where the background is, else 0.
    """
    if not ((marks > 0).any() and (marks < 0).any()):
        return None
    deviation = np.sqrt(np.mean(levels.astype(float) ** 2)) or 1.0
    inputs = np.pad(levels / deviation, ((0, 0), (0, 1)), constant_values=1)
    seen, wanted = inputs[marks != 0], marks[marks != 0]
    each = np.where(wanted > 0, 0.5 / (wanted > 0).sum(), 0.5 / (wanted < 0).sum())
    penalty = np.full(inputs.shape[1], PENALTY)
    penalty[-1] = 0  # the bias
    weights = np.linalg.solve(seen.T @ (each[:, None] * seen) + np.diag(penalty),
                              seen.T @ (each * wanted))  # fmt: skip
    return inputs @ weights


def marked(
    scores: Float[np.ndarray, "photos rows columns"], side: int
) -> Bool[np.ndarray, "photos side side"]:
    """Where scores that are enlarged bilinearly lie above 0."""
    small = torch.from_numpy(scores)[:, None]
    large = interpolate(small, (side, side), mode="bilinear", align_corners=False)
    return (large[:, 0] > 0).numpy()


def overlaps(
    found: Bool[np.ndarray, "photos side side"], true: Bool[np.ndarray, "photos side side"]
) -> Float[np.ndarray, " photos"]:
    """Intersection over union of two masks of each photograph; 0 where both are empty."""
    return (found & true).sum((1, 2)) / np.maximum((found | true).sum((1, 2)), 1)
