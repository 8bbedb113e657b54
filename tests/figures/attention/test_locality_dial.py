"""Sharpness and mask on one head: the page's rows are those of locality self-attention."""

import numpy as np
import pytest
import torch
from reading import computed, put, reached, said, terms
from small_inputs import digits

from vitbook.figures import locality_dial
from vitbook.layers.attention.softmax import Attention

TOKENS = 17
GRID = dict(grid_size=(4, 4), num_prefix_tokens=1)


def head():
    """One head's map of 17 tokens, in which most prefer themselves a little."""
    scores = np.random.default_rng(0).normal(size=(17, 17)) + 1.5 * np.eye(17)
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


def sample():
    return locality_dial(digits()[0], head(), **GRID)


DATA = sample().data
ITSELF = 1 + DATA["query"]


def row(sharpness, masked):
    """What the library's attention makes of the scores, sharpened and masked."""
    scores = torch.tensor(DATA["scores"], dtype=torch.float64)[None, None, DATA["query"]]
    # Queries that are one row of scores each, keys that are the axes: q k^T / sqrt(d) = scores.
    q = sharpness * scores[..., None, :] * TOKENS**0.5
    allowed = torch.ones(1, TOKENS, dtype=torch.bool)
    allowed[0, ITSELF] = not masked
    return Attention.weights(q, torch.eye(TOKENS).double()[None, None], allowed)[0, 0, 0].numpy()


def mask(page):
    page.click("[data-control=masked]")


def test_node_masks_a_row_and_counts_the_tokens_it_uses(js):
    scores = np.random.default_rng(0).normal(size=9)
    weights = js("locality_dial", "attend(scores, 2.5, 4)", scores=scores)
    masked = torch.tensor(2.5 * scores).index_fill(0, torch.tensor([4]), -torch.inf).softmax(0)
    assert weights == pytest.approx(masked.tolist()) and weights[4] == 0
    used = torch.distributions.Categorical(masked).entropy().exp().item()
    assert js("locality_dial", "inUse(weights)", weights=weights) == pytest.approx(used)


def test_it_starts_as_the_head_was(page):
    captured = head()[ITSELF]
    assert captured[ITSELF] < 0.5
    assert computed(page, "weights") == pytest.approx(captured, abs=1e-3)
    assert terms(page)[0] == f"{captured[ITSELF]:.2f}"
    assert f"gives {captured[ITSELF]:.2f} of its weight to itself" in sample().description


def test_the_page_computes_the_layers_rows(page):
    for masked in (False, True):
        for level in (0, 12, 24):
            put(page, sharpness=level)
            expected = row(DATA["sharpness"][level], masked)
            assert computed(page, "weights") == pytest.approx(expected, abs=1e-9)
            positive = expected[expected > 0]
            used = np.exp(-(positive * np.log(positive)).sum())
            assert computed(page, "used") == pytest.approx(used, rel=1e-6)
            assert terms(page)[2] == f"{used:.1f}"
        mask(page)


def test_the_mask_keeps_the_others_in_proportion(page):
    free = np.array(computed(page, "weights"))
    mask(page)
    masked = np.array(computed(page, "weights"))
    assert masked[ITSELF] == 0 and terms(page)[0] == "0"
    others = np.arange(TOKENS) != ITSELF
    assert masked[others] == pytest.approx(free[others] / (1 - free[ITSELF]))


def test_the_task_is_reached_by_sharpening_and_then_masking(page):
    mask(page)
    assert not reached(page)
    mask(page)
    put(page, sharpness=24)
    assert not reached(page)
    mask(page)
    assert reached(page) and "Reached" in said(page)


def test_no_task_where_sharpening_never_ends_at_the_patch_itself():
    even = np.full((TOKENS, TOKENS), 1 / TOKENS)
    assert locality_dial(digits()[0], even, **GRID).data["task"] == ""


def test_a_model_without_prefix_is_drawn(show):
    maps = head()[:16, :16]
    maps = maps / maps.sum(-1, keepdims=True)
    figure = locality_dial(digits()[0], maps, grid_size=(2, 8), num_prefix_tokens=0)
    page = show(figure)
    assert computed(page, "weights") == pytest.approx(maps[figure.data["query"]], abs=1e-3)


@pytest.mark.parametrize(
    ("maps", "words"),
    [
        (np.full((16, 16), 1 / 16), r"shape \(16, 16\), expected \(17, 17\)"),
        ((1 - np.eye(17)) / 16, "came with a zero or with rows that do not sum to 1"),
        (np.full((17, 17), 3 / 17), "came with a zero or with rows that do not sum to 1"),
    ],
)
def test_what_is_no_softmax_of_these_tokens_is_refused(maps, words):
    with pytest.raises(ValueError, match=words):
        locality_dial(digits()[0], maps, **GRID)
