"""How well a score puts things in the order of their truth: pairs, and Kendall's tau-b."""

from collections.abc import Sequence
from itertools import combinations
from math import sqrt
from typing import NamedTuple


class Agreement(NamedTuple):
    """What a score says of pairs whose truths differ."""

    right: int
    wrong: int
    pairs: int  # right, wrong, and those that the score ties
    tau: float | None  # Kendall's tau-b; None where a score or a truth says nothing

    @property
    def words(self) -> str:
        return f"{self.right} of {self.pairs} pairs"


def agreement(scores: Sequence[float | int | None], truths: Sequence[float | int]) -> Agreement:
    r"""Count the pairs that a score puts in the right order.

    Kendall (1945), "The treatment of ties in ranking problems":
    :math:`\tau_b = (right - wrong) / \sqrt{n_s n_t}`, with the numbers of pairs that the scores do
    not tie, and that the truths do not tie. What has no score is left out.
    """
    known = [(s, t) for s, t in zip(scores, truths, strict=True) if s is not None]
    right = wrong = apart = pairs = 0
    for (score, truth), (other, its) in combinations(known, 2):
        way = ((score > other) - (score < other)) * ((truth > its) - (truth < its))
        right, wrong = right + (way > 0), wrong + (way < 0)
        apart, pairs = apart + (score != other), pairs + (truth != its)
    tau = (right - wrong) / sqrt(apart * pairs) if apart and pairs else None
    return Agreement(right, wrong, pairs, tau)
