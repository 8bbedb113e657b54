"""``vitbook measure rectangles``, ``packing``: photographs that are no squares, and their cost."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import torch.nn.functional as F
import typer
from PIL import Image

from vitbook import datasets
from vitbook.datasets.resizing import resize, stretched
from vitbook.layers.tokenizers import pair
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.any_size.measured import (
    BORN,
    DATASET,
    PATCH,
    SIDE,
    VIT,
    Images,
    about,
    carried,
    judged,
    less,
    read,
)
from vitbook.studies.any_size.packing import first_fit

BANDS = 100
SEQUENCES = (2048, 4096, 8192, 16384)  # tokens
FEW = 8  # photographs that a batch is padded with
KEPT, SQUARE = (4, 8, 11), (11, 16)  # rows of the grids


def to_size(images: Images, size: int | tuple[int, int]) -> Images:
    """Resized to rows and columns, whatever that does to the shape of things."""
    return stretched(images, pair(size, "size"))


def bands(images: Images) -> list[Images]:
    """The middle half of each photograph: of even ones a wide band, of odd ones a tall one."""
    half, quarter = images.shape[-1] // 2, images.shape[-1] // 4
    wide = images[::2, :, quarter : quarter + half]
    return [wide, images[1::2, :, :, quarter : quarter + half]]


def _padded(band: Images) -> Images:
    rows, columns = band.shape[2:]
    down, across = (max(rows, columns) - rows) // 2, (max(rows, columns) - columns) // 2
    return F.pad(band.float(), (across, across, down, down), value=124).to(torch.uint8)


def _whole(band: Images) -> Images:
    return band


def _middle(band: Images) -> Images:
    return resize(band, min(band.shape[2:]))


WAYS: dict[str, Callable[[Images], Images]] = {
    "kept": _whole, "squashed": _whole, "cropped": _middle, "padded": _padded,
}  # fmt: skip


@measurement(
    rectangles={"way": "{way}", "tokens": "{tokens}", "right": "{accuracy:.1%}",
                "less squashed": "{less:.1%}"},
)  # fmt: skip
@torch.no_grad()
def rectangles(sheet: Sheet) -> None:
    """Show a ViT photographs twice as long as wide: kept, squashed, cropped, padded."""
    sheet.expect(VIT)
    vit = load_pretrained(VIT, image_size=BORN, head=DATASET)
    test = datasets.load(DATASET, "test", image_size=160)
    both = bands(test.images[:BANDS])
    labels = torch.cat([test.labels[:BANDS:2], test.labels[1:BANDS:2]])

    def row(way: str, side: int) -> dict:
        grids = [(side, 2 * side), (2 * side, side)] if way == "kept" else 2 * [(side, side)]
        found = []
        for band, (rows, columns) in zip(both, grids, strict=True):
            size = (rows * PATCH, columns * PATCH)
            model = carried(vit, size)
            seen = to_size(WAYS[way](band), size)
            found.append(read(vit, model, seen, sheet.device, f"{way}, {rows} x {columns}"))
        return {"way": way, **about(model), **judged(model, torch.cat(found), labels)}

    asked = [(way, side) for way in WAYS for side in (KEPT if way == "kept" else SQUARE)]
    rows = [sheet.once(f"{way} {side}", row, way, side) for way, side in asked]
    base = next(each for each in rows if each["way"] == "squashed" and each["tokens"] == 256)
    for each in rows:
        each["less"] = less(each, base)
    settings = {
        "model": VIT, "dataset": "TF-Flowers (160 px copy), held out", "photographs": len(labels),
        "bands": "the middle half of each photograph, 160 x 80 pixels; wide and tall ones in turn",
        "head": f"the book's linear head, fitted to square photographs at {SIDE} pixels",
        "padded": "grey bars to a square", "cropped": "the middle square",
        "interval": "95 %: accuracies Wilson; differences of the same photographs",
    }  # fmt: skip
    sheet.write(VIT, settings, rows)


def _padded_row(lengths: list[int], batch: int, order: str) -> dict:
    batches = [lengths[first : first + batch] for first in range(0, len(lengths), batch)]
    taken = sum(len(each) * max(each) for each in batches)
    return {"way": "padded", "of": batch, "order": order, "sequences": len(lengths),
            "empty": round(1 - sum(lengths) / taken, 4), "but_last": None}  # fmt: skip


def _packed_row(lengths: list[int], most: int, order: str) -> dict:
    used = [sum(lengths[image] for image in each) for each in first_fit(lengths, most)]
    full = used[:-1]  # of few photographs the last sequence is an end, and no habit
    return {"way": "packed", "of": most, "order": order, "sequences": len(used),
            "empty": round(1 - sum(used) / (most * len(used)), 4),
            "but_last": round(1 - sum(full) / (most * len(full)), 4) if full else None}  # fmt: skip


@measurement(
    packing={"way": "{way}", "of": "{of}", "order": "{order}", "sequences": "{sequences}",
             "empty": "{empty:.1%}", "but the last": "{but_last:.1%}"},
)  # fmt: skip
def packing(
    sheet: Sheet,
    folder: Annotated[Path, typer.Argument(help="Of photographs, .jpg.")],
    patch: Annotated[int, typer.Option(min=1, help="Pixels of a patch's side.")] = 16,
) -> None:
    """Count the empty tokens of photographs as they are: padded to the longest, or packed."""
    sheet.expect(folder.name)
    sizes = []
    for file in sorted(folder.glob("*.jpg")):
        with Image.open(file) as photograph:
            sizes.append(photograph.size[::-1])
    if not sizes:
        raise ValueError(f"no .jpg in {folder}: expected a folder of photographs")
    lengths = [(rows // patch) * (columns // patch) for rows, columns in sizes]
    longest, name = max(lengths), "by file name"
    rows = [
        _padded_row(lengths, len(lengths), name), _padded_row(lengths, FEW, name),
        _padded_row(sorted(lengths), FEW, "by length"),
        *(_packed_row(lengths, most, name) for most in sorted({longest, *SEQUENCES})
          if most >= longest),
    ]  # fmt: skip
    settings = {
        "photographs": len(sizes), "patch": patch, "tokens": sum(lengths), "longest": longest,
        "sizes": sizes, "padded": "each photograph to the longest sequence of its batch",
        "packed": "first fit, into sequences of one length",
    }  # fmt: skip
    sheet.write(folder.name, settings, rows)
