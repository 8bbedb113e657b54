"""Tokens of one image in the forward pass of another: every block, some sets of tokens."""

from collections.abc import Iterator
from typing import Annotated

import torch
import typer
from einops import rearrange
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from vitbook import datasets
from vitbook.models import VisionTransformer
from vitbook.models.weights.pretrained import Pretrained, load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.interventions.classes import CLASSES, DATASET, SIZE, among
from vitbook.studies.interventions.head_sets import answers_from
from vitbook.studies.interventions.quarters import make_collages
from vitbook.training.asked import stem

PARTS = ("top left", "top right", "bottom left", "bottom right", "class token")


@measurement(swapped=None)
def swapped_tokens(
    sheet: Sheet,
    model: Annotated[
        str, typer.Option(help="A name from `vitbook weights list`.")
    ] = "vit_small_patch14_focus",
) -> None:
    """Answer with every set of quarters' tokens of one photograph in another, for a live figure."""
    subject = f"{stem(model)}-{DATASET}"
    sheet.expect(subject)
    loaded = among(load_pretrained(model, head=DATASET, image_size=SIZE), CLASSES)
    loaded.model.to(sheet.device)
    found = _all_answers(loaded)
    given = sorted({row.index(max(row)) for each in found for row in each["logits"]})
    for each in found:
        each["logits"] = [[row[i] for i in given] for row in each["logits"]]
    settings = {
        "chosen_among": list(CLASSES), "image_size": SIZE, "parts": list(PARTS),
        "classes": [CLASSES[i] for i in given],  # that are the answer of some set
        "logits": "by set of parts: bit p of its place says that part p is of the other image",
        "block": "behind how many blocks tokens are swapped",
        "weights": loaded.provenance["digest"],
    }  # fmt: skip
    sheet.write(subject, settings, found)


def four_photographs() -> tuple[UInt8[Tensor, "channels height width"], tuple[str, ...]]:
    """Four photographs in one, and their names, row by row."""
    photos = datasets.load("photos", "all")
    four = [photos.class_names.index(name) for name in ("cat", "coffee", "rocket", "galaxies")]
    made = make_collages(photos.images[four], torch.arange(4), 1, image_size=SIZE, seed=1)
    return made.images[0], tuple(photos.class_names[four[i]] for i in made.labels[0].tolist())


def shown_pairs() -> dict[tuple[str, str], UInt8[Tensor, "two channels height width"]]:
    """The pairs of the chapter's live figure: the first one runs, tokens of the second go into it.

    The grey one has the mean colour of the four photographs, so that to swap is to take away; the
    mirrored one is a control.
    """
    photos = datasets.load("photos", "all", image_size=SIZE)
    cat, coffee = (photos.images[photos.class_names.index(name)] for name in ("cat", "coffee"))
    four, _ = four_photographs()
    grey = four.float().mean((1, 2), keepdim=True).round().to(torch.uint8).expand_as(four)
    return {
        ("cat", "coffee"): torch.stack([cat, coffee]),
        ("four photographs", "grey"): torch.stack([four, grey]),
        ("coffee", "its mirror image"): torch.stack([coffee, coffee.flip(-1)]),
    }


def _all_answers(loaded: Pretrained) -> list[dict]:
    sets = all_sets(parts_of_tokens(loaded.model.grid_size))
    rows = []
    for name, images in shown_pairs().items():
        image, other = loaded.normalize(images)[:, None]
        found = swapped_logits(loaded.model, image, other, sets)
        for block, logits in enumerate(found):
            told = [[round(each, 3) for each in row] for row in logits[:, 0].tolist()]
            rows.append({"pair": list(name), "block": block, "logits": told})
    return rows


def parts_of_tokens(grid_size: tuple[int, int]) -> Bool[Tensor, "parts tokens"]:
    """Which tokens each of :data:`PARTS` holds: of a class token and a grid with even sides."""
    down, right = (torch.arange(size) >= size / 2 for size in grid_size)
    quarter = (2 * down[:, None] + right).flatten()
    first = torch.full((1,), 4)
    return torch.cat([first, quarter]) == torch.arange(5)[:, None]


def all_sets(parts: Bool[Tensor, "parts tokens"]) -> Bool[Tensor, "sets tokens"]:
    """Each union of parts: bit p of a set's number says that part p is in it."""
    numbers = torch.arange(2 ** len(parts))[:, None] >> torch.arange(len(parts)) & 1
    return (numbers[..., None].bool() & parts).any(1)


@torch.no_grad()
def swapped_logits(
    model: VisionTransformer,
    images: Float[Tensor, "batch channels height width"],
    others: Float[Tensor, "batch channels height width"],
    sets: Bool[Tensor, "sets tokens"],
) -> Iterator[Float[Tensor, "sets batch classes"]]:
    """Logits of ``images`` with some tokens of ``others``: in front of each block, then behind all.

    What :func:`vitbook.analysis.patched_logits` gives for one block and one set; here the blocks
    before it run once for all sets, and those behind it alone run again.
    """
    blocks = model.encoder.blocks
    ours, theirs = model.embed(images), model.embed(others)
    for number in range(len(blocks) + 1):
        mixed = torch.where(sets[:, None, :, None].to(ours.device), theirs, ours)
        tokens = rearrange(mixed, "sets batch tokens width -> (sets batch) tokens width")
        logits = answers_from(model, tokens, number)
        yield rearrange(logits, "(sets batch) classes -> sets batch classes", sets=len(sets))
        if number < len(blocks):
            ours, theirs = (blocks[number](each) for each in (ours, theirs))
