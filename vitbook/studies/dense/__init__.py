"""What the chapter on dense answers shows: masks, heads on patch tokens, twins of patches."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from vitbook import runs
from vitbook.runs import Evidence, Table
from vitbook.runs.rows import Measurement
from vitbook.runs.tables import interval
from vitbook.studies.dense.heads import (
    check_masks,
    enlarged,
    fit_head,
    guided,
    iou,
    patch_labels,
    scores,
)
from vitbook.studies.dense.masks import photo_masks
from vitbook.studies.dense.measured import VIT, block_tokens, colours, shifted_tokens
from vitbook.studies.dense.twins import apart, mirrored, most_similar

__all__ = [
    "apart",
    "block_tokens",
    "by_block",
    "colours",
    "decoded",
    "enlarged",
    "evidence",
    "fit_head",
    "found_twins",
    "guided",
    "iou",
    "marked",
    "mirrored",
    "most_similar",
    "numbers",
    "patch_labels",
    "photo_masks",
    "reads",
    "scores",
    "shifted_tokens",
    "ways_to_enlarge",
]

EDGE = (255, 194, 10)
OWN, KNOWN = "its own saliency", "the masks themselves"  # as rows call them
ROWS = {
    ("no model", "mean colours"): "mean colours, their squares and products",
    ("no model", "position alone"): "position alone",
    ("EfficientNet-Lite0", "blocks.2"): "CNN, early maps",
    ("EfficientNet-Lite0", "blocks.4"): "CNN, maps of as many positions",
    ("EfficientNet-Lite0", "bn2"): "CNN, last maps",
}


def marked(
    image: UInt8[Tensor, "3 height width"],
    found: Shaped[Tensor, "height width"],
    mask: Shaped[Tensor, "height width"] | None = None,
) -> UInt8[Tensor, "3 height width"]:
    """A photograph, dark where nothing was marked; the edge of the true mask in yellow.

    Args:
        found, mask: bool.

    Raises:
        TypeError: masks that are not bool.
    """
    check_masks(found, *([] if mask is None else [mask]))
    shown = (image.float() * (0.25 + 0.75 * found)).to(image.dtype)
    if mask is not None:
        grown = F.max_pool2d(mask[None].float(), 5, 1, 2)[0] > 0
        shown[:, grown & ~mask] = image.new_tensor(EDGE)[:, None]
    return shown


def _kept(kind: str) -> Measurement:
    (kept,) = runs.measurements(kind, VIT)
    return kept


def _row(kind: str, **asked: str) -> dict:
    (row,) = (row for row in _kept(kind).rows if row.items() >= asked.items())
    return row


def reads(model: str, what: str) -> float:
    """Mean IoU of flowers in percent, by what the head reads."""
    return 100 * _row("segmentation", model=model, reads=what)["iou"][0]


def by_block() -> list[float]:
    """Mean IoU of flowers in percent, by the block whose tokens the head reads."""
    return [reads("ViT-S/14", f"block {number}") for number in range(1, 13)]


def ways_to_enlarge() -> list[dict[str, str]]:
    """Tokens and ways to enlarge their map, with the mean IoU of flowers, for a table."""
    rows = [row for row in _kept("enlarging").rows if row["tokens"] != KNOWN]
    rows.sort(key=lambda row: (row["tokens"] != "224 pixels", row["enlarged"] != "bilinear"))
    return [
        {
            "tokens": f"{row['tokens']}, {row['grid'].replace('x', '×')}",
            "enlarged": row["enlarged"], "IoU, %": f"{100 * row['iou'][0]:.1f}",
            "more than the first line": _told(row["less_bilinear"], "+.1f") if place else "",
        }
        for place, row in enumerate(rows)
    ]  # fmt: skip


def found_twins(weights: str, what: str = "twin") -> list[float]:
    """Percent of patches by block: "twin" found, or the "same_position" in its place."""
    return [100 * row[what][0] for row in _kept("twins").rows if row["weights"] == weights]


def decoded() -> Float[Tensor, "photographs"]:
    """IoU of the photographs that have a mask, as the ViT was trained to answer."""
    return torch.tensor(_row("unpainted", images="photographs", marks=OWN)["each"])


def numbers() -> dict[str, float | str]:
    """What the text says of flowers, in percent, by the names under which it is glued."""
    late, old = by_block()[6:], found_twins("learned", "same_position")
    over = _row("segmentation", model="ViT-S/14", reads="block 10")["less_colours"]
    cuts = {"seven": "7 x 7", "sixteen": "16 x 16", "thirty-two": "32 x 32"}
    known = {
        cut: _row("enlarging", tokens=KNOWN, enlarged="bilinear", grid=cuts[cut]) for cut in cuts
    }
    return {
        "iou-late-least": min(late), "iou-late-most": max(late),
        "iou-colours": reads("no model", "mean colours"), "over-colours": _told(over, "+.1f"),
        "iou-random": reads("random weights", "block 10"),
        "iou-place": reads("no model", "position alone"),
        "iou-cnn": reads("EfficientNet-Lite0", "blocks.4"),
        "iou-cnn-last": reads("EfficientNet-Lite0", "bn2"),
        "iou-own": 100 * _row("unpainted", images="flowers", marks=OWN)["iou"][0],
        "iou-every": 100 * _row("unpainted", images="flowers", marks="every pixel")["iou"][0],
        "old-first": old[0], "old-most": max(old),
        "old-random": found_twins("fresh", "same_position")[7],
        "twin-last": found_twins("learned")[11], "twin-random": found_twins("fresh")[7],
    } | {f"known-{cut}": 100 * row["iou"][0] for cut, row in known.items()}  # fmt: skip


def _told(values: list[float], form: str = ".1f") -> str:
    return interval([100 * each for each in values], form)


def evidence() -> Evidence:
    heads, ways, twins = (_kept(kind) for kind in ("segmentation", "enlarging", "twins"))
    about = heads.settings
    return Evidence((), [
        Table(
            "What a head reads",
            f"{about['dataset']}: {about['photographs']}, {about['mask_size']} pixels a side, "
            f"shown to the ViT at {about['image_size']}. {about['draws']} draws of "
            f"{about['fitted_masks']} photographs that fit the head. Head: {about['head']}. "
            f"IoU: {about['each']}. Intervals: {about['interval']}. Of the first 48 held-out "
            "photographs, those whose flower heads an eye tells from the rest; outlined by hand, "
            "edges by GrabCut. Random weights: LayerScale near 0, so each block adds next to "
            "nothing.",
            [{"model": row["model"], "reads": ROWS.get((row["model"], row["reads"]), row["reads"]),
              "grid": row["grid"].replace("x", "×"), "IoU, %": _told(row["iou"]),
              "less by colours": _told(row["less_colours"], "+.1f")}
             for row in heads.rows],
        ),
        Table(
            "Without any mask",
            f"What the ViT was trained to answer, a saliency from 0 to 1, "
            f"{_kept('unpainted').settings['cut']}; and every pixel.",
            [{"images": row["images"], "marked": row["marks"], "IoU, %": _told(row["iou"])}
             for row in _kept("unpainted").rows],
        ),
        Table(
            "How the map is enlarged",
            f"The same heads, on tokens of block {ways.settings['block']}. The masks themselves: a "
            "map that knows for every patch which share of it shows a flower.",
            [{"tokens": row["tokens"], "grid": row["grid"].replace("x", "×"),
              "enlarged": row["enlarged"], "IoU, %": _told(row["iou"]),
              "less 224 pixels, bilinear": _told(row["less_bilinear"], "+.1f")}
             for row in ways.rows],
        ),
        Table(
            "Twins in the mirror",
            f"{twins.settings['dataset']}: {twins.settings['photographs']} photographs. Twin: "
            f"{twins.settings['twin']}. By luck alone: {100 * twins.settings['chance']:.1f} %. "
            f"Same position: {twins.settings['same_position']}.",
            [{"weights": row["weights"], "block": str(row["block"]), "twin, %": _told(row["twin"]),
              "same position, %": _told(row["same_position"])} for row in twins.rows],
        ),
    ])  # fmt: skip
