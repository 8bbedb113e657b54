"""Models as dots of accuracy against a cost, and the best one within a budget."""

from collections.abc import Mapping, Sequence
from math import ceil, cos, floor, pi, sin

from vitbook.figures.frontier.dots import SIZES, layout
from vitbook.figures.parts.axes import better_within, cost_axis, told
from vitbook.figures.parts.drawing import OKABE_ITO, Number
from vitbook.figures.parts.figure import Figure

COSTS = ("parameters", "macs", "time")
MACS, TIME = 1, 2
_WORDS = ("parameters", "multiply-adds", "time of an image")
_UNITS = {"parameters": (1e6, "M"), "macs": (1e9, "G"), "time": (1e-3, "ms")}
_MOST = 60  # models that a page can draw
_ROOM = 0.015  # above and below the accuracies
_ROUND = " ".join(f"{6.5 * cos(pi * i / 12):.1f},{6.5 * sin(pi * i / 12):.1f}" for i in range(24))
# Corners of circle, square, triangle, diamond, triangle on its head and cross, which are told
# apart without their colours too.
_SHAPES = (
    _ROUND, "-6,-6 6,-6 6,6 -6,6", "0,-7.5 7.5,6 -7.5,6", "0,-8 8,0 0,8 -8,0",
    "0,7.5 7.5,-6 -7.5,-6",
    "-2.5,-7 2.5,-7 2.5,-2.5 7,-2.5 7,2.5 2.5,2.5 2.5,7 -2.5,7 -2.5,2.5 -7,2.5 -7,-2.5 -2.5,-2.5",
)  # fmt: skip
_ASKED = "Find a budget of multiply-adds whose best model is slower than a better one."


def frontier(
    rows: Sequence[Mapping],
    *,
    task: str | None = None,
    title: str = "The best model under a budget of multiply-adds is not the best under one of time",
    description: str | None = None,
) -> Figure:
    """Accuracy against parameters, multiply-adds or time; a budget is dragged, its best lights up.

    Steps join the models that no other beats: what a budget can buy. Of the model that is lit the
    figure tells all three costs, and for each a better model that takes no more, if there is one.
    A budget of another cost starts at what the lit model takes of it. The task is reached at a
    budget of multiply-adds whose best model takes longer than a better one.

    Args:
        rows: of the models: "name", "family", "accuracy" from 0 to 1, "parameters", "macs" and
            "time" of an image in seconds, a number or (middle, low, high): then only a model whose
            whole interval lies lower takes less. At most six families.
    """
    rows = _in_units(rows)
    units = [unit for _, unit in _UNITS.values()]
    axes = [cost_axis(rows, *each) for each in zip(COSTS, _WORDS, units, strict=True)]
    families = _families(rows)
    names = [family["name"] for family in families]
    models = [_model(rows, i, names, units) for i in range(len(rows))]
    start = _start(models, axes[MACS])
    asked = _ASKED if any(beaten(models, i) for i in axes[MACS]["stairs"]) else ""
    finding = _finding(models, axes[MACS], start)
    accuracies = _accuracies(models)
    data = {
        "families": families, "models": models, "axes": axes, "accuracies": accuracies,
        "layouts": [layout(families, models, axes, size) for size in SIZES],
        "start": {"axis": MACS, "budget": start}, "task": asked if task is None else task,
    }  # fmt: skip
    return Figure("frontier", data, title, description or finding)


def _in_units(rows: Sequence[Mapping]) -> list[dict]:
    """The rows with costs in the units in which they are told, six digits of each."""
    if len(rows) > _MOST:
        raise ValueError(f"{len(rows)} models came, expected up to {_MOST}, which a page can draw")
    found = []
    for given in rows:
        row = {"name": str(given["name"]), "family": str(given["family"]), "spans": {}}
        for key in ("accuracy", *COSTS):
            unit = 1 if key == "accuracy" else _UNITS[key][0]
            value = given[key]
            middle, low, high = value if isinstance(value, Sequence) else [value] * 3
            row[key] = float(f"{float(middle) / unit:.6g}")
            row["spans"][key] = [float(f"{float(end) / unit:.6g}") for end in (low, high)]
        found.append(row)
    return found


def _families(rows: list[dict]) -> list[dict]:
    names = list(dict.fromkeys(row["family"] for row in rows))
    if len(names) > len(_SHAPES):
        raise ValueError(
            f"{len(names)} families came, expected at most {len(_SHAPES)}, whose colours and "
            f"shapes can be told apart: join some of {', '.join(names)}"
        )
    return [
        {"name": name, "color": color, "shape": shape}
        for name, color, shape in zip(names, OKABE_ITO, _SHAPES, strict=False)
    ]


def _accuracies(models: list[dict]) -> list[tuple[float, str]]:
    """Ticks of the accuracies, up to six of them; turns them into places from 0 to 1, upwards."""
    shares = [model["up"] for model in models]
    low, high = min(shares) - _ROOM, max(shares) + _ROOM
    for model in models:
        model["up"] = round((model["up"] - low) / (high - low), 4)
    pace = next(pace for pace in (1, 2, 5, 10, 20) if 100 * (high - low) / pace < 7)
    whole = range(ceil(100 * low / pace), floor(100 * high / pace) + 1)
    return [
        (round((tick * pace / 100 - low) / (high - low), 4), f"{tick * pace} %") for tick in whole
    ]


def _percent(share: Number) -> str:
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def _model(rows: list[dict], i: int, families: list[str], units: Sequence[str]) -> dict:
    row = rows[i]
    return {
        "name": row["name"],
        "family": families.index(row["family"]),
        "accuracy": _percent(row["accuracy"]),
        "up": row["accuracy"],
        "costs": [told(row[cost], unit) for cost, unit in zip(COSTS, units, strict=True)],
        "better": [better_within(rows, i, cost) for cost in COSTS],
    }


def _start(models: list[dict], axis: dict) -> int:
    """Number of the budget at the start: in the middle, and no end of the task."""
    steps = range(len(axis["values"]))
    free = [step for step, best in enumerate(axis["bought"]) if not beaten(models, best)]
    return min(free or steps, key=lambda step: abs(step - len(steps) // 2))


def _finding(models: list[dict], axis: dict, step: int) -> str:
    """How often the best for its multiply-adds is slower than a better one.

    Which one that is would answer the task.
    """
    best, stairs = models[axis["bought"][step]], axis["stairs"]
    slower = [i for i in stairs if beaten(models, i)]
    words = (
        f"At the start: within {axis['told'][step]} multiply-adds the best model is "
        f"{best['name']}, with {best['accuracy']}; an image takes it {best['costs'][TIME]}.\n"
    )
    if not slower:
        return f"{words}No model that is the best within some budget is slower than a better one."
    are = "is" if len(slower) == 1 else "are"
    return (
        f"{words}Of the {len(stairs)} models that are the best within some budget of "
        f"multiply-adds, {len(slower)} {are} slower than a better one."
    )


def beaten(models: list[dict], i: int) -> bool:
    """Whether a better model takes no more time than this one."""
    return models[i]["better"][TIME] is not None
