"""Mean colours of patches, guesses of them, and two baselines: what `color_guesses.js` computes."""

import numpy as np
import torch
from torch import Tensor

from vitbook.figures.parts.plain_vit import answer, encode

_LEVELS = 8  # of each channel: 3 bits
_LIKELIEST = 5  # colours that are told of a patch


def mean_colors(photos: np.ndarray, patch: tuple[int, int]) -> np.ndarray:
    """uint8 "n c h w" to the mean of each channel over each patch, "n patches c"."""
    n, channels, height, width = photos.shape
    cut = photos.reshape(n, channels, height // patch[0], patch[0], width // patch[1], patch[1])
    sums = cut.sum((3, 5), dtype=np.int64).reshape(n, channels, -1)
    return sums.transpose(0, 2, 1) / patch[0] / patch[1]


def color_classes(means: np.ndarray) -> np.ndarray:
    """Colours "... c" to their numbers at 3 bits a channel; the first channel weighs most."""
    steps = (means // (256 // _LEVELS)).astype(int)
    return np.asarray(steps @ _LEVELS ** np.arange(means.shape[-1] - 1, -1, -1))


def answers(
    weights: dict[str, Tensor], heads: int, photo: np.ndarray, truth: np.ndarray, masked: list[int]
) -> dict[int, dict]:
    """What the page computes of masked patches: likeliest colours, and the true one's place."""
    which = torch.zeros(1, len(truth), dtype=torch.bool)
    which[0, masked] = True
    tokens, _ = encode(weights, heads, torch.from_numpy(photo)[None], which)
    tokens = tokens[0, len(weights["prefix"]) :][masked]
    chances = answer(weights, "predictor", tokens).softmax(-1).double().numpy()
    found = {}
    for patch, given in zip(masked, chances, strict=True):
        order = np.argsort(-given, kind="stable")
        found[patch] = {
            "top": [[int(color), round(float(given[color]), 6)] for color in order[:_LIKELIEST]],
            "rank": int(np.flatnonzero(order == truth[patch])[0]) + 1,
            "chance": round(float(given[truth[patch]]), 6),
        }
    return found


def nearest_class(means: np.ndarray, masked: list[int], patch: int, columns: int) -> int:
    """The class of the mean of the nearest visible patches, diagonals too; -1 if none is there.

    Args:
        means: "patches c".
    """
    places = np.stack(np.divmod(np.arange(len(means)), columns), -1)
    far = np.abs(places - places[patch]).max(-1).astype(float)
    far[masked] = np.inf
    near = far == far.min()
    return -1 if np.isinf(far.min()) else int(color_classes(means[near].mean(0)))


def counts(
    found: dict[int, dict], means: np.ndarray, truth: np.ndarray, columns: int
) -> tuple[int, int, int]:
    """How many masked patches the model, the commonest colour and the nearest patches get."""
    masked = list(found)
    most = np.bincount(truth).argmax()
    return (
        sum(each["rank"] == 1 for each in found.values()),
        int((truth[masked] == most).sum()),
        sum(nearest_class(means, masked, each, columns) == int(truth[each]) for each in masked),
    )
