import time

import numpy as np
import pytest

from vitbook.measure import compare_speed, interleaved_seconds, ratio_of


def test_a_slower_function_is_slower():
    ratio = compare_speed(lambda: time.sleep(0.001), lambda: time.sleep(0.004), pairs=10, warmup=1)
    assert 1.5 < ratio.low <= ratio.median <= ratio.high
    assert "over 10 pairs" in str(ratio)


def test_every_second_round_runs_backwards():
    called = []
    functions = [lambda name=name: called.append(name) for name in "abc"]
    seconds = interleaved_seconds(functions, rounds=3, warmup=1)
    assert "".join(called) == "abc" + "abc" + "cba" + "abc"
    assert seconds.shape == (3, 3) and (seconds > 0).all()


def test_the_processors_clock_does_not_count_waiting():
    waits = [lambda: time.sleep(0.03)]
    (wall,) = interleaved_seconds(waits, rounds=2, warmup=0)
    (own,) = interleaved_seconds(waits, rounds=2, warmup=0, clock=time.process_time)
    assert wall.min() >= 0.03 > 0.01 > own.max()


def test_a_ratio_is_the_median_of_quotients():
    ratio = ratio_of(np.array([2.0, 6.0, 12.0]), np.array([1.0, 2.0, 3.0]))
    assert (ratio.median, ratio.low, ratio.high, ratio.pairs) == (3.0, 2.0, 4.0, 3)
    twice = ratio * 2
    assert (twice.median, twice.low, twice.high, twice.pairs) == (6.0, 4.0, 8.0, 3)


def test_rounds_that_agree_leave_no_doubt():
    ratio = ratio_of(np.full(20, 3.0), np.full(20, 2.0))
    assert ratio.low == ratio.median == ratio.high == pytest.approx(1.5)
