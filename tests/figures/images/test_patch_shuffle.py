"""What the page says about moved patches is what the models answer."""

import re

import numpy as np
import pytest
import torch
from reading import computed, pick, reached, said
from small_inputs import blind_model, digits, digits_model

from vitbook.figures import patch_shuffle
from vitbook.figures.patch_shuffle import arrangements, rearranged

ORDERS = arrangements((4, 4))


def sample():
    return patch_shuffle({"none": blind_model(), "1-D": digits_model()}, digits()[0])


def choose(page, positions, order):
    page.locator("[data-control=positions]").select_option(positions)
    page.locator("[data-control=order]").select_option(order)


def drawn(page, where, nth, rows, columns):
    """A canvas as "rows columns 3"."""
    data = page.locator(f"{where} canvas").nth(nth).evaluate(
        "(c, [w, h]) => [...c.getContext('2d').getImageData(0, 0, w, h).data]", [columns, rows]
    )  # fmt: skip
    return np.array(data).reshape(rows, columns, 4)[..., :3]


def test_an_order_moves_every_patch_once():
    numbers = torch.arange(16).repeat_interleave(4).reshape(1, 4, 4, 2, 2)
    image = numbers.permute(0, 1, 3, 2, 4).reshape(1, 8, 8)
    for order in ORDERS.values():
        assert sorted(order) == list(range(16))
        moved = rearranged(image, order, (4, 4))
        assert moved[0, ::2, ::2].flatten().tolist() == order
        assert torch.equal(moved[0, ::2, ::2], moved[0, 1::2, 1::2])
    orders = arrangements((2, 3))
    assert orders["mirrored"] == [2, 1, 0, 5, 4, 3]
    assert orders["upside down"] == [3, 4, 5, 0, 1, 2]
    assert orders["two neighbours swapped"] == [0, 1, 2, 3, 5, 4]


@torch.no_grad()
def test_the_page_tells_the_models_changes(page):
    order, patch = ORDERS["shuffled, no. 2"], 6
    image = digits()[0]
    pair = torch.stack([image, rearranged(image, order, (4, 4))]).double() / 127.5 - 1
    for name, exact in (("none", blind_model().double()), ("1-D", digits_model().double())):
        choose(page, name, "shuffled, no. 2")
        pick(page, "patch", patch)
        logits, tokens = exact(pair), exact.features(pair)[:, 1:]
        moved = (tokens[1][order.index(patch)] - tokens[0][patch]).abs().max().item()
        change = (logits[1] - logits[0]).abs().max().item()
        assert computed(page, "place") == order.index(patch)
        assert computed(page, "change") == pytest.approx(change, rel=1e-3, abs=1e-12)
        assert computed(page, "token") == pytest.approx(moved, rel=6e-3, abs=1e-12)
        chances = page.locator(".vb-class span:last-child").all_text_contents()
        expected = logits[1].softmax(-1).tolist()
        assert [float(text) for text in chances] == pytest.approx(expected, abs=0.0051)


def test_a_set_has_no_order_and_places_have_one(page):
    classes = page.locator(".vb-class.vb-most span:first-child")
    for positions in ("none", "1-D"):
        choose(page, positions, "as it was")
        assert computed(page, "change") == computed(page, "token") == 0
        assert "Nothing has moved" in said(page)
        before = classes.inner_text()
        for order in list(ORDERS)[1:]:
            choose(page, positions, order)
            if positions == "none":
                assert computed(page, "change") < 1e-12 and computed(page, "token") < 1e-12
            else:
                assert computed(page, "change") > 1e-3
            # The task: the logits change, and the answer does not.
            assert reached(page) == (positions == "1-D" and classes.inner_text() == before)


def test_images_and_tokens_are_drawn_at_their_places(page):
    order = ORDERS["shuffled, no. 3"]
    choose(page, "none", "shuffled, no. 3")
    moved = rearranged(digits()[0], order, (4, 4))[0].numpy()
    assert (drawn(page, ".vb-reader .vb-image", 1, 8, 8)[..., 0] == moved).all()
    before, after = (drawn(page, ".vb-columns", i, 24, 16) for i in (0, 1))
    assert np.abs(after - before[:, order]).max() <= 3  # a level of rounding, in colours
    assert np.abs(after - before).max() > 30
    choose(page, "1-D", "shuffled, no. 3")
    assert np.abs(drawn(page, ".vb-columns", 1, 24, 16) - before[:, order]).max() > 30


def test_small_changes_are_told_by_their_power_of_ten(js, page):
    told = js("patch_shuffle", "[0, .312, 3.2e-7, .00451].map(amount)")
    assert told == ["0", "0.31", "3 × 10⁻⁷", "5 × 10⁻³"]
    assert re.search(r"logits: (0|\d × 10⁻¹.)\. ", said(page))
    assert "mere rounding" in sample().description
    choose(page, "1-D", "mirrored")
    assert f"logits: {computed(page, 'change'):.2f}. The" in said(page)
