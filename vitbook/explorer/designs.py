"""Parameters and multiply-adds of a network as a point in a plane, beside what is printed."""

from collections.abc import Mapping

import numpy as np

from vitbook.explorer.drawing import OKABE_ITO, Number, drawing, tag, text
from vitbook.explorer.figure import Figure, at_the_start

# ViT at 224 px with patches of 16: 196 patches of 768 numbers, 1,000 classes.
NETWORK = {"patches": 196, "pixels": 768, "classes": 1000}
LIMITS = {"depth": (1, 24, 1), "width": (128, 1280, 64), "ratio": (1, 6, 0.25)}
_SIZE, _INSET = (320, 274), (36, 22, 8, 32)
_COLOR = OKABE_ITO[1]  # of what is printed
_AROUND = (3.0, 0.6)  # of the goal, in the second plane: millions and billions


def design_counter(
    designs: Mapping[str, tuple[int, int, float, float]],
    goal: str,
    *,
    start: tuple[int, int, Number] = (8, 768, 3),
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
        start: layers, width and MLP ratio at the start.
        task: a sentence above the figure; by default it asks to meet the goal's parameters.
        description: the caption; by default the finding at the start, in words.
    """
    if goal not in designs:
        raise ValueError(f"goal came as {goal!r}, expected one of {', '.join(designs)}")
    for (name, (low, high, step)), value in zip(LIMITS.items(), start, strict=True):
        if not low <= value <= high or (value - low) % step:
            raise ValueError(
                f"{name} came as {value}, expected {low} to {high} in steps of {step}: "
                "the sliders have no other place"
            )
    depth, width, ratio = start
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
        "network": NETWORK, "start": dict(zip(LIMITS, start, strict=True)), "limits": LIMITS,
        "designs": rows, "planes": _planes(goal, printed, billions),
        "goal": dict(name=goal, depth=layers, width=wide, parameters=printed, macs=billions),
        "layout": {"size": _SIZE, "inset": _INSET}, "color": _COLOR, "task": task,
    }  # fmt: skip
    still = _still(data, finding)
    return Figure("design_counter.js", data, title, description or at_the_start(finding), still)


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


def _still(data: dict, words: str) -> str:
    """Both planes at the start."""
    (width, height), gap, parts = _SIZE, 20, []
    for i, plane in enumerate(data["planes"]):
        parts += [
            text(i * (width + gap), 13, plane["label"], font_weight=600),
            tag("g", *_plane(plane, data), transform=f"translate({i * (width + gap)} 20)"),
        ]
    return drawing(2 * width + gap, height + 20, words, *parts)


def _plane(plane: dict, data: dict) -> list[str]:
    left, top, right, bottom = _INSET
    wide, tall = _SIZE[0] - left - right, _SIZE[1] - top - bottom
    (low_x, high_x), (low_y, high_y), lens = plane["x"], plane["y"], plane["lens"]

    def place(millions: Number, billions: Number) -> tuple[float, float]:
        across, up = (millions - low_x) / (high_x - low_x), (billions - low_y) / (high_y - low_y)
        return across * wide, (1 - up) * tall

    axes = [text(left + place(t, 0)[0], _SIZE[1] - bottom + 14, str(t), text_anchor="middle")
            for t in plane["x_ticks"]]  # fmt: skip
    axes += [text(left - 5, top + place(0, t)[1] + 4, str(t), text_anchor="end")
             for t in plane["y_ticks"]]  # fmt: skip
    axes += [text(left + wide, _SIZE[1] - 3, "parameters, M", text_anchor="end"),
             text(0, 11, "multiply-adds, G")]  # fmt: skip
    depth, width, ratio = data["start"].values()
    ends = [count(depth, width, int(each * width)) for each in LIMITS["ratio"][:2]]
    (ax, ay), (zx, zy) = (place(parameters / 1e6, macs / 1e9) for parameters, macs in ends)
    # Of the line from a to z, the part inside the plane.
    cuts = sorted((-ax / (zx - ax), (wide - ax) / (zx - ax)))
    more = sorted((-ay / (zy - ay), (tall - ay) / (zy - ay)))
    parts = max(0.0, cuts[0], more[0]), min(1.0, cuts[1], more[1])
    inner = []
    if lens:
        (x, y), end = (place(lens["x"][i], lens["y"][1 - i]) for i in (0, 1))
        inner += [tag("rect", x=x, y=y, width=end[0] - x, height=end[1] - y, fill="none",
                      stroke="currentColor", opacity=0.6)]  # fmt: skip
    if parts[0] < parts[1]:
        (x1, y1), (x2, y2) = ((ax + t * (zx - ax), ay + t * (zy - ay)) for t in parts)
        inner += [tag("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=OKABE_ITO[0], stroke_width=2,
                      stroke_dasharray="5 4")]  # fmt: skip
    for row in data["designs"]:
        if not (low_x <= row["parameters"] <= high_x and low_y <= row["macs"] <= high_y):
            continue
        x, y = place(row["parameters"], row["macs"])
        corner = place(row["parameters"] + 0.05, row["macs"] + 0.05)
        half = max(corner[0] - x, 3.0), max(y - corner[1], 3.0)
        inner += [tag("rect", x=x - half[0], y=y - half[1], width=2 * half[0], height=2 * half[1],
                      fill=_COLOR, stroke="currentColor")]  # fmt: skip
        within = lens and lens["x"][0] <= row["parameters"] <= lens["x"][1]
        if not (within and lens["y"][0] <= row["macs"] <= lens["y"][1]):
            inner += [text(x + (8 if lens else -8), y + 4, row["name"], font_weight=600,
                           text_anchor="start" if lens else "end")]  # fmt: skip
    parameters, macs = count(depth, width, int(ratio * width))
    x, y = place(parameters / 1e6, macs / 1e9)
    if 0 <= x <= wide and 0 <= y <= tall:
        inner += [tag("circle", cx=x, cy=y, r=6, fill=OKABE_ITO[0], stroke="currentColor")]
    field = tag("g", *inner, transform=f"translate({left} {top})")
    frame = tag("rect", x=left, y=top, width=wide, height=tall, fill="none",
                stroke="currentColor", opacity=0.4)  # fmt: skip
    return [*axes, field, frame]
