from dataclasses import replace
from functools import cache

import pytest

from vitbook import runs

some = cache(lambda: runs.read(dataset="digits", recipe=runs.get_recipe("digits"))[0])


def rows(**accuracies):
    """Model -> accuracies of seeds 0, 1, ... in percent."""
    return [
        replace(some(), model=model, seed=seed, accuracy=accuracy / 100)
        for model, scores in accuracies.items()
        for seed, accuracy in enumerate(scores)
    ]


def sides(first, second):
    both = rows(new=first, old=second)
    return [[row for row in both if row.model == name] for name in ("new", "old")]


def test_all_seeds_of_both_sides_are_compared():
    found = runs.compare(*sides([60, 65, 71], [59, 63, 68]))
    assert str(found) == "+2.0 points (−9.6 to +13.6), 3 seeds each"
    assert found.decides and found.verdict(1) == "open" and found.steps == (1320, 1320)
    more = runs.compare(*sides([60, 65, 71], [39, 43, 48, 41]))
    assert str(more).endswith("3 and 4 seeds") and more.verdict(-1) == "contradicts"
    assert more.verdict(1, chance=0.2) == "a lead for" and more.verdict(1, chance=0.01) == "agrees"
    assert "seeds on each side" in more.needs


def test_one_run_shows_and_does_not_decide():
    found = runs.compare(*sides([90], [50]))
    luck = 1.96 * (90 * 10 / 355 + 50 * 50 / 355) ** 0.5
    assert found.verdict(1) == "shows" and not found.decides and found.points is None
    assert found.high - found.gap == pytest.approx(luck)
    assert str(found) == f"+40.0 points, one run, ±{luck:.1f} by its test images"
    assert runs.compare(*sides([90], [50, 51])).verdict(-1) == "shows"


def test_near_the_ceiling_points_decide_nothing():
    found = runs.compare(*sides([99.4, 99.5, 99.6], [97.4, 97.5, 97.6]))
    assert found.low > 0 and found.verdict(1) == "at the ceiling" and not found.decides
    assert found.odds.low > 0 and found.odds.mean == pytest.approx(1.5, abs=0.1)


def test_the_baseline_alone_says_where_the_ceiling_is():
    high, low = [98, 98.2, 98.4], [90, 90.2, 90.4]
    assert runs.compare(*sides(low, high)).verdict(-1) == "at the ceiling"
    assert runs.compare(*sides(high, low)).verdict(1) == "agrees"


def test_unequal_steps_are_refused_unless_said():
    first, second = sides([60, 61], [50, 51])
    longer = [replace(row, recipe=row.recipe | {"epochs": 120}) for row in first]
    with pytest.raises(runs.LedgerError, match="unequal steps compared: new took 2,640, old 1,320"):
        runs.compare(longer, second)
    assert runs.compare(longer, second, unequal="as printed").unequal == "as printed"
    assert runs.compare(first, second, unequal="as printed").unequal == ""


def test_what_a_comparison_refuses():
    first, second = sides([60, 61], [50, 51])
    with pytest.raises(runs.LedgerError, match="no rows on one side"):
        runs.compare(first, [])
    with pytest.raises(runs.LedgerError, match="two rows of new with seed 0"):
        runs.compare([*first, first[0]], second)
    with pytest.raises(runs.LedgerError, match="2 kinds of run on one side, of new, old"):
        runs.compare([*first, replace(second[0], seed=7)], second)
    with pytest.raises(runs.LedgerError, match="rows of digits and of cifar10 compared"):
        runs.compare(first, [replace(row, dataset="cifar10") for row in second])
