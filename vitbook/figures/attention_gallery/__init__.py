"""All heads of a Vision Transformer over photographs, and tokens that are similar."""

from collections.abc import Sequence

import numpy as np
from torch import nn

from vitbook.extras import MissingPackageError
from vitbook.figures.attention_gallery.choice import with_choice
from vitbook.figures.attention_gallery.looks import Look, Normalize, Pair, lay_out, look, numbers
from vitbook.figures.attention_gallery.start import finding, finding_alike, near, telling
from vitbook.figures.attention_gallery.view import SPOTLIGHT
from vitbook.figures.parts.drawing import CIVIDIS, Number, as_images, base64, image_png, named
from vitbook.figures.parts.figure import Figure, piece_key
from vitbook.figures.parts.jpeg import jpeg
from vitbook.figures.parts.packing import PER_OCTAVE, SHARE, pack, pack_tokens, pixel_unit, squeeze

_MOST_WEIGHTS = 64_000_000


def attention_gallery(
    model: nn.Module,
    images,
    *,
    names: Sequence[str] | None = None,
    normalize: Normalize | None = None,
    credits: Sequence[str] | None = None,
    num_prefix_tokens: int | None = None,
    grid_size: Pair | None = None,
    start: Pair | str | None = None,
    head: Pair | None = None,
    alike: bool = False,
    fuse: Sequence[str] = (),
    layer: str | int | None = None,
    task: str | None = None,
    goal: Number | None = None,
    title: str = "Every head of the model, asked from the patch that you click",
    description: str | None = None,
):
    """Photographs, a patch to click or drag, and what all heads make of it; or similar patches.

    The page holds the maps of each layer and photograph in a piece that is fetched when it is
    asked for: a weight on a patch to within 2 % of the largest in its row, distances and weights
    on the class token as they were before that. For a ViT-S/14 at 224 pixels that is about 1.2 MB
    a photograph, which a notebook keeps in its output. A link restores what is chosen. In
    JupyterLab and on Colab, with ipywidgets, what comes back holds the figure, and its ``choice``
    is what the reader has chosen; for controls, one's own photographs and several models see
    :func:`vitbook.figures.panel`.

    Args:
        model: ours, timm's, torchvision's, Hugging Face's; its attention is taken by
            :func:`vitbook.analysis.capture_attention`. Similar patches need the tokens that
            :func:`vitbook.analysis.layer_tokens` finds.
        images: uint8 "n c h w", of the size that the model takes; the first is shown at the start.
        names: of the photographs.
        normalize: uint8 images to what the model takes; by default (x / 255 - 0.5) / 0.5.
        credits: a line for each photograph: who made it, under which terms.
        num_prefix_tokens: for a model that does not say it.
        grid_size: rows and columns of patches, for a model that does not say it.
        start: who asks at the start: row and column of a patch, from 0, or "class token"; by
            default the patch in the middle.
        head: layer and map, from 0, enlarged at the start; by default a head that picks out
            several patches far from the one that asks. Numbers behind the heads are the fusions.
        alike: whether it starts with the similar patches.
        fuse: maps below the heads of each layer: "mean", "max" or "min" over its heads, "rollout"
            through the layers up to it.
        layer: whose tokens are compared: the path or index of a block, or "last", after the last
            norm; by default the block three quarters up, as the last one keeps what it was trained
            for (:func:`vitbook.analysis.layer_tokens`).
        goal: the task is reached with a head whose mean distance on a photograph is under this
            many pixels; by default so many that three heads of the first photograph are, or, with
            a task of one's own, none.

    Raises:
        ValueError: images that are no uint8 or not of the model's size, a start that is not there,
            maps that are not tokens by tokens, or more patches or weights than a page can hold.
    """
    images = as_images(images)
    layout = lay_out(model, images, grid_size, num_prefix_tokens)
    names = named("names", names, [f"image {i + 1}" for i in range(len(images))])
    credits = named("credits", credits, [""] * len(images))
    rows, columns = layout.grid
    query = layout.query(start if start is not None else (rows // 2, columns // 2))

    photos, pieces, begun = [], [], None
    for image in images:
        seen = look(model, image, normalize, layout, fuse, layer)
        if (total := seen.layers.size * len(images)) > _MOST_WEIGHTS:
            raise ValueError(
                f"{len(images)} images make {total / 1e6:.0f} million weights, expected at most "
                f"{_MOST_WEIGHTS // 10**6} million in a page: pass fewer images"
            )
        begun = begun or seen
        photo, stored = _stored(image, seen, query, begun)
        photos.append(photo)
        pieces += stored
    layers, lines = begun.layers.shape[:2]
    if alike and begun.tokens is None:
        raise ValueError(
            f"alike came as True, but {type(model).__name__} gives no tokens there: pass layer="
        )
    far = begun.far[:, : begun.heads, len(layout.prefix) :].mean(-1)
    goal = near(far) if goal is None and task is None else goal
    chosen = telling(begun, query, goal) if head is None else numbers(head, (layers, lines))
    if chosen is None:
        raise ValueError(f"head came as {head!r}, expected a layer under {layers} and a head under "
                         f"{lines}")  # fmt: skip
    data = {
        "photos": photos, "names": names, "credits": credits, "height": layout.size[0],
        "width": layout.size[1], "grid": layout.grid, "prefix": layout.prefix,
        "layers": layers, "heads": begun.heads, "fused": list(fuse),
        "unit": pixel_unit(layout.size), "share": SHARE, "octave": PER_OCTAVE,
        "ramp": CIVIDIS, "spotlight": SPOTLIGHT, "goal": goal,
        "task": f"Find a head whose mean distance on this photograph is under {goal:g} px."
                if task is None else task,
        "start": {"photo": 0, "query": query, "layer": chosen[0], "head": chosen[1],
                  "nearest": False, "alike": alike},
    }  # fmt: skip
    found = (
        finding_alike(begun, query, names[0]) if alike else finding(begun, query, chosen, names[0])
    )
    figure = Figure("attention_gallery", data, title, description or found, tuple(pieces))
    return with_choice(figure)


def _stored(image: np.ndarray, seen: Look, query: int, begun: Look) -> tuple[dict, list[str]]:
    """What the page says of a photograph, and the pieces that it asks for later."""
    layout, unit = seen.layout, pixel_unit(seen.layout.size)
    prefix, columns = len(layout.prefix), layout.grid[1]
    stored = [squeeze(pack(layer, far, prefix, columns, unit))
              for layer, far in zip(seen.layers, seen.far, strict=True)]  # fmt: skip
    tokens = [] if seen.tokens is None else [squeeze(pack_tokens(seen.tokens).tobytes())]
    asked = seen.layers[:, :, query].reshape(-1, 1, layout.tokens)
    asked = pack(asked, seen.far[:, :, query].reshape(-1, 1), prefix, columns, unit)
    like = None
    if tokens:  # with the token that asks at the start, which is one of the first photograph
        asker = begun.tokens[query] / max(np.linalg.norm(begun.tokens[query]), 1e-12)
        length = np.maximum(np.linalg.norm(seen.tokens, axis=-1), 1e-12)
        like = base64(np.rint(100 * (seen.tokens @ asker / length)[prefix:]).astype(np.int8))
    return {
        "image": picture(image), "layers": [piece_key(text) for text in stored],
        "tokens": piece_key(tokens[0]) if tokens else None, "like": like,
        "bytes": sum(len(text) for text in stored + tokens),
        "first": base64(np.frombuffer(asked, np.uint8)),
        "far": [round(float(far), 2) for far in seen.far[:, :, prefix:].mean(-1).ravel()],
    }, stored + tokens  # fmt: skip


def picture(image: np.ndarray, side: int | None = None) -> str:
    """A photograph as a data address, at most ``side`` pixels a side: JPEG by Pillow, or PNG."""
    if min(image.shape[1:]) < 64:  # few pixels, each of which is seen
        return image_png(image)
    try:
        return jpeg(image, side, quality=90)
    except MissingPackageError:
        return image_png(image)
