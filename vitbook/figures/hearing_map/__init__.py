"""Which tokens have heard of some after a few layers of a cheaper attention."""

from vitbook.figures.parts.figure import Figure

_SIDES, _SIDE = (4, 8, 12, 16, 32, 48, 64), 8  # and at the start
_BLOCK = 4
_COLORS = {"own": "#fee838", "late": "#5d6570", "none": "#00224e"}
_LAYERS, _MOST = 2, 12  # at the start, and at most


def hearing_map(
    *,
    num_keys: int = 8,
    num_features: int = 45,
    task: str | None = None,
    title: str = "What a layer leaves out decides who ever hears of whom",
    description: str | None = None,
) -> Figure:
    """Paint tokens of a square grid that have news, watch it spread, and see what a layer computes.

    Seven patterns and their cost as the grid grows: all tokens, rows twice, a row and then a
    column, both at once (as Sparse Transformers' strided heads together), windows of 4x4, windows
    that move in every second layer (Swin), 3x3 neighbours. Beside them stand Linformer's and
    Performer's costs, in which all tokens hear of all at once. A pair is one score and one weighted
    value, two multiply-adds for each number of a head; projections are left out. It starts with a
    token of a grid of 8 x 8, each of which reads its row.

    Args:
        num_keys: Linformer's mixtures.
        num_features: Performer's features.
    """
    names = {
        "all": "all tokens", "rows": "its row in both layers", "axial": "its row, then its column",
        "cross": "its row and its column at once",
        "blocks": f"its window of {_BLOCK} × {_BLOCK}",
        "swin": "its window, moved in every second layer (Swin)",
        "near": "its 3 × 3 neighbours",
    }  # fmt: skip
    data = {
        "sides": _SIDES, "side": _SIDE, "pattern": "rows", "token": 0,
        "layers": _LAYERS, "most": _MOST, "block": _BLOCK, "keys": num_keys,
        "features": num_features, "names": names,
        "nobody_left_out": {"linformer": f"Linformer, {num_keys} keys",
                            "performer": f"Performer, {num_features} features"},
        "colors": _COLORS, "task": task or "",
    }  # fmt: skip
    finding = (
        f"Shown at the start, on a grid of {_SIDE} × {_SIDE}: one token has news, and each reads "
        f"{names['rows']}. After one layer {_SIDE} of {_SIDE**2} tokens have heard it, after two "
        f"{_SIDE}. A layer computes {_SIDE**3} of {_SIDE**4:,} pairs.\nYellow: heard in the first "
        "layer; darker: later. Linformer and Performer have a bar and no map, as with them every "
        "token hears of all in one layer."
    )
    return Figure("hearing_map", data, title, description or finding)
