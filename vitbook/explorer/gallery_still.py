"""The photograph explorer's default state, for a page without scripts."""

import numpy as np

from vitbook.explorer.drawing import Number, drawing, framed, heat, pixels, png, tag, text

# Over a photograph, from no weight to the largest: red, green, blue, and how much they cover.
SPOTLIGHT = ((4, 6, 16, 196), (6, 10, 28, 176), (20, 28, 60, 132), (120, 112, 84, 70),
             (255, 226, 90, 50), (255, 240, 90, 92))  # fmt: skip


def spotlight(weights: np.ndarray, top: float) -> np.ndarray:
    """Weights "h w" to uint8 "h w 4": along the square root from a dark veil to bright."""
    stops = np.asarray(SPOTLIGHT, dtype=float)
    place = np.sqrt(np.clip(weights / max(top, 1e-12), 0, 1)) * (len(stops) - 1)
    colors = [np.interp(place, range(len(stops)), stops[:, i]) for i in range(4)]
    return np.rint(np.stack(colors, -1)).astype(np.uint8)


def enlarged(grid: tuple[int, int]) -> int:
    """Pixels that a patch has along a side of a small map, so that the gaps are thin."""
    return max(1, round(16 / min(grid)))


def atlas(rows: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Weights "layers heads patches" to one drawing: heads down, layers across, clear gaps."""
    layers, heads, _ = rows.shape
    times = enlarged(grid)
    high, wide = grid[0] * times, grid[1] * times
    sheet = np.zeros((heads * (high + 1) - 1, layers * (wide + 1) - 1, 4), np.uint8)
    for layer in range(layers):
        for head in range(heads):
            row = rows[layer, head].reshape(grid)
            cell = heat(row, float(row.max())).repeat(times, 0).repeat(times, 1)
            y, x = head * (high + 1), layer * (wide + 1)
            sheet[y : y + high, x : x + wide] = np.dstack([cell, np.full(cell.shape[:2], 255)])
    return sheet


def _picture(data: dict, x: Number, side: Number, tall: Number, **more: object) -> str:
    """The first photograph, smooth unless it has so few pixels that each is seen."""
    address = data["photos"][0]["image"]
    if data["height"] < 64:
        return pixels(address, x, 24, side, tall, **more)
    return tag("image", href=address, x=x, y=24, width=side, height=tall,
               preserveAspectRatio="none", **more)  # fmt: skip


def draw_still(data: dict, rows: np.ndarray, far: np.ndarray, words: str) -> str:
    """The photograph with the patch that asks, the enlarged head over it, and all heads."""
    side, gap, grid = 330, 20, data["grid"]
    start, prefix = data["start"], len(data["prefix"])
    layer, head = start["layer"], start["head"]
    tall = side * data["height"] / data["width"]
    high, wide = tall / grid[0], side / grid[1]
    row, column = divmod(start["query"] - prefix, grid[1])
    veil = spotlight(rows[layer, head].reshape(grid), float(rows[layer, head].max()))
    right = side + gap
    mark = framed(column * wide, 24 + row * high, wide, high)
    width, low = 2 * side + gap, tall + 50
    sheet = atlas(rows, grid)
    across, down = data["layers"], data["heads"]
    whole = min(width, 72 * across)
    deep = whole * sheet.shape[0] / sheet.shape[1]
    cell = (whole + whole / sheet.shape[1]) / across
    fall = (deep + deep / sheet.shape[0]) / down
    mean = data["photos"][0]["far"][layer * data["heads"] + head]
    parts = [
        text(0, 14, "The patch that asks", font_weight=600),
        _picture(data, 0, side, tall), mark,
        text(right, 14, f"Layer {layer + 1}, head {head + 1} looks here", font_weight=600),
        _picture(data, right, side, tall, class_="vb-ground"),
        pixels(png(veil), right, 24, side, tall),
        tag("g", mark, transform=f"translate({right} 0)"),
        text(0, low, "All heads: layers across, heads down", font_weight=600),
        pixels(png(sheet), 0, low + 10, whole, deep),
        framed(layer * cell, low + 10 + head * fall, cell * 0.95, fall * 0.95),
        text(0, low + deep + 30, f"mean distance from this patch {far[layer, head]:.1f} px, over "
             f"all patches {mean:.1f} px; each map from 0 to its own largest weight"),
    ]  # fmt: skip
    return drawing(width, round(low + deep + 40), words, *parts)
