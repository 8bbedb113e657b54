"""Photographs whose patches the reader masks, and a model that guesses them in the page."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from vitbook.figures.masked_photograph.color_guesses import (
    answers,
    color_classes,
    counts,
    mean_colors,
)
from vitbook.figures.parts.drawing import Number, as_images, base64, named
from vitbook.figures.parts.figure import Figure, at_the_start, piece_key
from vitbook.figures.parts.packing import squeeze
from vitbook.figures.parts.plain_vit import (
    count_heads,
    encode,
    halves,
    page_weights,
    shapes,
    values,
)
from vitbook.model_utilities import evaluating

_ALIKE = 0.05  # of the deviation of the model's tokens: float16 weights change 0.01 of it


def masked_photograph(
    learner: nn.Module,
    photographs,
    *,
    names: Sequence[str] | None = None,
    goal: Number | None = None,
    task: str | None = None,
    title: str = "A Vision Transformer guesses the colours of patches that it is not shown",
    description: str | None = None,
) -> Figure:
    """Photographs to mask, and the colours that a model puts there, computed in the page.

    The reader masks patches by clicking, dragging or keys. Beside the photograph stand the
    likeliest colour of each masked patch and the true one: its mean colour at 3 bits a channel, one
    of 512 (ViT paper, appendix B.1.2). The page counts guesses that are exactly right, beside two
    baselines: the colour that is commonest among the photograph's patches, and the mean colour of
    the nearest patches that are not masked. Of the patch that was touched last it tells the five
    likeliest colours. The weights travel in float16, and come when the reader changes something.

    Args:
        learner: that has learned the objective "masked_patches" of a recipe, and takes images and
            which of their patches are hidden. Each that is has its [mask]; none is swapped.
        photographs: uint8 "n c h w" of the size and channels that its model takes, at most 16. The
            first one is shown at the start, half of its patches masked.
        names: of the photographs; by default numbered.
        goal: the task is reached with a masked patch of which the model is at least so sure, and
            wrong; between 0 and 1.
    """
    photos = as_images(photographs)
    model = learner.model
    own = ("mask", "predictor.weight", "predictor.bias")
    weights = page_weights(model, head=False) | halves(
        {name: value for name, value in learner.state_dict().items() if name in own}
    )
    heads, patch = count_heads(model), tuple(weights["tokenizer.projection.weight"].shape[2:])
    names = named("names", names, [f"photograph {i + 1}" for i in range(len(photos))])
    _check_computed(learner, weights, heads, photos[:1])

    means = mean_colors(photos, patch)
    truth = color_classes(means)
    rows, columns = model.grid_size
    order = torch.randperm(rows * columns, generator=torch.Generator().manual_seed(0))
    masked = sorted(order[: max(1, round(rows * columns / 2))].tolist())
    found = answers(weights, heads, photos[0], truth[0], masked)
    touched = _to_show(found, (rows, columns))
    asked = "" if goal is None else (
        f"Hide something that nothing around it gives away: find a masked patch of which the model "
        f"is at least {100 * goal:g} % sure, and wrong."
    )  # fmt: skip
    stored = squeeze(values(weights).tobytes())
    data = {
        "photos": [[name, base64(photo)] for name, photo in zip(names, photos, strict=True)],
        "channels": photos.shape[1], "size": list(photos.shape[2:]), "patch": list(patch),
        "grid": [rows, columns],
        "prefix": len(weights["prefix"]), "heads": heads, "depth": len(model.encoder.blocks),
        "colors": len(weights["predictor.bias"]),
        "weights": shapes(weights), "values": piece_key(stored), "goal": goal,
        "task": asked if task is None else task,
        "start": {"photo": 0, "patch": touched, "masked": masked}, "answers": found,
    }  # fmt: skip
    hits = counts(found, means[0], truth[0], columns)
    finding = _finding(data, names[0], hits)
    return Figure("masked_photograph", data, title, description or at_the_start(finding),
                  (stored,))  # fmt: skip


@torch.no_grad()
def _check_computed(
    learner: nn.Module, weights: dict[str, Tensor], heads: int, photos: np.ndarray
) -> None:
    """A model whose parts have these names may still compute another thing, such as a ReLU."""
    images = torch.from_numpy(photos)
    like = next(learner.parameters())
    with evaluating(learner):
        own = learner.model.features((images / 127.5 - 1).to(like)).float().cpu()
    page, _ = encode(weights, heads, images)
    apart = (page - own).square().mean().sqrt() / own.std()
    if not apart < _ALIKE:
        raise ValueError(
            f"the page's tokens of {type(learner.model).__name__} differ from the model's by "
            f"{apart:.2g} of their deviation: expected a plain Vision Transformer, with GELU and "
            "LayerNorm before attention and MLP"
        )


def _to_show(found: dict[int, dict], grid: tuple[int, int]) -> int:
    """A masked patch that is guessed exactly, if there is one, as near to the middle as can be."""

    def order(patch: int) -> tuple:
        row, column = divmod(patch, grid[1])
        return found[patch]["rank"] > 1, abs(2 * row - grid[0]) + abs(2 * column - grid[1])

    return min(found, key=order)


def _finding(data: dict, name: str, hits: tuple[int, int, int]) -> str:
    masked, patches = data["start"]["masked"], data["grid"][0] * data["grid"][1]
    return (
        f"{len(masked)} of the {patches} patches of {name} are masked, drawn at random. The "
        f"model's guess, one of {data['colors']} colours, is exactly right for {hits[0]} of them. "
        f"The photograph's commonest colour is right for {hits[1]}, and the mean of the nearest "
        f"patches that are shown for {hits[2]}."
    )
