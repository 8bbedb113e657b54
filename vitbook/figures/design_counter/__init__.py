"""Parameters and multiply-adds of a network as a point in a plane, beside what is printed."""

from collections.abc import Mapping

import numpy as np

from vitbook.figures.parts.drawing import OKABE_ITO, Number
from vitbook.figures.parts.figure import Figure, at_the_start

# ViT at 224 px with patches of 16: 196 patches of 768 numbers, 1,000 classes.
NETWORK = {"patches": 196, "pixels": 768, "classes": 1000}
LIMITS = {"depth": (1, 24, 1), "width": (128, 1280, 64), "ratio": (1, 6, 0.25)}
_START = (8, 768, 3)  # layers, width, MLP ratio
_SIZE, _INSET = (320, 274), (36, 22, 8, 32)
_COLOR = OKABE_ITO[1]  # of what is printed
_AROUND = (3.0, 0.6)  # of the goal, in the second plane: millions and billions


def design_counter(
    designs: Mapping[str, tuple[int, int, float, float]],
    goal: str,
    *,
    task: str | None = None,
    title: str = "A row of the table must add up twice",
    description: str | None = None,
) -> Figure:
    """A plain ViT, set by sliders or dragged in the plane of what it counts, beside printed rows.

    The page counts what :mod:`vitbook.measure` counts on the real network: 224 px, patches of 16,
    1,000 classes, queries without bias, fixed positions.

    Args:
        designs: name -> (layers, width, parameters in millions, multiply-adds in billions), as
            they are printed, with one decimal.
        goal: the design that the second plane magnifies, and whose parameters are to be met.
    """
    depth, width, ratio = _START
    parameters, macs = count(depth, width, int(ratio * width))
    rows = [dict(name=n, parameters=p, macs=g) for n, (_, _, p, g) in designs.items()]
    layers, wide, printed, billions = designs[goal]
    finding = (
        f"{depth} layers of width {width} with MLP ratio {ratio:g} are {parameters / 1e6:.2f} M "
        f"parameters and {macs / 1e9:.2f} G multiply-adds.\nThe dashes show where other ratios "
        "lie: on a line, since each weight of a layer is used once a token."
    )
    if task is None:
        task = (
            f"{goal} is printed with {layers} layers of width {wide}, {printed} M and "
            f"{billions} G. Set depth and width so, and find the MLP ratio that meets "
            f"{printed} M, rounded or cut. Does it meet {billions} G too? Then drag the circle to "
            "other layers that meet both."
        )
    data = {
        "network": NETWORK, "start": dict(zip(LIMITS, _START, strict=True)), "limits": LIMITS,
        "designs": rows, "planes": _planes(goal, printed, billions),
        "goal": dict(name=goal, depth=layers, width=wide, parameters=printed, macs=billions),
        "layout": {"size": _SIZE, "inset": _INSET}, "color": _COLOR, "task": task,
    }  # fmt: skip
    return Figure("design_counter", data, title, description or at_the_start(finding))


def count(depth: int, width: int, hidden_width: int) -> tuple[int, int]:
    """Parameters and multiply-adds of a plain Vision Transformer, by formula."""
    patches, pixels, classes = NETWORK.values()
    tokens, matrices = patches + 1, 4 * width**2 + 2 * width * hidden_width
    block = matrices + 2 * width + hidden_width + 4 * width
    parameters = width + (pixels + 1) * width + depth * block + 2 * width + (width + 1) * classes
    pairs = 2 * tokens**2 * width
    return parameters, patches * pixels * width + depth * (tokens * matrices + pairs) + (
        classes * width
    )


def _planes(goal: str, millions: Number, billions: Number) -> list[dict]:
    x, y = (
        [round(v - a, 2), round(v + a, 2)]
        for v, a in zip((millions, billions), _AROUND, strict=True)
    )

    def whole(low: Number, high: Number, step: Number) -> list[Number]:
        ticks = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
        return [round(float(tick), 1) if step < 1 else int(tick) for tick in ticks]

    return [
        {"label": "All, and what is magnified", "x": [0, 80], "y": [0, 16],
         "x_ticks": whole(0, 80, 20), "y_ticks": whole(0, 16, 4), "lens": {"x": x, "y": y}},
        {"label": f"Around {goal}", "x": x, "y": y, "x_ticks": whole(*x, 1),
         "y_ticks": whole(*y, 0.2), "lens": None},
    ]  # fmt: skip
