"""A photograph and the maps of all heads as one drawing, for a notebook's widget."""

import numpy as np

from vitbook.figures.attention_gallery.looks import Layout, Look, Pair
from vitbook.figures.parts.drawing import Number, drawing, framed, heat, pixels, png, tag, text
from vitbook.figures.parts.figure import piece_key

# Over a photograph, from no weight to the largest: red, green, blue, and how much they cover.
SPOTLIGHT = ((4, 6, 16, 196), (6, 10, 28, 176), (20, 28, 60, 132), (120, 112, 84, 70),
             (255, 226, 90, 50), (255, 240, 90, 92))  # fmt: skip

# Of the small maps: nothing, then cividis in few steps, which take a third of the bytes.
_STEPS = heat(np.linspace(0, 1, 32)[None] ** 2, 1)[0]
SHADES = np.vstack([np.zeros(4, np.uint8), np.column_stack([_STEPS, np.full(32, 255)])])
_SIDE, _RIGHT = 330, 350  # of a photograph, and where the second begins


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
    """Weights "layers heads patches" to one drawing: heads down, layers across, gaps of 0.

    A number is that of a colour in ``SHADES``, along the square root of each map's own largest.
    """
    layers, heads, _ = rows.shape
    times = enlarged(grid)
    high, wide = grid[0] * times, grid[1] * times
    sheet = np.zeros((heads * (high + 1) - 1, layers * (wide + 1) - 1), np.uint8)
    for layer in range(layers):
        for head in range(heads):
            row = rows[layer, head].reshape(grid)
            part = np.sqrt(row / max(float(row.max()), 1e-12))
            cell = 1 + np.rint(part * (len(SHADES) - 2)).astype(np.uint8)
            y, x = head * (high + 1), layer * (wide + 1)
            sheet[y : y + high, x : x + wide] = cell.repeat(times, 0).repeat(times, 1)
    return sheet


def _photo(address: str, layout: Layout, side: Number, tall: Number, **more: object) -> str:
    """A photograph, smooth unless it has so few pixels that each is seen."""
    if layout.size[0] < 64:
        return pixels(address, 0, 24, side, tall, **more)
    return tag("image", href=address, x=0, y=24, width=side, height=tall,
               preserveAspectRatio="none", **more)  # fmt: skip


def _twice(address: str, layout: Layout, asks: int, veil: np.ndarray, words: str) -> list[str]:
    """The photograph, and again under a veil; on both the patch that asks."""
    name = f"vb-photo-{piece_key(address)}"
    tall = _tall(layout)
    high, wide = tall / layout.grid[0], _SIDE / layout.grid[1]
    row, column = divmod(asks, layout.grid[1])
    mark = framed(column * wide, 24 + row * high, wide, high) if asks >= 0 else ""
    return [
        text(0, 14, "The patch that asks" if asks >= 0 else "The photograph", font_weight=600),
        _photo(address, layout, _SIDE, tall, id=name), mark,
        text(_RIGHT, 14, words, font_weight=600),
        tag("use", href=f"#{name}", x=_RIGHT),  # the page carries the photograph once
        pixels(png(veil), _RIGHT, 24, _SIDE, tall),
        tag("g", mark, transform=f"translate({_RIGHT} 0)"),
    ]  # fmt: skip


def _tall(layout: Layout) -> float:
    return _SIDE * layout.size[0] / layout.size[1]


def draw_heads(
    address: str, seen: Look, query: int, chosen: Pair, words: str, top: float | None = None
) -> str:
    """The photograph with the patch that asks, the enlarged map over it, and all maps.

    ``top`` is the weight that is brightest; by default the largest of the enlarged map.
    """
    layout, (layer, line) = seen.layout, chosen
    prefix = len(layout.prefix)
    rows, tall = seen.layers[:, :, query, prefix:], _tall(layout)
    row = rows[layer, line].reshape(layout.grid)
    veil = spotlight(row, float(row.max()) if top is None else top)
    name = seen.called(layer, line)
    width, low = _RIGHT + _SIDE, tall + 50
    sheet = atlas(rows, layout.grid)
    across, down = rows.shape[:2]
    whole = min(width, 72 * across)
    deep = whole * sheet.shape[0] / sheet.shape[1]
    cell = (whole + whole / sheet.shape[1]) / across
    fall = (deep + deep / sheet.shape[0]) / down
    mean = f"over all patches {seen.far[layer, line, prefix:].mean():.1f} px"
    if query >= prefix:
        mean = f"from this patch {seen.far[layer, line, query]:.1f} px, {mean}"
    parts = [
        *_twice(address, layout, query - prefix, veil, f"{name[:1].upper()}{name[1:]} looks here"),
        text(0, low, heading(seen.fuse), font_weight=600),
        pixels(png(sheet, SHADES), 0, low + 10, whole, deep),
        framed(layer * cell, low + 10 + line * fall, cell * 0.95, fall * 0.95),
        text(0, low + deep + 30, f"mean distance {mean}; each map from 0 to its own largest "
             "weight"),
    ]  # fmt: skip
    return drawing(width, round(low + deep + 40), words, *parts)


def heading(fuse: tuple[str, ...]) -> str:
    """What the sheet of all maps is called."""
    below = f"; below them {', '.join(fuse)}" if fuse else ""
    return f"All heads: layers across, heads down{below}"
