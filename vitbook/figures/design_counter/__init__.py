"""Parameters and multiply-adds of a network as a point in a plane, beside what is printed."""

from collections.abc import Mapping, Sequence

from vitbook.figures.parts.drawing import OKABE_ITO
from vitbook.figures.parts.figure import Figure, at_the_start

# ViT at 224 px, 1,000 classes.
NETWORK = {"side": 224, "classes": 1000}
PATCH = 16  # px, a side
LIMITS = {"depth": (1, 24, 1), "width": (128, 1280, 64), "ratio": (1, 4, 0.25)}
_START = (8, 768, 3)  # layers, width, MLP ratio
_SIZE, _INSET = (440, 270), (36, 22, 8, 32)
_COLOR = OKABE_ITO[1]  # of what is printed
_PARAMETERS = (0, 20, 40, 60, 80)
_MACS, _MACS_OF_PATCHES = (0, 4, 8, 12, 16), (0, 6, 12, 18, 24)


def design_counter(
    designs: Mapping[str, tuple[float, float]],
    *,
    start: tuple[int, int, float | int] = _START,
    narrow: int = 512,
    patches: Sequence[int] = (),
    task: str | None = None,
    title: str = "How deep is a narrow network of equal cost?",
    description: str | None = None,
) -> Figure:
    """A plain ViT, set by sliders or dragged in the plane of what it counts, beside others.

    The page counts what :mod:`vitbook.measure` counts on the real network: 224 px, patches of 16
    at the start, 1,000 classes, queries without bias, fixed positions.

    Args:
        designs: name -> (parameters in millions, multiply-adds in billions), as they are printed.
        start: layers, width and MLP ratio.
        narrow: width that a network of the start's cost may have at most, to fulfil the task.
        patches: sides of patches in px, of which a slider offers one, 16 among them. The task is
            then to pay for the last of them.

    Raises:
        ValueError: patches that do not tile the image, or without 16.
    """
    wrong = [each for each in patches if each < 1 or NETWORK["side"] % each]
    if wrong or (patches and PATCH not in patches):
        raise ValueError(
            f"patches {tuple(patches)}: expected divisors of {NETWORK['side']}, {PATCH} among them"
        )
    depth, width, ratio = start
    parameters, macs = count(depth, width, ratio * width)
    finding = (
        f"{depth} layers of width {width} with MLP ratio {ratio:g} are {parameters / 1e6:.2f} M "
        f"parameters and {macs / 1e9:.2f} G multiply-adds."
    )
    if task is None:
        task = (
            f"Set the width to {narrow}. How many layers cost as many multiply-adds as {depth} of "
            f"width {width}? Guess before you drag."
            if not patches
            else f"Set the patches to {patches[-1]} px. Which depth and width bring the "
            "multiply-adds back to 100 % of those at the start?"
        )
    ticks = _MACS_OF_PATCHES if patches else _MACS
    data = {
        "network": NETWORK, "limits": LIMITS, "patches": list(patches) or [PATCH],
        "start": dict(zip(LIMITS, start, strict=True)) | {"patch": PATCH},
        "designs": [dict(name=n, parameters=p, macs=g) for n, (p, g) in designs.items()],
        "goal": {"patch": patches[-1]} if patches else {"narrow": narrow},
        "plane": {"x_ticks": _PARAMETERS, "y_ticks": ticks},
        "layout": {"size": _SIZE, "inset": _INSET}, "color": _COLOR, "task": task,
    }  # fmt: skip
    return Figure("design_counter", data, title, description or at_the_start(finding))


def count(depth: int, width: int, hidden_width: int, patch: int = PATCH) -> tuple[int, int]:
    """Parameters and multiply-adds of a plain Vision Transformer, by formula."""
    side, classes = NETWORK.values()
    patches, pixels = (side // patch) ** 2, 3 * patch**2
    tokens, matrices = patches + 1, 4 * width**2 + 2 * width * hidden_width
    block = matrices + 2 * width + hidden_width + 4 * width
    parameters = width + (pixels + 1) * width + depth * block + 2 * width + (width + 1) * classes
    pairs = 2 * tokens**2 * width
    return parameters, patches * pixels * width + depth * (tokens * matrices + pairs) + (
        classes * width
    )
