"""Which tokens have heard of some after a few layers of a cheaper attention."""

import numpy as np

from vitbook.figures.parts.figure import Figure

_SIDES = (4, 8, 12, 16, 32, 48, 64)
_BLOCK = 4
_COLORS = {"own": "#fee838", "late": "#5d6570", "mixed": "#7b8a9c", "none": "#00224e"}
_LAYERS, _MOST = 2, 12  # at the start, and at most


def hearing_map(
    side: int = 8,
    *,
    pattern: str = "rows",
    token: tuple[int, int] = (0, 0),
    num_keys: int = 8,
    num_features: int = 45,
    task: str | None = None,
    title: str = "What a layer leaves out decides who ever hears of whom",
    description: str | None = None,
) -> Figure:
    """Paint tokens of a square grid that have news, watch it spread, and see what a layer computes.

    Seven patterns and their cost as the grid grows: all tokens, rows twice, a row and then a
    column, blocks of 4x4, 3x3 neighbours, Linformer's mixtures, Performer's features. A pair is
    one score and one weighted value, two multiply-adds for each number of a head; projections are
    left out.

    Args:
        side: tokens along a side of the grid it starts with: 4, 8, 12, 16, 32, 48 or 64.
        pattern: ``all``, ``rows``, ``axial``, ``blocks``, ``near``, ``linformer`` or ``performer``.
        token: (row, column) of the token that has news at the start.
        num_keys: Linformer's mixtures.
        num_features: Performer's features.
        task: a sentence above the figure.
        description: the caption; by default the finding in words.
    """
    names = {
        "all": "all tokens", "rows": "its row in both layers", "axial": "its row, then its column",
        "blocks": f"its block of {_BLOCK} × {_BLOCK}", "near": "its 3 × 3 neighbours",
        "linformer": f"Linformer, {num_keys} keys",
        "performer": f"Performer, {num_features} features",
    }  # fmt: skip
    if side not in _SIDES:
        raise ValueError(f"a side of {side} tokens came, expected one of {_SIDES}")
    if pattern not in names:
        raise ValueError(f"pattern came as {pattern!r}, expected one of {', '.join(names)}")
    if not all(0 <= place < side for place in token):
        raise ValueError(f"token came as {token}, expected row and column from 0 to {side - 1}")
    if min(num_keys, num_features) < 1:
        raise ValueError(
            f"{num_keys} keys and {num_features} features came, expected at least 1 of both"
        )
    data = {
        "sides": _SIDES, "side": side, "pattern": pattern, "token": token[0] * side + token[1],
        "layers": _LAYERS, "most": _MOST, "block": _BLOCK, "keys": num_keys,
        "features": num_features, "names": names,
        "thin": {"linformer": f"in {num_keys} mixtures",
                 "performer": f"through {num_features} features"},
        "colors": _COLORS, "task": task or "",
    }  # fmt: skip
    heard = [int(_heard(data, layers).sum()) for layers in (1, 2)]
    finding = (
        f"Shown at the start, on a grid of {side} × {side}: one token has news, and each reads "
        f"{names[pattern]}. After one layer {heard[0]:,} of {side**2:,} tokens have heard it, "
        f"after two {heard[1]:,}. A layer computes {_pairs(data):,} of {side**4:,} pairs.\nYellow: "
        "heard in the first layer, with a weight of its own; darker: later. Grey-blue: heard "
        "through a few mixtures or features that all tokens share."
    )
    return Figure("hearing_map", data, title, description or finding)


def _heard(data: dict, layers: int) -> np.ndarray:
    """Which tokens have heard the one that has news: bool "rows columns"."""
    side = data["side"]
    rows, columns = np.indices((side, side))
    row, column = divmod(data["token"], side)
    if data["pattern"] == "rows" or (data["pattern"] == "axial" and layers == 1):
        return rows == row
    if data["pattern"] == "near":
        return np.maximum(abs(rows - row), abs(columns - column)) <= layers
    if data["pattern"] == "blocks":
        return (rows // _BLOCK == row // _BLOCK) & (columns // _BLOCK == column // _BLOCK)
    return np.ones((side, side), dtype=bool)


def _pairs(data: dict) -> int:
    """Scores and weighted values of one layer, two multiply-adds a head number as one pair."""
    side = data["side"]
    if data["pattern"] == "near":
        return (3 * side - 2) ** 2  # at the edge a token has fewer neighbours
    read = {
        "all": side**2, "rows": side, "axial": side, "blocks": _BLOCK**2,
        "linformer": 2 * data["keys"], "performer": 2 * data["features"],
    }  # fmt: skip
    return side**2 * read[data["pattern"]]
