"""Photographs whose patches the reader paints; a head on these marks the object in all of them."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch.nn.functional import interpolate

from vitbook.analysis import principal_tokens
from vitbook.figures.mask_painter.head import PENALTY, head_scores, marked, overlaps
from vitbook.figures.parts.drawing import Number, as_array, as_images, base64, named, patch_at
from vitbook.figures.parts.figure import Figure, at_the_start
from vitbook.figures.parts.jpeg import jpeg

_COMPONENTS = 32
_MOST_BYTES = 1_000_000
_SIDE = 112  # of a true mask, at most

Place = tuple[int, int]


def mask_painter(
    images,
    tokens: Mapping[str, object],
    masks,
    grid_size: tuple[int, int],
    *,
    names: Sequence[str],
    painted: Mapping[int, tuple[Iterable[Place], Iterable[Place]]],
    goal: tuple[Number, int] | None = None,
    task: str | None = None,
    title: str = "Paint patches of one photograph, and a linear head marks the objects in all",
    description: str | None = None,
) -> Figure:
    """Photographs to paint, and what a linear head on the painted patches marks in all of them.

    The head is fitted in the page: ridge regression to +1 on patches painted as the object and to
    -1 on those of the background, both classes weighing alike, on the 32 largest components of a
    source, less its mean. The scores of all patches are enlarged bilinearly and cut at 0.

    Args:
        images: uint8 "n channels height width", one size.
        tokens: name of a source -> "n patches width", without prefix, such as
            :func:`vitbook.analysis.layer_tokens` of a layer. The head reads the first one at the
            start.
        masks: bool "n side side", the true object of each photograph. The page keeps 112 x 112.
        grid_size: (rows, columns) of the patches.
        names: of the photographs.
        painted: number of a photograph, from 0 -> (row, column) of the patches that are painted at
            the start, as the object and as background.
        goal: a mean IoU and a number of patches. The task is reached where so few patches, painted
            on the photographs that are painted at the start and no others, give it on the others.

    Raises:
        ValueError: more tokens than a page holds, not as many photographs, masks, names or patches
            as expected, tokens that are not finite, an empty mask, a patch that is not there or
            painted twice, or a goal that nobody can reach.
    """
    images = as_images(images)
    names = named("names", names, [""] * len(images))
    if not tokens:
        raise ValueError('no tokens came: expected at least one source, {"block 12": tokens}')
    sources = {name: _levels(name, each, len(images), grid_size) for name, each in tokens.items()}
    if (size := sum(each.size for each in sources.values())) > _MOST_BYTES:
        raise ValueError(
            f"tokens of {len(sources)} sources and {len(images)} images make {size / 1e6:.1f} MB, "
            "expected at most 1 MB in a page: pass fewer sources or images"
        )
    kept = _small_masks(masks, names)
    marks = _marks(painted, len(images), grid_size)
    if goal:
        _check_goal(goal, marks.any(1))
    first, levels = next(iter(sources.items()))
    data = {
        "photos": [[name, jpeg(image)] for name, image in zip(names, images, strict=True)],
        "size": list(images.shape[2:]), "grid": list(grid_size), "side": kept.shape[-1],
        "masks": [base64(np.packbits(mask)) for mask in kept],
        "sources": [[str(name), base64(each)] for name, each in sources.items()],
        "penalty": PENALTY, "goal": list(goal) if goal else None, "task": task or "",
        "painted": [[np.flatnonzero(each == kind).tolist() for kind in (1, -1)] for each in marks],
    }  # fmt: skip
    finding = (
        f"{_found(first, levels, marks, kept, grid_size)}\nThe head is ridge regression on the "
        f"tokens of painted patches, in {levels.shape[-1]} principal components: 1 on the object "
        "(dots), −1 on the background (crosses). Inside the orange line its score is above 0. IoU: "
        "the pixels in both its mask and the true one, divided by the pixels in either."
    )
    return Figure("mask_painter", data, title, description or at_the_start(finding))


def _levels(name: str, tokens, photos: int, grid_size: tuple[int, int]) -> np.ndarray:
    """The largest components as whole numbers up to 127, "patches of all photographs, count"."""
    tokens = torch.from_numpy(as_array(tokens)).float()
    patches = grid_size[0] * grid_size[1]
    if tokens.ndim != 3 or tokens.shape[:2] != (photos, patches):
        raise ValueError(
            f"tokens of {name!r} came as {tuple(tokens.shape)}, expected ({photos}, {patches}, "
            f"width), one for each patch of {photos} images: leave the class token out, "
            "tokens[:, 1:]"
        )
    if not tokens.isfinite().all():
        raise ValueError(f"tokens of {name!r} hold NaN or infinity: look for it in the images")
    found, _ = principal_tokens(tokens, min(_COMPONENTS, tokens.shape[-1], photos * patches))
    components = found.flatten(0, 1).numpy()
    return np.rint(components / max(np.abs(components).max(), 1e-12) * 127).astype(np.int8)


def _small_masks(masks, names: list[str]) -> np.ndarray:
    masks = as_array(masks)
    if masks.dtype != bool or masks.ndim != 3 or masks.shape[1] != masks.shape[2]:
        raise ValueError(
            f"masks came as {masks.dtype} of shape {masks.shape}, expected bool (n, side, side)"
        )
    if len(masks) != len(names):
        raise ValueError(f"{len(masks)} masks came for {len(names)} images, expected one for each")
    if masks.shape[1] > _SIDE:
        shares = interpolate(torch.from_numpy(masks)[None].float(), (_SIDE, _SIDE), mode="area")
        masks = (shares[0] > 0.5).numpy()
    for name, mask in zip(names, masks, strict=True):
        if not mask.any():
            raise ValueError(f"the mask of {name} is empty at {len(mask)} x {len(mask)} pixels: "
                             "expected some of its object")  # fmt: skip
    return masks


def _marks(painted: Mapping, photos: int, grid_size: tuple[int, int]) -> np.ndarray:
    """1 where a patch is painted as the object, -1 as background, else 0: "photos patches"."""
    marks = np.zeros((photos, grid_size[0] * grid_size[1]), int)
    for number, both in painted.items():
        if not 0 <= number < photos:
            raise ValueError(f"photograph {number} is painted: there are {photos}, counted from 0")
        for kind, places in zip((1, -1), both, strict=True):
            for place in places:
                cell = patch_at(place, grid_size)
                if marks[number, cell]:
                    raise ValueError(f"patch {tuple(place)} of photograph {number} is painted "
                                     "twice: expected each at most once")  # fmt: skip
                marks[number, cell] = kind
    return marks


def _check_goal(goal: tuple[Number, int], is_painted: np.ndarray) -> None:
    if not is_painted.any():
        raise ValueError("the goal counts paint on the photographs of the start: paint some, or "
                         "leave the goal out")  # fmt: skip
    if is_painted.all():
        raise ValueError("the goal is a mean IoU of photographs that are not painted at the start, "
                         "and all are: leave one without paint, or the goal out")  # fmt: skip
    least, most = goal
    if not 0 < least <= 1 or most < 2:
        raise ValueError(
            f"goal {tuple(goal)}: expected a mean IoU above 0, at most 1, and 2 patches or more, "
            "one of each kind"
        )


def _found(name: str, levels, marks, masks, grid_size: tuple[int, int]) -> str:
    """What the head finds at the start, in a sentence."""
    scores = head_scores(levels, marks.ravel())
    if scores is None:
        return "Too little is painted for a head, which needs patches of both kinds."
    found = overlaps(marked(scores.reshape(-1, *grid_size), masks.shape[-1]), masks)
    is_painted = marks.any(1)
    told = [
        f"{found[some].mean():.2f} on {some.sum()} {words}"
        for some, words in ((~is_painted, "photographs not painted"), (is_painted, "painted"))
        if some.any()
    ]
    return (
        f"{np.count_nonzero(marks)} patches are painted, and the head reads {name}. Its mean IoU "
        f"is {', '.join(told)}."
    )
