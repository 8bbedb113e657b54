"""A transformer block whose parts a reader swaps, what it counts, and who has published it."""

from collections.abc import Mapping

from vitbook.errors import UnknownNameError
from vitbook.figures.parts.figure import Figure, at_the_start

# Part -> what may stand there, that of 2020 first.
PARTS = {
    "norm": ("LayerNorm", "RMSNorm"),
    "attention": ("attention", "QK-norm"),
    "mlp": ("GELU", "SwiGLU"),
    "branch": ("as it is", "LayerScale"),
    "position": ("table", "RoPE", "table and RoPE"),
    "registers": ("none", "four"),
    "summary": ("class token", "mean", "attention pool"),
}
# ViT-B/16 at 224 px.
SIZES = {"width": 768, "depth": 12, "heads": 12, "hidden": 3072, "patches": 196, "pixels": 768,
         "classes": 1000}  # fmt: skip
REGISTERS = 4


def block_parts(
    models: Mapping[str, Mapping[str, str]],
    *,
    goal: str | None = None,
    task: str | None = None,
    title: str = "Swap the parts of a Transformer block",
    description: str | None = None,
) -> Figure:
    """A block of ViT-B's size, drawn; each part is a button, which swaps it for another.

    The page counts what :mod:`vitbook.measure` counts on the real network, for ViT-B/16 at 224 px
    with 1,000 classes, whatever the sizes of the published model are.

    Args:
        models: name, as "DINOv3-B, 2025" -> the parts that it does not have from 2020, by name.
        goal: of the models, that fulfils the task.

    Raises:
        UnknownNameError: a part or what stands there, or a goal that is none of the models.
        ValueError: no model, one whose parts have no names, or two with the same parts.
    """
    if not models or not all(isinstance(each, Mapping) for each in models.values()):
        raise ValueError(
            f"models {models!r}: expected a name or more, each with a mapping from parts to what "
            "stands there"
        )
    published = {name: numbers(swapped) for name, swapped in models.items()}
    if len({tuple(each.values()) for each in published.values()}) < len(published):
        raise ValueError(
            f"models {', '.join(published)}: two have the same parts: give them one name"
        )
    if goal is not None and goal not in published:
        raise UnknownNameError("model", goal, published)
    if task is None:
        task = f"Press parts of the 2020 block until it is that of {goal}." if goal else ""
    data = {
        "parts": [{"name": name, "options": list(options)} for name, options in PARTS.items()],
        "models": [{"name": name, "has": has} for name, has in published.items()],
        "sizes": SIZES | {"registers": REGISTERS}, "goal": goal, "task": task,
    }  # fmt: skip
    start = count(dict.fromkeys(PARTS, 0))
    finding = (
        f"A block of ViT-B as it was in 2020 has {start['block'][0] / 1e6:.2f} M parameters and "
        f"takes {start['block'][1] / 1e6:,.0f} M multiply-adds.\n"
        "Blue: swapped since. Counted for ViT-B/16 at 224 pixels, whatever the model's own size."
    )
    return Figure("block_parts", data, title, description or at_the_start(finding))


def numbers(swapped: Mapping[str, str]) -> dict[str, int]:
    """Which of :data:`PARTS` stands where, by its number; what is not named is that of 2020.

    Raises:
        UnknownNameError: a part that there is not, or what cannot stand there.
    """
    for part, option in swapped.items():
        if part not in PARTS:
            raise UnknownNameError("part", part, PARTS)
        if option not in PARTS[part]:
            raise UnknownNameError(part, option, PARTS[part])
    return {part: options.index(swapped.get(part, options[0])) for part, options in PARTS.items()}


def count(has: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Parameters and multiply-adds of one "block" and of the "model", by formula."""
    width, depth, heads, hidden, patches, pixels, classes = SIZES.values()
    prefix = (has["summary"] == 0) + REGISTERS * has["registers"]
    tokens, norm = patches + prefix, width * (1 if has["norm"] else 2)
    gated = -(-2 * hidden // 24) * 8
    matrices = 3 * width * gated if has["mlp"] else 2 * width * hidden
    biases = (2 * gated if has["mlp"] else hidden) + width
    block = 4 * width**2 + 4 * width + matrices + biases + 2 * norm
    block += 2 * (width // heads) * has["attention"] + 2 * width * has["branch"]
    block_macs = tokens * (4 * width**2 + matrices) + 2 * tokens**2 * width
    model = (pixels + 1) * width + prefix * width + depth * block + norm + (width + 1) * classes
    model += (tokens * width) if has["position"] != 1 else 0
    macs = patches * pixels * width + depth * block_macs + classes * width
    if has["summary"] == 2:  # a learned query, its attention, a norm and an MLP of the usual width
        model += 12 * width**2 + 12 * width
        macs += tokens * 2 * width**2 + 2 * tokens * width + 10 * width**2
    return {"block": (block, block_macs), "model": (model, macs)}
