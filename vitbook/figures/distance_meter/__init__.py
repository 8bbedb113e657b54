"""One head, set by hand, and the attention distance that would be published for it."""

import numpy as np
import torch

from vitbook.analysis import attention_distance, uniform_attention_distance
from vitbook.figures.parts.drawing import CIVIDIS
from vitbook.figures.parts.figure import Figure

_MOST_PATCHES = 1024
_LEVELS, _SIGMA = 100, "\N{GREEK SMALL LETTER SIGMA}"
_SHARE = 50  # percent of the weight on the class token, at the start
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
    task: str | None = None,
    title: str = "The published distance mixes how far a head looks with how much it looks at "
    "patches",
    description: str | None = None,
) -> Figure:
    """A head whose every patch looks alike around itself: how wide, how much at the class token.

    Shows the row of one patch, and the mean attention distance of the head as the product of its
    weight on patches and how far that weight looks. It starts with half of the weight on the
    class token, and the rest evenly on all patches.

    Args:
        grid_size: (rows, columns) of patches, up to 1,024 of them.
        patch_size: pixels that a token steps; a pair (down, across) if they differ.
    """
    rows, columns = grid_size
    step = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    patches = rows * columns
    if patches > _MOST_PATCHES:
        raise ValueError(
            f"a grid of {rows}x{columns} patches, expected at most {_MOST_PATCHES:,}: the figure "
            "draws every patch as a button"
        )
    uniform = uniform_attention_distance(grid_size, step)
    maps = torch.full((1, 1, 1 + patches, 1 + patches), (1 - _SHARE / 100) / patches)
    maps[..., 0] = _SHARE / 100
    published = attention_distance(maps, grid_size, step, num_prefix_tokens=1).item()

    query = rows // 2 * columns + columns // 2
    digits = 0 if uniform > 20 else 1
    far, told = (f"{number:.{digits}f} px" for number in (uniform, published))
    finding = (
        f"At the start every patch gives {_SHARE} % of its weight to the class token and spreads "
        f"the rest evenly over {patches} patches. Where it looks at patches it looks {far} away "
        f"on average; the published distance is {1 - _SHARE / 100:.2f} × {far} = {told}, for the "
        "class token's column is cut and the rows are not brought back to sum 1.\nA head that "
        "never looks at the class token, and only at patches near by, has the same number.\n"
        f"How wide it looks is the {_SIGMA} of a Gaussian around the patch that asks."
    )
    if task is None:
        task = (
            f"This head looks everywhere alike and publishes {told}. Find the other head: nothing "
            f"on the class token, and {told} again. Which of the two does renormalising change?"
        )
    data = {
        "grid": [rows, columns], "patch": list(step), "query": query, "share": _SHARE,
        "widths": _widths(uniform, step), "uniform": round(uniform, 4), "digits": digits,
        "goal": published, "ramp": CIVIDIS, "colors": [_PATCHES, _TOKEN], "task": task,
    }  # fmt: skip
    return Figure("distance_meter", data, title, description or finding)
