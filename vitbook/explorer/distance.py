"""One head, set by hand, and the attention distance that would be published for it."""

import numpy as np
import torch

from vitbook.analysis import attention_distance, uniform_attention_distance
from vitbook.explorer.drawing import CIVIDIS, Number, drawing, framed, heat, pixels, png, tag, text
from vitbook.explorer.figure import Figure
from vitbook.explorer.maps import mean_distance

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
    row = maps[0, 0, 1 + query, 1:].numpy()
    digits = 0 if uniform > 20 else 1
    far, told, alone = (
        f"{number:.{digits}f} px"
        for number in (uniform, published, mean_distance(row, query, grid_size, step))
    )
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
    still = _still(data, row, [far, told, alone], finding)
    return Figure("distance_meter.js", data, title, description, still)


def _still(data: dict, row: np.ndarray, numbers: list[str], words: str) -> str:
    """One row as a map and a bar; the distance as a product and on its scale."""
    (rows, columns), share, (far, told, alone) = data["grid"], data["share"] / 100, numbers
    side, left, length = 210, 234, 300
    tall = side * rows * data["patch"][0] / (columns * data["patch"][1])
    high, wide = tall / rows, side / columns
    at = divmod(data["query"], columns)
    parts = [
        text(0, 12, "One patch asks", font_weight=600),
        pixels(png(heat(row.reshape(rows, columns), 1 / row.size)), 0, 20, side, tall),
    ]
    parts += [framed(at[1] * wide, 20 + at[0] * high, wide, high)]

    def bars(x: Number, y: Number, whole: Number, part: Number, solid: Number) -> list[str]:
        return [
            tag("rect", x=start, y=y, width=width, height=14, fill=color, fill_opacity=opacity)
            for start, width, color, opacity in (
                (x, whole * part, _PATCHES, 1),
                (x + whole * part, whole * (1 - part), _TOKEN, solid),
            )
        ]  # fmt: skip

    low, line = tall + 30, length / 1.25
    parts += [
        *bars(0, low, side, 1 - share, 1),
        text(0, low + 28, f"patches {1 - share:.2f}"),
        text(side, low + 28, f"class token {share:.2f}", text_anchor="end"),
        text(0, low + 46, f"From this patch alone: {alone}"),
        text(left, 12, f"The head: all {row.size} patches ask alike", font_weight=600),
    ]
    terms = ((0, f"{1 - share:.2f}", "weight on patches"), (104, "×", ""), (130, far, "how far"),
             (222, "=", ""), (248, told, "published"))  # fmt: skip
    for x, number, name in terms:
        parts += [text(left + x, 60, number, font_size=22, font_weight=600),
                  text(left + x, 78, name)]  # fmt: skip
    parts += [
        *bars(left, 100, line, 1 - share, 3 / 7),  # as bright as the live hatching
        tag("line", x1=left + line, x2=left + line, y1=94, y2=122, stroke="currentColor",
            stroke_width=2, stroke_dasharray="4 3"),
        text(left + line, 136, f"uniform {far}", text_anchor="middle"),
        text(left, 136, "0"),
    ]  # fmt: skip
    return drawing(left + length + 40, round(low + 54), words, *parts)
