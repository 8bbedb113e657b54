"""What a few frequencies of a table of positions say, beside tables that learned nothing."""

from collections.abc import Mapping

import numpy as np

from vitbook.figures.parts.drawing import CIVIDIS, as_array, base64
from vitbook.figures.parts.figure import Figure

_MOST_PLACES = 144


def likeness_of_waves(table: np.ndarray, keep: int | np.ndarray) -> np.ndarray:
    """Cosine of every two positions of a table that keeps some of its frequencies alone.

    Args:
        table: "rows columns width".
        keep: frequencies of at most so many cycles down and across the grid; or which of them, by
            their cycles down and across, bool "rows//2+1 columns//2+1".

    Returns:
        "positions positions", row by row.
    """
    waves = np.fft.fft2(table, axes=(0, 1))
    down, across = (np.rint(np.abs(np.fft.fftfreq(n, 1 / n))).astype(int) for n in table.shape[:2])
    slow = np.maximum(down[:, None], across) <= keep if np.ndim(keep) == 0 else (
        np.asarray(keep)[down[:, None], across]
    )  # fmt: skip
    waves[~slow] = 0
    places = np.fft.ifft2(waves, axes=(0, 1)).real.reshape(-1, table.shape[2])
    lengths = np.linalg.norm(places, axis=1, keepdims=True)
    return (places / lengths) @ (places / lengths).T


def place_waves(
    tables: Mapping[str, object],
    *,
    place: tuple[int, int] = (3, 0),
    keep: int = 1,
    task: str | None = None,
    title: str = "Low frequencies make any table look as if it had learned a mirror",
    description: str | None = None,
) -> Figure:
    """How similar one position is to all others, in tables that keep a few of their frequencies.

    Args:
        tables: name -> "rows columns width", the learned one first, the controls after it.
        place: (row, column) of the position that asks at the start.
        keep: frequencies kept at the start: of at most so many cycles down and across.
    """
    arrays = {name: as_array(table).astype(float) for name, table in tables.items()}
    rows, columns, _ = next(iter(arrays.values())).shape
    cuts = max(rows, columns) // 2
    if rows * columns > _MOST_PLACES:
        raise ValueError(
            f"a grid of {rows}x{columns} positions: expected up to {_MOST_PLACES}, since the page "
            "holds every pair of them"
        )
    found = np.stack(
        [[likeness_of_waves(a, cut) for cut in range(1, cuts + 1)] for a in arrays.values()]
    )
    data = {
        "rows": rows, "columns": columns, "cuts": cuts, "names": list(arrays),
        "place": place[0] * columns + place[1], "keep": keep,
        "products": base64(np.stack([_products(array) for array in arrays.values()])),
        "stops": CIVIDIS, "task": task or "",
    }  # fmt: skip
    one, other = data["place"], place[0] * columns + columns - 1 - place[1]
    said = [
        f"{name} {found[i, keep - 1, one, other]:.2f} ({found[i, -1, one, other]:.2f})"
        for i, name in enumerate(arrays)
    ]
    finding = (
        f"Shown at the start: how similar the position in row {place[0] + 1}, column "
        f"{place[1] + 1} is to every position, when a table keeps its mean and frequencies up to "
        f"{keep}. Its mirror image, left to right, has the dashed frame. Their cosine, and in "
        f"brackets with all frequencies: {'; '.join(said)}.\nA low frequency ends where it began, "
        "so that opposite edges look similar in any table of few frequencies."
    )
    return Figure("place_waves", data, title, description or finding)


def _products(table: np.ndarray) -> np.ndarray:
    """Inner products of every two positions: all that a choice of frequencies needs."""
    places = table.reshape(-1, table.shape[2])
    products = places @ places.T
    return np.rint(products / np.abs(products).max() * 32767).astype("<i2")
