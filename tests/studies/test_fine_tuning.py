"""Pairs in the right order, and tau as scipy has it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from vitbook.studies.fine_tuning import agreement

# Few values, so that many are equal; some without a score.
NUMBERS = st.integers(0, 4) | st.floats(-1e9, 1e9)
ROWS = st.lists(st.tuples(NUMBERS | st.none(), NUMBERS), min_size=2, max_size=9)


@settings(deadline=None, max_examples=150)
@given(ROWS)
def test_tau_is_that_of_scipy(rows):
    found = agreement(*zip(*rows, strict=True))
    known = [row for row in rows if row[0] is not None]
    tau = kendalltau(*zip(*known, strict=True)).statistic if len(known) > 1 else np.nan
    if np.isnan(tau):
        assert found.tau is None
    else:
        assert found.tau == pytest.approx(tau, abs=1e-12)
    assert found.right + found.wrong <= found.pairs
