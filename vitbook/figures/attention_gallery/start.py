"""What the gallery shows before anything is touched, and what it says of it."""

import numpy as np
from jaxtyping import Float

from vitbook.figures.attention_gallery.looks import Look, Pair
from vitbook.figures.parts.drawing import Number


def near(far: Float[np.ndarray, "layers heads"]) -> int:
    """Whole pixels that three heads stay under, or all if there are fewer."""
    return int(np.sort(far, axis=None)[min(3, far.size) - 1].round(2)) + 1


def telling(begun: Look, query: int, goal: Number | None) -> Pair:
    """The head to start with: not yet the task's, and one that picks out patches far off."""
    heads, prefix = slice(begun.heads), len(begun.layout.prefix)
    rows = begun.layers[:, heads, query, prefix:]
    parts = rows / np.maximum(rows.sum(-1, keepdims=True), 1e-12)
    in_use = np.exp(-(parts * np.log(np.maximum(parts, 1e-12))).sum(-1))
    count = rows.shape[-1]
    several = (min(6, count / 4) < in_use) & (in_use < count / 5)
    picked = np.sort(rows, -1)[..., -max(count // 16, 1) :].sum(-1)
    # A prefix token has no place, so that nothing is far from it.
    away = begun.far[:, heads, query] if query >= prefix else 1
    worth = picked * away * np.where(several, 1, 0.01)
    worth[: len(rows) // 2] *= 0.01  # early layers see colours and edges, later ones things
    open_ = begun.far[:, heads, prefix:].mean(-1) >= (goal or 0)
    best = np.argmax(np.where(open_ | ~open_.any(), worth, -1))
    layer, head = np.unravel_index(best, worth.shape)
    return int(layer), int(head)


def finding(begun: Look, query: int, chosen: Pair, name: str) -> str:
    """The start in words: who asks, which map is enlarged, how far it looks."""
    layer, line = chosen
    layers, prefix = len(begun.layers), len(begun.layout.prefix)
    enlarged = f"layer {layer + 1} of {layers}, head {line + 1} of {begun.heads}"
    if line >= begun.heads:
        enlarged = begun.called(layer, line)
    what, far = "map" if line >= begun.heads else "head", begun.far[layer, line]
    mean = f"{far[prefix:].mean():.1f} px over all patches"
    return (
        f"At the start, {name}: {begun.layout.asker(query)} asks {layers * begun.heads} heads, and "
        f"{enlarged} is enlarged. The mean distance of this {what} is "
        + (f"{mean}." if query < prefix else f"{far[query]:.1f} px from that patch, {mean}.")
    )


def finding_alike(begun: Look, query: int, name: str) -> str:
    """The start in words: how many patches are similar to the one that asks."""
    cosines = begun.cosines(query)
    return (
        f"At the start, {name}: {begun.layout.asker(query)} asks for tokens similar to its own, "
        f"and {(cosines > 0.5).sum()} of {len(cosines)} patches have a cosine above 0.5 with it."
    )
