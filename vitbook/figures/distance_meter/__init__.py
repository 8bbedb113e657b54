"""One head, set by hand, and the attention distance that would be published for it."""

import numpy as np
import torch

from vitbook.analysis import attention_distance, uniform_attention_distance
from vitbook.figures.parts.drawing import CIVIDIS, Number
from vitbook.figures.parts.figure import Figure

_MOST_PATCHES = 1024
_LEVELS = 100
_PATCHES, _TOKEN = "#0072B2", "#D55E00"


def _widths(uniform: float, step: tuple[int, int]) -> list[float | None]:
    """Widths of the Gaussian that move the distance about evenly: 0 is itself, None is endless.

    A Gaussian of width s on an endless plane looks 1.25 s away on average; on a grid that
    saturates at ``uniform``. The first width is the narrowest whose neighbours can be seen.
    """
    first = 1 - np.exp(-0.35 * min(step) / (0.8 * uniform))
    places = np.linspace(first, 1, _LEVELS)[:-1]
    return [0.0, *np.round(-0.8 * uniform * np.log1p(-places), 2).tolist(), None]


def distance_meter(
    grid_size: tuple[int, int] = (14, 14),
    patch_size: int | tuple[int, int] = 16,
    *,
    on_class_token: Number = 0.5,
    task: str | None = None,
    title: str = "The published distance mixes how far a head looks with how much it looks at "
    "patches",
    description: str | None = None,
) -> Figure:
    """A head whose every patch looks alike around itself: how wide, how much at the class token.

    Shows the row of one patch, and the mean attention distance of the head as the product of its
    weight on patches and how far that weight looks. It starts with even weight on all patches.

    Args:
        grid_size: (rows, columns) of patches, up to 1,024 of them.
        patch_size: pixels that a token steps; a pair (down, across) if they differ.
        on_class_token: the share of the weight that it starts with, from 0 to 1.
        task: a sentence above the figure; by default it asks for a second head with the number of
            the first and nothing on the class token.
        description: the caption; by default the finding at the start, in words.
    """
    rows, columns = grid_size
    step = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    if not 2 <= (patches := rows * columns) <= _MOST_PATCHES or min(rows, columns, *step) < 1:
        raise ValueError(
            f"a grid of {rows}x{columns} patches of {step[0]}x{step[1]} px, expected 2 to "
            f"{_MOST_PATCHES:,} patches of at least 1 px: the figure draws every patch as a button"
        )
    if not 0 <= on_class_token <= 1:
        raise ValueError(
            f"on_class_token came as {on_class_token}, expected a share from 0 to 1: 0.5 is half"
        )
    share = round(100 * on_class_token)
    uniform = uniform_attention_distance(grid_size, step)
    maps = torch.full((1, 1, 1 + patches, 1 + patches), (1 - share / 100) / patches)
    maps[..., 0] = share / 100
    published = attention_distance(maps, grid_size, step, num_prefix_tokens=1).item()

    query = rows // 2 * columns + columns // 2
    digits = 0 if uniform > 20 else 1
    far, told = (f"{number:.{digits}f} px" for number in (uniform, published))
    finding = (
        f"At the start every patch gives {share} % of its weight to the class token and spreads "
        f"the rest evenly over {patches} patches. Where it looks at patches it looks {far} away "
        f"on average; the published distance is {1 - share / 100:.2f} × {far} = {told}, for the "
        "class token's column is cut and the rows are not brought back to sum 1."
    )
    goal = published if 0 < share < 100 else None
    if goal:
        finding += (
            "\nA head that never looks at the class token, and only at patches near by, has the "
            "same number."
        )
    if task is None:
        task = goal and (
            f"This head looks everywhere alike and publishes {told}. Find the other head: nothing "
            f"on the class token, and {told} again. Which of the two does renormalising change?"
        )
    data = {
        "grid": [rows, columns], "patch": list(step), "query": query, "share": share,
        "widths": _widths(uniform, step), "uniform": round(uniform, 4), "digits": digits,
        "goal": goal, "ramp": CIVIDIS, "colors": [_PATCHES, _TOKEN], "task": task or "",
    }  # fmt: skip
    description = description or (
        f"{finding}\nHow wide it looks is the \N{GREEK SMALL LETTER SIGMA} of a Gaussian around "
        "the patch that asks."
    )
    return Figure("distance_meter", data, title, description)
