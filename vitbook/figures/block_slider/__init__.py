"""Photographs as one block after the other holds them, beside curves of what a block holds."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from vitbook.analysis import principal_tokens, token_colors
from vitbook.figures.parts.drawing import OKABE_ITO, Number, as_array, as_images, base64, patch_at
from vitbook.figures.parts.figure import Figure, at_the_start
from vitbook.figures.parts.jpeg import jpeg

_COMPONENTS = 32
_MOST_BYTES = 1_000_000
# Cosines up to this one leave a patch dark.
FLOOR = 0.2


def block_slider(
    images,
    tokens: Sequence,
    grid_size: tuple[int, int],
    *,
    names: Sequence[str],
    curves: Mapping[str, Mapping[str, Sequence[Number]]],
    start: tuple[int, int, tuple[int, int]],
    goal: tuple[int, float] | None = None,
    task: str | None = None,
    title: str = "The same photographs, held by one block after the other",
    description: str | None = None,
) -> Figure:
    """Photographs and their tokens' colours in one block; a touched patch lights up its like.

    The slider moves through the blocks, and a line through curves of what each block holds. Two
    patches are alike by the cosine of their tokens, less the mean of all, in the 32 largest
    components of the block. Each block has colours of its own: its three largest components.

    Args:
        images: uint8 "n channels height width", one size.
        tokens: of each block "n patches width", without prefix:
            :func:`vitbook.analysis.layer_tokens`.
        grid_size: (rows, columns) of the patches.
        names: of the photographs.
        curves: title of a panel -> name of a line -> a number for each block.
        start: block, photograph and (row, column) of the touched patch at the start, from 0.
        goal: a photograph and a cosine: the task is reached where the touched patch of another
            photograph finds one that similar in it.

    Raises:
        ValueError: more tokens than a page holds, not as many photographs, names, blocks or
            numbers as expected, or a start that is not there.
    """
    images = as_images(images)
    blocks = [torch.from_numpy(as_array(each)).float() for each in tokens]
    patches = grid_size[0] * grid_size[1]
    for each in blocks:
        if each.shape[:2] != (len(images), patches) or len(names) != len(images):
            raise ValueError(
                f"{len(images)} images, {len(names)} names and tokens of {tuple(each.shape)}: "
                f"expected as many names, and tokens of ({len(images)}, {patches}, width)"
            )
    count = min(_COMPONENTS, blocks[0].shape[-1])
    if (size := len(blocks) * len(images) * patches * (count + 3)) > _MOST_BYTES:
        raise ValueError(
            f"{len(blocks)} blocks of {len(images)} images make {size / 1e6:.1f} MB, expected at "
            "most 1 MB in a page: pass fewer images or blocks"
        )
    for line, values in (pair for panel in curves.values() for pair in panel.items()):
        if len(values) != len(blocks):
            raise ValueError(f"{line}: {len(values)} numbers, expected one for each of the "
                             f"{len(blocks)} blocks")  # fmt: skip
    block, number, place = start
    if not (0 <= block < len(blocks) and 0 <= number < len(images)):
        raise ValueError(
            f"start {start}: expected a block under {len(blocks)} and a photograph under "
            f"{len(images)}, counted from 0"
        )
    data = {
        "photos": [[str(name), jpeg(image)] for name, image in zip(names, images, strict=True)],
        "size": list(images.shape[2:]), "grid": list(grid_size), "components": count,
        "tokens": [base64(_levels(each, count)) for each in blocks],
        "colors": [base64(_colors(each)) for each in blocks], "floor": FLOOR,
        "panels": [_panel(*panel) for panel in curves.items()],
        "start": {"block": block, "photo": number, "patch": patch_at(place, grid_size)},
        "goal": list(goal) if goal else None, "task": task or "",
    }  # fmt: skip
    told = "; ".join(
        f"{line} {values[block]:.3g}" for panel in curves.values() for line, values in panel.items()
    )
    finding = (
        f"Block {block + 1} of {len(blocks)}: {told}.\nBelow each photograph are the three largest "
        "components of its tokens, as red, green and blue. A patch is as bright as its token is "
        f"similar to the touched one's: the cosine, less the mean token, in {count} components. It "
        f"stays dark up to {FLOOR}."
    )
    return Figure("block_slider", data, title, description or at_the_start(finding))


def _levels(tokens: torch.Tensor, count: int) -> np.ndarray:
    found, _ = principal_tokens(tokens, count)
    unit = (found / found.norm(dim=-1, keepdim=True).clamp_min(1e-12)).numpy()
    return np.rint(unit / max(np.abs(unit).max(), 1e-12) * 127).astype(np.int8)


def _colors(tokens: torch.Tensor) -> np.ndarray:
    return np.rint(255 * token_colors(tokens).numpy()).astype(np.uint8)


def _panel(title: str, lines: Mapping[str, Sequence[Number]]) -> dict:
    """A panel from 0 to a round number above its largest."""
    most = max(max(values) for values in lines.values())
    step = 10 ** np.floor(np.log10(max(most, 1e-9)))
    top = next(float(k * step) for k in (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10) if k * step >= most)
    return {
        "title": title, "top": top,
        "lines": [
            {"name": name, "values": [float(f"{value:.3g}") for value in values], "color": color}
            for (name, values), color in zip(lines.items(), OKABE_ITO, strict=False)
        ],
    }  # fmt: skip
