"""Checkpoints to put in order before cheap scores, and then fine-tuning, put them in theirs."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import ceil, floor, log10, sqrt
from typing import NamedTuple

import numpy as np

from vitbook.figures.parts.drawing import Number, as_array, image_png
from vitbook.figures.parts.figure import Figure

_SHARP, _LINE = 136, 4  # px of a sheet and between filters: two on the screen for one of the page


class Candidate(NamedTuple):
    """A checkpoint that could be fine-tuned, what was measured before, and what came of it.

    Args:
        name: unlike all others.
        about: a line on its origin: trained on what, and how long.
        scores: name -> number, the higher the better; None where it has no such score.
        tuned: accuracy after fine-tuning, from 0 to 1, mean over seeds.
        lowest, highest: of the seeds.
        filters: of its first layer, to be looked at: uint8 "n c h w", or None.
    """

    name: str
    about: str
    scores: Mapping[str, Number | None]
    tuned: Number
    lowest: Number
    highest: Number
    filters: object = None


def checkpoint_ranking(
    candidates: Sequence[Candidate],
    *,
    task: str | None = None,
    title: str = "A score is worth the pairs of checkpoints that it puts in the right order",
    description: str | None = None,
) -> Figure:
    """Cards to drag into an order, then the scores one by one, and at last the fine-tuned order.

    Of the reader's order and of each score's it tells in how many pairs the better checkpoint
    stands first, Kendall's tau-b, and where the first choice ends. The cards start in the order
    of the alphabet, and the caption gives nothing away.

    Args:
        candidates: 3 to 16; the scores of each have the same names, in the order of their reveal.
    """
    cards = sorted(candidates, key=lambda card: card.name.casefold())
    names = list(cards[0].scores)
    scores = [[None if card.scores[name] is None else float(card.scores[name]) for card in cards]
              for name in names]  # fmt: skip
    tuned = [float(card.tuned) for card in cards]
    sheets = [None if each.filters is None else _sheet(each.filters) for each in cards]
    data = {
        "cards": [
            {"name": card.name, "about": card.about, "filters": sheet, "tuned": mean,
             "range": [float(card.lowest), float(card.highest)], "told": f"{mean:.3f}",
             "seeds": _range(card)}
            for card, sheet, mean in zip(cards, sheets, tuned, strict=True)
        ],
        "scores": [{"name": name, "values": values, "told": _told(values)}
                   for name, values in zip(names, scores, strict=True)],
        "close": _close(cards),
        "task": task or "Put the checkpoints in the order that you expect after fine-tuning, "
                f"before you look at a score. Can you beat {names[0]}?",
    }  # fmt: skip
    shown = "The small images are filters of the first layer. " if any(sheets) else ""
    description = description or (
        f"{shown}The cards start in alphabetical order. A pair of checkpoints is in the right "
        "order if the one that stands higher has the higher mean accuracy after fine-tuning. "
        "Kendall's τ-b is 1 if all pairs are right, 0 if as many are right as wrong, and −1 if "
        "all are wrong."
    )
    return Figure("checkpoint_ranking", data, title, description)


def _close(cards: Sequence[Candidate]) -> str:
    """How many pairs nothing decides: of equal means, and of seeds whose ranges overlap."""
    pairs = list(combinations(cards, 2))
    equal = sum(a.tuned == b.tuned for a, b in pairs)
    close = sum(a.lowest <= b.highest and b.lowest <= a.highest for a, b in pairs)
    said = f"Pairs of equal means, which do not count: {equal}. " if equal else ""
    single = sum(card.lowest == card.highest for card in cards)
    if single < len(cards):  # a single seed has no range
        said += f"{single} of {len(cards)} have one seed and no range. " if single else ""
        said += f"In {close} of {len(pairs)} pairs the ranges over seeds overlap: other seeds may "
        said += "turn these around."
    return said.strip()


def _range(card: Candidate) -> str:
    spread = card.lowest < card.highest
    return f"{card.lowest:.3f}–{card.highest:.3f}" if spread else "one seed"


def _told(values: Sequence[Number | None]) -> list[str]:
    """Three digits of the largest, the others as many behind the point; a dash for None."""
    largest = max(abs(value) for value in values if value is not None) or 1
    digits = 2 - floor(log10(largest))
    form = f".{max(digits, 0)}f" if -4 < digits < 7 else ".2e"
    return ["–" if v is None else f"{v:{form}}".replace("-", "−") for v in values]


def _sheet(filters) -> str:
    """Filters side by side with a transparent line between, fine enough for any screen."""
    filters = as_array(filters)
    shape, count = filters.shape, len(filters)
    columns = ceil(sqrt(count))
    rows = ceil(count / columns)
    times = ceil(_SHARP / columns / max(shape[2:]))
    colors = np.broadcast_to(filters, (count, 3, *shape[2:])).repeat(times, 2).repeat(times, 3)
    tiles = np.concatenate([colors, np.full_like(colors[:, :1], 255)], 1)
    tiles = np.pad(tiles, ((0, rows * columns - count), (0, 0), (0, _LINE), (0, _LINE)))
    high, wide = tiles.shape[2:]
    sheet = tiles.reshape(rows, columns, 4, high, wide).transpose(2, 0, 3, 1, 4)
    return image_png(sheet.reshape(4, rows * high, columns * wide)[:, :-_LINE, :-_LINE])
