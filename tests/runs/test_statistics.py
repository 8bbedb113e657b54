"""What seeds and test images can tell, against hand numbers and scipy."""

from math import log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from vitbook.runs import statistics as ours


def test_two_notations_that_nobody_can_mix():
    assert str(ours.summary([98.0, 98.3, 98.6], 355)) == "98.3 ± 0.3, 3 seeds"
    one = ours.summary([67.1], 10_000)
    assert str(one) == "67.1 %, one run, ±0.9 by its test images"
    assert one.luck == pytest.approx(1.96 * sqrt(67.1 * 32.9 / 10_000))


def test_all_right_is_known_to_half_an_image():
    assert ours.test_error(100, 100) == pytest.approx(sqrt(0.5 * 99.5 / 100))
    assert ours.test_error(0, 100) == ours.test_error(100, 100)


def test_a_difference_is_told_with_its_interval():
    found = ours.difference([59, 63, 68], [60, 65, 71])
    assert str(found) == "−2.0 (−13.6 to +9.6)" and ours.verdict_of(found, 1) == "open"
    clear = ours.difference([51, 52, 53], [60, 61.1, 62])
    assert ours.verdict_of(clear, -1) == "agrees" and ours.verdict_of(clear, 1) == "contradicts"
    assert ours.verdict_of(clear, -1, chance=0.5) == "a lead for"
    with pytest.raises(ValueError, match="claimed 0: expected 1 for a gain"):
        ours.verdict_of(clear, 0)


def test_all_seeds_of_both_sides_count():
    first, second = [60.0, 65.0, 71.0], [59.0, 63.0, 68.0, 61.0]
    found = ours.difference(first, second)
    known = stats.ttest_ind(first, second, equal_var=False)
    assert found.p == pytest.approx(known.pvalue)
    assert found.deviation == pytest.approx(
        sqrt(stats.describe(first).variance + stats.describe(second).variance)
    )
    assert (found.low, found.high) == pytest.approx(tuple(known.confidence_interval()))


def test_seeds_that_agree_to_the_image_still_have_its_rounding():
    same = ours.difference([98, 98, 98], [97, 97, 97], finest=1.0)
    half = stats.t.ppf(0.975, 4) * sqrt(2 / 12 / 3)
    assert same.high - same.mean == pytest.approx(half)
    with pytest.raises(ValueError, match="agree to the last digit"):
        ours.difference([98, 98], [97, 97])


def test_a_difference_of_differences():
    sides = [5.0, 6.0, 7.5], [1.0, 2.0, 3.0], [4.0, 6.0, 6.0], [1.0, 2.0, 4.0]
    first, second = ours.difference(*sides[:2]), ours.difference(*sides[2:])
    found = ours.difference_of(first, second)
    squares = [stats.describe(side).variance / 3 for side in sides]
    free = sum(squares) ** 2 / sum(square**2 / 2 for square in squares)
    assert found.mean == pytest.approx(37 / 6 - 2 - 16 / 3 + 7 / 3)
    assert found.error == pytest.approx(sqrt(sum(squares)))
    assert found.freedom == pytest.approx(free)


def test_log_odds_are_symmetric_and_finite():
    assert ours.log_odds(50, 100) == 0
    assert ours.log_odds(75, 100) == pytest.approx(log(75.5 / 25.5))
    assert ours.log_odds(90, 100) == -ours.log_odds(10, 100)
    assert ours.log_odds(100, 355) == pytest.approx(log(355.5 / 0.5))


def test_holm_by_hand():
    assert ours.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert ours.holm([0.6, 0.9]) == [1, 1] and ours.holm([0.02]) == [0.02] and ours.holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_raises_no_lower_than_one_and_no_higher_than_all(chances):
    corrected = ours.holm(chances)
    for chance, now in zip(chances, corrected, strict=True):
        assert chance <= now <= min(1, len(chances) * chance) + 1e-12
    assert sorted(corrected) == [now for _, now in sorted(zip(chances, corrected, strict=True))]


def test_images_that_show_a_difference():
    """The textbook's: (1.960 + 0.8416)^2 (p q + p' q') / (p - p')^2."""
    by_hand = (1.95996 + 0.84162) ** 2 * (0.6 * 0.4 + 0.5 * 0.5) / 0.1**2
    assert ours.images_needed(60, 50) == pytest.approx(by_hand, abs=1)
    assert ours.images_needed(60, 50) == ours.images_needed(50, 60)
    with pytest.raises(ValueError, match="expected two that differ"):
        ours.images_needed(50, 50)


def test_seeds_that_show_a_gap():
    """Cohen's table of two samples: 64, 26 and 394 of each at d = 0.5, 0.8 and 0.2."""
    needed = [ours.seeds_needed(gap, sqrt(2)) for gap in (0.5, -0.8, 0.2)]
    assert needed == [64, 26, 394] and ours.seeds_needed(1, 0.01) == 2
    with pytest.raises(ValueError, match="expected a gap, and a spread above 0"):
        ours.seeds_needed(0, 1)


def test_what_is_refused():
    with pytest.raises(ValueError, match="no accuracies"):
        ours.summary([], 355)
    with pytest.raises(ValueError, match="1 and 3 seeds: expected two or more on both sides"):
        ours.difference([1], [1, 2, 3])
    for odd in (0, 0.5, "100"):
        with pytest.raises(ValueError, match="held-out images: expected at least 1, a whole"):
            ours.check_held_out(odd)
