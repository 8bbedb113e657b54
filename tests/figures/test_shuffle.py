"""What the page says about moved patches is what the models answer."""

import re

import numpy as np
import pytest
import torch

from vitbook import create_model
from vitbook.figures import patch_shuffle
from vitbook.figures.patch_shuffle import arrangements, rearranged

ORDERS = arrangements((4, 4))


def choose(page, positions, order, patch=None):
    page.locator("[data-control=positions]").select_option(positions)
    page.locator("[data-control=order]").select_option(order)
    if patch is not None:
        page.locator("[data-control=patch] button").nth(patch).click()


def told(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def drawn(page, where, nth, rows, columns):
    """A canvas as "rows columns 3"."""
    data = (
        page.locator(f"{where} canvas")
        .nth(nth)
        .evaluate(
            "(c, [w, h]) => [...c.getContext('2d').getImageData(0, 0, w, h).data]", [columns, rows]
        )
    )
    return np.array(data).reshape(rows, columns, 4)[..., :3]


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_moves_every_patch_once(order):
    numbers = torch.arange(16).repeat_interleave(4).reshape(1, 4, 4, 2, 2)
    image = numbers.permute(0, 1, 3, 2, 4).reshape(1, 8, 8)
    assert sorted(ORDERS[order]) == list(range(16))
    moved = rearranged(image, ORDERS[order], (4, 4))
    assert moved[0, ::2, ::2].flatten().tolist() == ORDERS[order]
    assert torch.equal(moved[0, ::2, ::2], moved[0, 1::2, 1::2])


def test_mirrored_and_upside_down_on_a_grid_that_is_no_square():
    orders = arrangements((2, 3))
    assert orders["mirrored"] == [2, 1, 0, 5, 4, 3]
    assert orders["upside down"] == [3, 4, 5, 0, 1, 2]
    assert orders["two neighbours swapped"] == [0, 1, 2, 3, 5, 4]


@torch.no_grad()
def test_the_page_tells_the_models_changes(show, shuffle, blind, model, images):
    page = show(shuffle)
    order, patch = ORDERS["shuffled, no. 2"], 6
    pair = torch.stack([images[0], rearranged(images[0], order, (4, 4))]).double() / 127.5 - 1
    for name, exact in (("none", blind.double()), ("1-D", model.double())):
        choose(page, name, "shuffled, no. 2", patch)
        logits, tokens = exact(pair), exact.features(pair)[:, 1:]
        moved = tokens[1][order.index(patch)] - tokens[0][patch]
        change = (logits[1] - logits[0]).abs().max().item()
        assert told(page, "place") == order.index(patch)
        assert told(page, "change") == pytest.approx(change, rel=1e-3, abs=1e-12)
        assert told(page, "token") == pytest.approx(moved.abs().max().item(), rel=6e-3, abs=1e-12)
        chances = page.locator(".vb-class span:last-child").all_text_contents()
        expected = logits[1].softmax(-1).tolist()
        assert [float(text) for text in chances] == pytest.approx(expected, abs=0.0051)


def test_a_set_has_no_order_and_places_have_one(show, shuffle):
    page = show(shuffle)
    for order in list(ORDERS)[1:]:
        choose(page, "none", order)
        assert told(page, "change") < 1e-12 and told(page, "token") < 1e-12
        choose(page, "1-D", order)
        assert told(page, "change") > 1e-3
    choose(page, "1-D", "as it was")
    assert told(page, "change") == told(page, "token") == 0
    assert "Nothing has moved" in page.locator(".vb-readout").inner_text()


def test_images_and_tokens_are_drawn_at_their_places(show, shuffle, images):
    page, order = show(shuffle), ORDERS["shuffled, no. 3"]
    choose(page, "none", "shuffled, no. 3")
    moved = rearranged(images[0], order, (4, 4))[0].numpy()
    assert (drawn(page, ".vb-reader .vb-image", 1, 8, 8)[..., 0] == moved).all()
    before, after = (drawn(page, ".vb-columns", i, 24, 16) for i in (0, 1))
    assert np.abs(after - before[:, order]).max() <= 3  # a level of rounding, in colours
    assert np.abs(after - before).max() > 30
    choose(page, "1-D", "shuffled, no. 3")
    assert np.abs(drawn(page, ".vb-columns", 1, 24, 16) - before[:, order]).max() > 30


def test_reached_when_the_logits_change_and_the_answer_does_not(show, shuffle):
    page = show(shuffle)
    classes = page.locator(".vb-class.vb-most span:first-child")
    for positions in ("none", "1-D"):
        choose(page, positions, "as it was")
        before = classes.inner_text()
        for order in list(ORDERS)[1:]:
            choose(page, positions, order)
            reached = page.locator(".vitbook-figure").get_attribute("data-reached")
            same = positions == "1-D" and classes.inner_text() == before
            assert reached == str(same).lower()


def test_small_changes_are_told_by_their_power_of_ten(show, shuffle):
    page = show(shuffle)
    readout = page.locator(".vb-readout")
    assert re.search(r"logits: (0|\d × 10⁻¹.)\. ", readout.inner_text())
    choose(page, "1-D", "mirrored")
    assert f"logits: {told(page, 'change'):.2f}. The" in readout.inner_text()
    choose(page, "1-D", "as it was")
    assert "logits: 0. The" in readout.inner_text()


def test_the_caption_tells_the_start(shuffle):
    assert "mere rounding" in shuffle.description


def test_what_it_cannot_show(model, images):
    other = create_model("vit_micro_patch2_8", image_size=12)
    with pytest.raises(ValueError, match=r"grids \[\(4, 4\), \(6, 6\)\], expected one or more"):
        patch_shuffle({"a": model, "b": other}, images[0])
    with pytest.raises(ValueError, match="start came as 'upset', expected one of as it was, two"):
        patch_shuffle({"a": model}, images[0], start="upset")
    with pytest.raises(ValueError, match="8x6 px does not divide into 4x4 patches"):
        patch_shuffle({"a": model}, images[0][..., :6])
    with pytest.raises(ValueError, match="follow came as 16, expected a patch from 0 to 15"):
        patch_shuffle({"a": model}, images[0], follow=16)
    with pytest.raises(ValueError, match=r"2 class names for \[10\] classes"):
        patch_shuffle({"a": model}, images[0], class_names="01")
