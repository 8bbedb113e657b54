"""All heads of a Vision Transformer over photographs, and tokens that are alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from vitbook.explorer.drawing import CIVIDIS, Number, as_array, as_images, base64, image_png
from vitbook.explorer.figure import Figure, piece_key
from vitbook.explorer.gallery_panel import panel
from vitbook.explorer.gallery_still import SPOTLIGHT, draw_still
from vitbook.explorer.jpeg import jpeg
from vitbook.explorer.maps import _PREFIX, _as_maps
from vitbook.explorer.packing import (
    PER_OCTAVE,
    SHARE,
    distances,
    pack,
    pack_tokens,
    pixel_unit,
    squeeze,
)
from vitbook.explorer.widget import _said
from vitbook.extras import MissingPackageError
from vitbook.modes import evaluating

_MOST_PATCHES = 40 * 40
_MOST_WEIGHTS = 64_000_000


@dataclass
class _Look:
    """What the model makes of one image: each layer "heads queries keys", tokens "tokens width"."""

    layers: np.ndarray
    far: np.ndarray
    tokens: np.ndarray | None


def attention(
    model: nn.Module,
    images,
    *,
    names: Sequence[str] | None = None,
    normalize: Callable[[Tensor], Tensor] | None = None,
    credits: Sequence[str] | None = None,
    num_prefix_tokens: int | None = None,
    grid_size: tuple[int, int] | None = None,
    start: tuple[int, int] | None = None,
    head: tuple[int, int] | None = None,
    goal: Number | None = None,
    title: str = "Every head of the model, asked from the patch that you click",
    description: str | None = None,
):
    """Photographs, a patch to click or drag, and what all heads make of it; or patches alike.

    The page holds the maps of each layer and photograph in a piece that is fetched when it is
    asked for: a weight on a patch to within 2 % of the largest in its row, distances and weights
    on the class token as they were before that. For a ViT-S/14 at 224 pixels that is about 1.2 MB
    a photograph, which a notebook keeps in its output. A link restores what is chosen. In
    JupyterLab and on Colab, with ipywidgets, what comes back holds the figure, and its ``choice``
    is what the reader has chosen.

    Args:
        model: ours, timm's, torchvision's; its attention is taken by
            :func:`vitbook.analysis.capture_attention`. Patches alike need its tokens after the
            last norm: `features` (ours) or `forward_features` (timm's).
        images: uint8 "n c h w", of the size that the model takes.
        names: of the photographs.
        normalize: uint8 images to what the model takes; by default (x / 255 - 0.5) / 0.5.
        credits: a line for each photograph: who made it, under which terms.
        num_prefix_tokens: for a model that does not say it.
        grid_size: rows and columns of patches, for a model that does not say it.
        start: row and column, from 0, of the patch that asks at the start; by default the middle.
        head: layer and head, from 0, enlarged at the start; by default one that picks out several
            patches far from the one that asks.
        goal: the task asks for a head whose mean distance on a photograph is under this many
            pixels; by default so many that three heads of the first photograph are.
        description: the caption; by default the finding at the start, in words.

    Raises:
        ValueError: images that are no uint8 or smaller than a patch, another size than the
            model's, names or credits that do not match the images, maps that are not tokens by
            tokens, or more patches or weights than a page can hold.
    """
    images = as_images(images)
    rows, columns = grid = tuple(_said(model, "grid_size", grid_size))
    prefix = _said(model, "num_prefix_tokens", num_prefix_tokens)
    _check_size(model, images, grid)
    names = _named("names", names, [f"image {i + 1}" for i in range(len(images))])
    credits = _named("credits", credits, [""] * len(images))
    asker = start if start is not None else (rows // 2, columns // 2)
    if not (0 <= asker[0] < rows and 0 <= asker[1] < columns):
        raise ValueError(f"start came as {start}, expected a row and column of {rows}x{columns}")
    query = prefix + asker[0] * columns + asker[1]

    size = images.shape[2:]
    unit = pixel_unit(size)
    photos, pieces, begun = [], [], None
    for image in images:
        look = _look(model, image, normalize or (lambda x: x.float() / 127.5 - 1), grid, prefix)
        layers, heads, tokens, _ = look.layers.shape
        if (total := look.layers.size * len(images)) > _MOST_WEIGHTS:
            raise ValueError(
                f"{len(images)} images make {total / 1e6:.0f} million weights, expected at most "
                f"{_MOST_WEIGHTS // 10**6} million in a page: pass fewer images"
            )
        begun = begun or look
        asked = look.layers[:, :, query].reshape(layers * heads, 1, tokens)
        stored = [squeeze(pack(layer, far, prefix, columns, unit))
                  for layer, far in zip(look.layers, look.far, strict=True)]  # fmt: skip
        alike = [] if look.tokens is None else [squeeze(pack_tokens(look.tokens).tobytes())]
        photos.append({
            "image": _picture(image), "layers": [piece_key(text) for text in stored],
            "tokens": piece_key(alike[0]) if alike else None,
            "bytes": sum(len(text) for text in stored + alike),
            "first": base64(np.frombuffer(pack(
                asked, look.far[:, :, query].reshape(-1, 1), prefix, columns, unit), np.uint8)),
            "far": [round(float(far), 2) for far in look.far[:, :, prefix:].mean(-1).ravel()],
        })  # fmt: skip
        pieces += stored + alike
    goal = goal if goal is not None else _goal(photos[0]["far"])
    chosen = head if head is not None else _telling(begun, query, prefix, goal)
    if not (0 <= chosen[0] < layers and 0 <= chosen[1] < heads):
        raise ValueError(f"head came as {head}, expected a layer under {layers} and a head under "
                         f"{heads}")  # fmt: skip
    data = {
        "photos": photos, "names": names, "credits": credits, "height": size[0], "width": size[1],
        "grid": grid, "prefix": [_PREFIX[i] if i < 3 else f"prefix token {i + 1}"
                                 for i in range(prefix)],
        "layers": layers, "heads": heads, "unit": unit, "share": SHARE, "octave": PER_OCTAVE,
        "ramp": CIVIDIS, "spotlight": SPOTLIGHT, "goal": goal,
        "task": f"Find a head whose mean distance on this photograph is under {goal:g} px.",
        "start": {"photo": 0, "query": query, "layer": chosen[0], "head": chosen[1],
                  "nearest": False, "alike": False},
    }  # fmt: skip
    layer, head = chosen
    finding = (
        f"At the start, {names[0]}: the patch in row {asker[0] + 1}, column {asker[1] + 1} asks "
        f"{layers * heads} heads. Enlarged is layer {layer + 1} of {layers}, head {head + 1} of "
        f"{heads}. From this patch its mean distance is {begun.far[layer, head, query]:.1f} px, "
        f"over all patches {begun.far[layer, head, prefix:].mean():.1f} px."
    )
    still = draw_still(data, begun.layers[:, :, query, prefix:], begun.far[:, :, query], finding)
    figure = Figure(
        "attention_gallery.js", data, title, description or finding, still, tuple(pieces)
    )
    return panel(figure)


def _check_size(model: nn.Module, images: np.ndarray, grid: tuple[int, int]) -> None:
    (height, width), (rows, columns) = images.shape[2:], grid
    if rows * columns > _MOST_PATCHES:
        raise ValueError(
            f"{rows}x{columns} patches came, expected at most {_MOST_PATCHES}, as 40x40, in a "
            "page: pass a model for smaller images"
        )
    patch = getattr(model, "patch_size", None)
    down, across = patch if isinstance(patch, Sequence) else (patch, patch)
    if patch is not None and (height < down or width < across):
        raise ValueError(
            f"images of {height}x{width} are smaller than a patch of {down}x{across}: "
            f"pass images of {rows * down}x{columns * across}"
        )
    if height % rows or width % columns or (patch and (rows * down, columns * across)
                                            != (height, width)):  # fmt: skip
        expected = f"{rows * down}x{columns * across}" if patch else "the size that the model takes"
        raise ValueError(
            f"images of {height}x{width} do not fit a grid of {rows}x{columns} patches: "
            f"pass them at {expected}"
        )


def _named(what: str, given: Sequence[str] | None, default: list[str]) -> list[str]:
    given = [str(each) for each in given] if given is not None else default
    if len(given) != len(default):
        raise ValueError(
            f"{len(given)} {what} came for {len(default)} images, expected one for each"
        )
    return given


@torch.no_grad()
def _look(model: nn.Module, image: np.ndarray, normalize: Callable, grid, prefix: int) -> _Look:
    from vitbook.analysis import capture_attention

    parameter = next(model.parameters())
    ready = normalize(torch.from_numpy(image[None])).to(parameter.device, parameter.dtype)
    run = next((getattr(model, name) for name in ("features", "forward_features")
                if callable(getattr(model, name, None))), None)  # fmt: skip
    try:
        with evaluating(model), capture_attention(model) as maps:
            tokens = (run or model)(ready)
    except RuntimeError as error:
        raise ValueError(f"no maps of tokens by tokens came from the model: {error}") from error
    count = prefix + grid[0] * grid[1]
    layers = _as_maps("this model", list(maps.values()), 1, count)[:, 0]
    step = (image.shape[1] / grid[0], image.shape[2] / grid[1])
    far = np.stack([distances(layer, grid, step, prefix) for layer in layers])
    tokens = as_array(tokens) if run is not None and torch.is_tensor(tokens) else None
    fits = tokens is not None and tokens.ndim == 3 and tokens.shape[:2] == (1, count)
    return _Look(layers, far, tokens[0] if fits else None)


def _picture(image: np.ndarray) -> str:
    """A photograph as a data address: JPEG by Pillow where it is, else PNG."""
    if min(image.shape[1:]) < 64:  # few pixels, each of which is seen
        return image_png(image)
    try:
        return jpeg(image, quality=90)
    except MissingPackageError:
        return image_png(image)


def _goal(far: list[float]) -> int:
    """Whole pixels that three heads stay under, or all if there are fewer."""
    return int(sorted(far)[min(3, len(far)) - 1]) + 1


def _telling(look: _Look, query: int, prefix: int, goal: Number) -> tuple[int, int]:
    """The head to start with: not yet the task's, and one that picks out patches far off."""
    rows = look.layers[:, :, query, prefix:]
    parts = rows / np.maximum(rows.sum(-1, keepdims=True), 1e-12)
    in_use = np.exp(-(parts * np.log(np.maximum(parts, 1e-12))).sum(-1))
    count = rows.shape[-1]
    several = (min(6, count / 4) < in_use) & (in_use < count / 5)
    picked = np.sort(rows, -1)[..., -max(count // 16, 1) :].sum(-1)
    telling = picked * look.far[:, :, query] * np.where(several, 1, 0.01)
    telling[: len(rows) // 2] *= 0.01  # early layers see colours and edges, later ones things
    open_ = look.far[:, :, prefix:].mean(-1) >= goal
    best = np.argmax(np.where(open_ | ~open_.any(), telling, -1))
    return tuple(int(i) for i in np.unravel_index(best, telling.shape))
