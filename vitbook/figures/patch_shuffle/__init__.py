"""What a model answers when the patches of an image are moved."""

from collections.abc import Mapping, Sequence
from copy import deepcopy

import numpy as np
import torch
from einops import rearrange
from torch import Tensor, nn

from vitbook.figures.parts.drawing import OKABE_ITO, as_images, base64
from vitbook.figures.parts.figure import Figure, at_the_start

_SHOWN = 24  # numbers of a token that are drawn
_COLORS = (OKABE_ITO[0], "#f7f7f7", OKABE_ITO[4])  # below, at and above zero


def arrangements(grid_size: tuple[int, int]) -> dict[str, list[int]]:
    """Orders of the patches by name: the number of the patch that stands at each position."""
    rows, columns = grid_size
    grid = torch.arange(rows * columns).reshape(grid_size)
    swapped, middle = grid.clone(), (rows // 2, (columns - 1) // 2)
    swapped[middle[0], middle[1] : middle[1] + 2] = grid[middle[0], middle[1] : middle[1] + 2].flip(
        0
    )
    named = {
        "as it was": grid,
        "two neighbours swapped": swapped,
        "mirrored": grid.flip(1),
        "upside down": grid.flip(0),
    }
    for seed in (1, 2, 3):
        order = torch.randperm(grid.numel(), generator=torch.Generator().manual_seed(seed))
        named[f"shuffled, no. {seed}"] = order
    return {name: order.flatten().tolist() for name, order in named.items()}


def rearranged(images: Tensor, order: Sequence[int], grid_size: tuple[int, int]) -> Tensor:
    """Images "... height width" with patch ``order[position]`` at each position."""
    rows, columns = grid_size
    cut = rearrange(images, "... (r p) (c q) -> (r c) ... p q", r=rows, c=columns)
    return rearrange(cut[list(order)], "(r c) ... p q -> ... (r p) (c q)", r=rows, c=columns)


@torch.no_grad()
def _answers(model: nn.Module, images: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Logits "n classes" and patch tokens after the last norm "n patches width", in float64."""
    exact = deepcopy(model).cpu().double().eval()
    tokens = exact.features(images.double() / 127.5 - 1)
    return exact.head(tokens).numpy(), tokens[:, exact.num_prefix_tokens :].numpy()


def _answer(logits: np.ndarray, tokens: np.ndarray, orders: Sequence[Sequence[int]]) -> list[dict]:
    """For each order what the page shows; the first order is the identity."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    chances = powers / powers.sum(-1, keepdims=True)
    limit = np.quantile(np.abs(tokens[..., :_SHOWN]), 0.99)
    levels = np.rint(127.5 * (1 + np.clip(tokens[..., :_SHOWN] / limit, -1, 1))).astype(np.uint8)
    found = []
    for i, order in enumerate(orders):
        moved = np.abs(tokens[i] - tokens[0][list(order)]).max(-1)  # by place
        by_patch = moved[np.argsort(order)]
        found.append({
            "chances": [round(float(p), 4) for p in chances[i]],
            "change": float(np.abs(logits[i] - logits[0]).max()),
            "token_changes": [float(f"{change:.3g}") for change in by_patch],
            "levels": base64(levels[i]),
        })  # fmt: skip
    return found


def patch_shuffle(
    models: Mapping[str, nn.Module],
    image,
    *,
    start: str = "shuffled, no. 1",
    task: str | None = None,
    title: str = "Without positions the tokens move and the answer stays",
    description: str | None = None,
) -> Figure:
    """An image before and after its patches are moved, and what each model makes of both.

    The answers are computed here, in double precision: what the page calls a change of 1e-15 is
    the rounding of that.

    Args:
        models: name -> Vision Transformer; the grids alike. The first is shown at the start.
        image: uint8 "channels height width".
        start: name of the order at the start, one of :func:`arrangements`.
    """
    image = as_images(np.asarray(image)[None])[0]
    grid_size = tuple(next(iter(models.values())).grid_size)
    orders = arrangements(grid_size)
    cut = rearrange(
        image, "n (r p) (c q) -> (r c) (n p q)", r=grid_size[0], c=grid_size[1]
    )  # fmt: skip
    follow = int(cut.mean(1, dtype=float).argmax())  # the brightest
    shown = torch.stack(
        [rearranged(torch.from_numpy(image), order, grid_size) for order in orders.values()]
    )
    raw = {name: _answers(model, shown) for name, model in models.items()}
    answers = {name: _answer(*pair, list(orders.values())) for name, pair in raw.items()}
    data = {
        "pixels": base64(image), "size": list(image.shape[1:]), "channels": len(image),
        "grid": list(grid_size), "classes": list("0123456789"),
        "orders": [[name, order] for name, order in orders.items()],
        "models": [[name, answer] for name, answer in answers.items()],
        "numbers": min(_SHOWN, next(iter(raw.values()))[1].shape[-1]),
        "width": next(iter(raw.values()))[1].shape[-1],
        "start": [next(iter(models)), start], "follow": follow, "colors": _COLORS,
        "task": task or "",
    }  # fmt: skip
    first = answers[data["start"][0]]
    at = list(orders).index(start)
    finding = (
        f"{data['start'][0].capitalize()}, {start}: the largest change of the logits is "
        f"{_amount(first[at]['change'])}. The framed patch's token went where the patch went, and "
        f"changed by {_amount(first[at]['token_changes'][follow])}."
    )
    return Figure("patch_shuffle", data, title, description or at_the_start(finding))


def _amount(change: float | int) -> str:
    return "mere rounding, below a billionth" if change < 1e-9 else f"{change:.2g}"
