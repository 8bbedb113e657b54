"""The cutting board: the page's windows are those of the real soft splits."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import parts, pick, put, reached, said
from small_inputs import photo
from torch import nn

from vitbook.analysis import pixels_seen
from vitbook.figures import cutting_board
from vitbook.figures.cutting_board import _holders, _layout
from vitbook.layers.tokens_to_tokens import SOFT_SPLITS, as_image, soft_split

CUTS = {"hard": [(16, 16, 0)], "soft, split 1": SOFT_SPLITS[:1], "soft, split 3": SOFT_SPLITS}


@cache
def sample():
    return cutting_board(photo(64, 96), CUTS, square=(28, 44, 9), goal=16, task="Find it.")


class BareSplits(nn.Module):
    """Soft splits alone; a random sum keeps a token narrow."""

    def __init__(self, splits):
        super().__init__()
        self.splits = splits

    def forward(self, images):
        torch.manual_seed(0)
        for split in self.splits:
            kernel, stride, padding = split
            rows, columns = (
                (side + 2 * padding - kernel) // stride + 1 for side in images.shape[2:]
            )
            tokens = soft_split(images, *split)
            tokens = tokens @ torch.rand(tokens.shape[-1], 4, dtype=tokens.dtype)
            images = as_image(tokens, (rows, columns))
        return tokens


@pytest.mark.parametrize("splits", CUTS.values(), ids=CUTS)
def test_a_layout_is_the_support_of_the_real_splits(splits):
    seen = pixels_seen(BareSplits(splits), (64, 96), channels=1)
    axes = [_layout(splits, side) for side in (64, 96)]
    assert len(seen) == axes[0][3] * axes[1][3]
    for token, support in enumerate(seen):
        expected = torch.zeros(64, 96, dtype=torch.bool)
        spans = []
        for (wide, step, first, _), at in zip(axes, divmod(token, axes[1][3]), strict=True):
            spans.append(slice(max(0, first + step * at), first + step * at + wide))
        expected[tuple(spans)] = True
        assert torch.equal(support, expected)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(-4, 4), st.integers(1, 8),
       st.integers(0, 30), st.integers(1, 12))  # fmt: skip
def test_windows_that_hold_a_square_or_see_some_of_it(js, window, step, first, count, start, size):
    layout = {"window": window, "step": step, "first": first}
    places = [first + step * i for i in range(count)]
    whole = sum(place <= start and start + size <= place + window for place in places)
    part = [place for place in places if set(range(place, place + window))
            & set(range(start, start + size))]  # fmt: skip
    values = {"layout": layout, "count": count, "start": start, "size": size}
    held = js("cutting_board", "holders(layout, count, start, size)", **values)
    assert held == whole == _holders((window, step, first, count), start, size)
    assert js("cutting_board", "seen(layout, count, start, size)", **values) == part


def held(splits, row, column, side):
    """By counting on masks: tokens that hold the square whole, and that see a part of it."""
    axes = [_layout(splits, length) for length in (64, 96)]
    counts = []
    for (wide, step, first, count), start in zip(axes, (row, column), strict=True):
        masks = np.zeros((count, 200), bool)  # 50 pixels of margin on each side
        for i in range(count):
            masks[i, 50 + first + step * i : 50 + first + step * i + wide] = True
        counts.append(masks[:, 50 + start : 50 + start + side].sum(1))
    areas = np.outer(*counts)
    whole = int((areas == side * side).sum())
    return whole, int((areas > 0).sum()) - whole


def read(page):
    """What the page found: whole, part, share of safe places."""
    script = "(f => [f.whole, f.partial, f.safe])(document.querySelector('.vitbook-figure'))"
    return page.evaluate(script)


def choose(page, cut, side):
    pick(page, "cut", cut)
    put(page, side=side)


@pytest.mark.parametrize(("cut", "side"), [(0, 9), (1, 4), (2, 17)])
def test_the_page_counts_what_the_masks_count(page, cut, side):
    splits = list(CUTS.values())[cut]
    choose(page, cut, side)
    whole, part, safe = read(page)
    row, column = int(parts(page)["row"]), int(parts(page)["column"])
    assert (whole, part) == held(splits, row, column, side)
    places = [held(splits, r, c, side)[0] > 0 for r in range(65 - side) for c in range(97 - side)]
    assert safe == pytest.approx(np.mean(places))


def test_overlap_keeps_what_is_no_larger_than_its_step_and_the_task_asks_for_it(page):
    for cut, sure in ((0, 1), (1, 4), (2, 16)):
        choose(page, cut, sure)
        assert read(page)[2] == 1 and reached(page) == (sure == 16)
        assert not reached(page) or "16 px is whole everywhere" in said(page)
        choose(page, cut, sure + 1)
        assert read(page)[2] < 1 and not reached(page)


def test_the_caption_says_what_the_page_starts_with(page):
    whole, _, safe = read(page)
    assert f"whole in {whole} of 24 tokens" in sample().description
    assert f"{100 * safe:.0f} % leave it whole" in sample().description
