"""An axis of what models cost: its budgets, and the best model that each of them buys."""

from math import ceil, exp, floor, log, log10

from vitbook.figures.parts.drawing import Number

_PAD = 1.35  # free room at either end of an axis, as a factor
_STEPS = 60  # of a budget along an axis, beside the models' own costs


def best_within(rows: list[dict], cost: str, budget: Number) -> int | None:
    """The most accurate model within a budget; of equals the one that takes least, then the first.

    None if there is no model within it.
    """
    within = [i for i, row in enumerate(rows) if row[cost] <= budget]
    return min(within, key=lambda i: (-rows[i]["accuracy"], rows[i][cost]), default=None)


def stairs_of(rows: list[dict], cost: str) -> list[int]:
    """Models that no other beats, from the cheapest: each is the best within what it takes."""
    own = [i for i, row in enumerate(rows) if best_within(rows, cost, row[cost]) == i]
    return sorted(own, key=lambda i: rows[i][cost])


def better_within(rows: list[dict], i: int, cost: str) -> int | None:
    """The best of the more accurate models that take no more, by the far ends of the intervals."""
    least, most = rows[i]["spans"][cost][0], [row["spans"][cost][1] for row in rows]
    better = [
        j for j, row in enumerate(rows)
        if row["accuracy"] > rows[i]["accuracy"] and most[j] <= least
    ]  # fmt: skip
    return min(better, key=lambda j: (-rows[j]["accuracy"], rows[j][cost]), default=None)


def cost_axis(rows: list[dict], cost: str, words: str, unit: str) -> dict:
    """An axis along the logarithm of a cost: its ticks, its budgets and what each of them buys."""
    costs = [row[cost] for row in rows]
    cheapest, dearest = min(costs), max(costs)
    ends = [end for row in rows for end in row["spans"][cost]]
    low, high = log(min(ends) / _PAD), log(max(ends) * _PAD)

    def across(value: Number) -> float:
        return round((log(value) - low) / (high - low), 4)

    even = [cheapest * (dearest / cheapest) ** (step / _STEPS) for step in range(_STEPS + 1)]
    budgets = sorted({_shown_above(each) for each in (*even, *costs)})
    bought = [best_within(rows, cost, budget) for budget in budgets]
    counts = [sum(each <= budget for each in costs) for budget in budgets]
    return {
        "words": words,
        "unit": unit,
        "ticks": [(across(tick), f"{tick:,.9g}") for tick in round_ticks(exp(low), exp(high))],
        "across": [across(each) for each in costs],
        "spans": [[across(end) for end in row["spans"][cost]] for row in rows],
        "order": sorted(range(len(rows)), key=costs.__getitem__),
        "stairs": stairs_of(rows, cost),
        "values": budgets,
        "told": [told(budget, unit) for budget in budgets],
        "places": [across(budget) for budget in budgets],
        "bought": bought,
        "counts": counts,
    }


def _shown_above(cost: Number) -> float:
    """The least number of three digits that is no less: what is read is what is compared."""
    shown = float(f"{cost:.3g}")
    return shown if shown >= cost else float(f"{shown + 10.0 ** (floor(log10(cost)) - 2):.3g}")


def round_ticks(low: Number, high: Number, at_most: int = 9) -> list[float]:
    """Round numbers between two others, evenly along their logarithms."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for firsts in ((1, 2, 5), (1, 3), (1,)):
        ticks = [float(f"{first}e{power}") for power in powers for first in firsts]
        ticks = [tick for tick in ticks if low < tick < high]
        if len(ticks) <= at_most:
            break
    return ticks[:: ceil(len(ticks) / at_most) or 1]


def told(cost: Number, unit: str) -> str:
    """Three digits and the unit."""
    return f"{cost:,.{max(0, 2 - floor(log10(float(f'{cost:.3g}'))))}f}\N{NO-BREAK SPACE}{unit}"
