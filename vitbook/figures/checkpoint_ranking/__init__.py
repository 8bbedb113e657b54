"""Checkpoints to put in order before cheap scores, and then fine-tuning, put them in theirs."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import ceil, floor, isfinite, log10, sqrt
from numbers import Real
from typing import NamedTuple

import numpy as np

from vitbook.figures.checkpoint_ranking.pairs import agreement
from vitbook.figures.parts.drawing import Number, as_array, image_png
from vitbook.figures.parts.figure import Figure

_FEWEST, _MOST = 3, 16
_MOST_FILTERS, _MOST_SIDE = 64, 32
_ROUNDING = 1e-9  # a mean of equal numbers may lie beside them
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
        task: a sentence above the figure; by default one that asks to beat the first score.
        description: the caption; by default what a pair in the right order is.

    Raises:
        ValueError: other numbers of candidates; a name that comes twice; scores of other names;
            what is no finite number; an accuracy that is not from 0 to 1, or outside of its
            range; a score or accuracies that put nothing in order; filters that are no images.
    """
    cards = [Candidate(*each) for each in candidates]
    if odd := [
        card.name for card in cards if not str(card.name).strip() or card.name != str(card.name)
    ]:
        raise ValueError(f"the name {odd[0]!r} came, expected words: a card is known by its name")
    cards.sort(key=lambda card: card.name.casefold())
    _check(cards)
    names = list(cards[0].scores)
    scores = [[None if card.scores[name] is None else float(card.scores[name]) for card in cards]
              for name in names]  # fmt: skip
    tuned = [float(card.tuned) for card in cards]
    for name, values in zip(names, scores, strict=True):
        if agreement(values, tuned).tau is None:
            raise ValueError(
                f"the score {name!r} puts no two checkpoints in an order: expected numbers that "
                "differ, of checkpoints whose accuracies differ"
            )
    sheets = [None if each.filters is None else _sheet(each.name, each.filters) for each in cards]
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


def _check(cards: Sequence[Candidate]) -> None:
    if not _FEWEST <= len(cards) <= _MOST:
        raise ValueError(
            f"{len(cards)} checkpoints came, expected {_FEWEST} to {_MOST}: fewer have no order "
            "worth the name, more find no place on a page"
        )
    for one, other in combinations([card.name for card in cards], 2):
        if one == other:
            raise ValueError(f"the name {one!r} came twice, expected one for each checkpoint")
    first = cards[0]
    if not first.scores:
        raise ValueError(f"{first.name!r} came without scores, expected at least one")
    for name, _, scores, tuned, lowest, highest, _ in cards:
        if list(scores) != list(first.scores):
            raise ValueError(
                f"the scores of {name!r} are {', '.join(scores) or 'none'}, and those of "
                f"{first.name!r} are {', '.join(first.scores)}: expected the same names in one "
                "order, with None for what a checkpoint does not have"
            )
        for score, value in scores.items():
            if value is not None and not _is_finite(value):
                raise ValueError(
                    f"the score {score!r} of {name!r} came as {value!r}, expected a finite number, "
                    "or None if it has none"
                )
        for kind, value in (("mean", tuned), ("lowest", lowest), ("highest", highest)):
            if not _is_finite(value) or not 0 <= value <= 1:
                raise ValueError(
                    f"the {kind} accuracy of {name!r} came as {value!r}, expected 0 to 1: divide "
                    "a percentage by 100"
                )
        if not lowest - _ROUNDING <= tuned <= highest + _ROUNDING:
            raise ValueError(
                f"the mean accuracy {tuned!r} of {name!r} came with {lowest!r} as the lowest and "
                f"{highest!r} as the highest, expected it between them: pass all three of the "
                "same seeds"
            )


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


def _is_finite(value: object) -> bool:
    """Also as float, which holds no whole number of 400 digits."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return isfinite(float(value))
    except OverflowError:
        return False


def _told(values: Sequence[Number | None]) -> list[str]:
    """Three digits of the largest, the others as many behind the point; a dash for None."""
    largest = max(abs(value) for value in values if value is not None) or 1
    digits = 2 - floor(log10(largest))
    form = f".{max(digits, 0)}f" if -4 < digits < 7 else ".2e"
    return ["–" if v is None else f"{v:{form}}".replace("-", "−") for v in values]


def _sheet(name: str, filters) -> str:
    """Filters side by side with a transparent line between, fine enough for any screen."""
    filters = as_array(filters)
    shape, count = filters.shape, len(filters) if filters.ndim else 0
    if (filters.dtype != np.uint8 or len(shape) != 4 or shape[1] not in (1, 3)
            or not 1 <= count <= _MOST_FILTERS or min(shape[2:]) < 1
            or max(shape[2:]) > _MOST_SIDE):  # fmt: skip
        raise ValueError(
            f"the filters of {name!r} came as {filters.dtype} of shape {shape}, expected uint8 "
            f"(n, 1 or 3, h, w) with up to {_MOST_FILTERS} of up to {_MOST_SIDE} pixels a side: "
            "scale them to 0 to 255 and pass some of them"
        )
    columns = ceil(sqrt(count))
    rows = ceil(count / columns)
    times = ceil(_SHARP / columns / max(shape[2:]))
    colors = np.broadcast_to(filters, (count, 3, *shape[2:])).repeat(times, 2).repeat(times, 3)
    tiles = np.concatenate([colors, np.full_like(colors[:, :1], 255)], 1)
    tiles = np.pad(tiles, ((0, rows * columns - count), (0, 0), (0, _LINE), (0, _LINE)))
    high, wide = tiles.shape[2:]
    sheet = tiles.reshape(rows, columns, 4, high, wide).transpose(2, 0, 3, 1, 4)
    return image_png(sheet.reshape(4, rows * high, columns * wide)[:, :-_LINE, :-_LINE])
