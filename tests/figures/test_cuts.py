"""The cutting board: the page's windows are those of the real soft splits."""

import numpy as np
import pytest
import torch
from torch import nn

from vitbook.analysis import pixels_seen
from vitbook.figures import cutting_board
from vitbook.figures.cutting_board import _layout
from vitbook.layers.tokens_to_tokens import SOFT_SPLITS, as_image, soft_split

CUTS = {
    "hard": [(16, 16, 0)],
    "soft, split 1": SOFT_SPLITS[:1],
    "soft, split 2": SOFT_SPLITS[:2],
    "soft, split 3": SOFT_SPLITS,
}


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
    page.locator("[data-control=cut] button").nth(cut).click()
    page.locator("[data-control=side]").fill(str(side))


@pytest.mark.parametrize(("cut", "side"), [(0, 9), (0, 16), (1, 4), (1, 9), (2, 16), (2, 17)])
def test_the_page_counts_what_the_masks_count(show, board, cut, side):
    splits = [CUTS["hard"], SOFT_SPLITS[:1], SOFT_SPLITS][cut]
    page = show(board)
    choose(page, cut, side)
    whole, part, safe = read(page)
    state = page.locator(".vitbook-figure").get_attribute("data-state")
    row, column = (int(dict(p.split("=") for p in state.split())[k]) for k in ("row", "column"))
    assert (whole, part) == held(splits, row, column, side)
    places = [
        held(splits, r, c, side)[0] > 0 for r in range(65 - side) for c in range(0, 97 - side)
    ]
    assert safe == pytest.approx(np.mean(places))


def test_overlap_keeps_what_is_no_larger_than_its_step(show, board):
    page = show(board)
    for cut, sure in ((0, 1), (1, 4), (2, 16)):
        choose(page, cut, sure)
        assert read(page)[2] == 1
        choose(page, cut, sure + 1)
        assert read(page)[2] < 1


def test_the_task_is_reached_by_the_largest_sure_square(show, board):
    page = show(board)
    figure = page.locator(".vitbook-figure")
    for cut, side, reached in ((0, 16, "false"), (2, 15, "false"), (2, 16, "true")):
        choose(page, cut, side)
        assert figure.get_attribute("data-reached") == reached
    assert "16 px is whole everywhere" in page.locator(".vb-readout").inner_text()


def test_the_square_is_dragged_and_stays_inside(show, board):
    page = show(board)
    plane = page.locator(".vb-board").first.bounding_box()
    page.mouse.move(plane["x"] + plane["width"] / 2, plane["y"] + plane["height"] / 2)
    page.mouse.down()
    page.mouse.move(plane["x"] + plane["width"] - 2, plane["y"] + plane["height"] - 2, steps=4)
    page.mouse.up()
    figure = page.locator(".vitbook-figure")
    assert "row=55 column=87 side=9" in figure.get_attribute("data-state")
    page.locator("[data-control=side]").fill("20")
    assert "row=44 column=76 side=20" in figure.get_attribute("data-state")
    page.locator("[data-control=square]").press("ArrowLeft")
    assert "row=44 column=75" in figure.get_attribute("data-state")


def test_the_caption_says_what_the_page_starts_with(show, board):
    whole, _, safe = read(show(board))
    assert f"whole in {whole} of 24 tokens" in board.description
    assert f"{100 * safe:.0f} % leave it whole" in board.description


@pytest.mark.parametrize(
    ("square", "cuts", "words"),
    [
        ((60, 0, 9), CUTS, r"square \(60, 0, 9\) on an image of 64x96: expected"),
        ((0, 0, 25), CUTS, "the side from 1 to 24"),
        ((0, 0, 9), {}, "cuts came empty"),
        ((0, 0, 9), {"huge": [(100, 1, 0)]}, "cut 'huge' leaves no token of an image of 64x96"),
    ],
)
def test_bad_input_gets_one_sentence(square, cuts, words):
    with pytest.raises(ValueError, match=words):
        cutting_board(torch.zeros(3, 64, 96, dtype=torch.uint8), cuts, square=square)
