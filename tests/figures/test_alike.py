"""Touching a photograph: the page's cosines are numpy's, and a mouse, a finger and keys touch."""

import numpy as np
import pytest
import torch

from vitbook.figures import alike_patches
from vitbook.figures.alike_patches import _COMPONENTS

NAMES = ("cat", "rocket", "flower")


def cosines(page):
    return np.array(page.evaluate("document.querySelector('.vitbook-figure').cosines"))


def state(page):
    return page.locator(".vitbook-figure").get_attribute("data-state")


def levels(figure):
    from base64 import b64decode

    raw = np.frombuffer(b64decode(figure.data["tokens"]), np.int8)
    return raw.reshape(len(NAMES), -1, figure.data["components"])


def like(tokens, number, patch):
    """Cosines of all tokens with one: "images patches"."""
    tokens = tokens.astype(np.float32)
    tokens = tokens / np.maximum(np.linalg.norm(tokens, axis=-1, keepdims=True), 1e-12)
    return tokens @ tokens[number, patch]


def test_the_stored_tokens_keep_thelike():
    tokens = torch.randn(3, 24, 20, generator=torch.Generator().manual_seed(0))
    images = torch.zeros(3, 3, 16, 24, dtype=torch.uint8)
    figure = alike_patches(images, tokens, (4, 6), names=NAMES, start=(0, (0, 0)))
    assert figure.data["components"] == 20  # all of them, and fewer than the page would keep
    centred = (tokens - tokens.flatten(0, 1).mean(0)).numpy()
    centred /= np.linalg.norm(centred, axis=-1, keepdims=True)
    exact = centred @ centred[1, 5]
    assert np.abs(like(levels(figure), 1, 5) - exact).max() < 0.02


def test_node_computes_what_numpy_does(js, alike):
    stored = levels(alike)
    flat = stored.reshape(-1)
    found = js("pieces", "Array.from(cosines(l.slice(7 * w, 8 * w), l))", l=flat,
               w=stored.shape[-1])  # fmt: skip
    assert np.abs(np.array(found) - like(stored, 0, 7).reshape(-1)).max() < 1e-5
    found = js("alike_patches", "[.2, .3, .65, 1].map((c) => brightness(c, .3))")
    assert found == pytest.approx([0, 0, 0.5, 1])


def test_it_opens_on_what_was_touched(show, alike):
    page = show(alike)
    assert state(page) == "shown=1 photo=1 patch=9"
    expected = like(levels(alike), 1, 9).reshape(-1)
    assert np.abs(cosines(page) - expected).max() < 1e-5
    said = page.locator(".vb-readout").inner_text()
    others = expected.reshape(3, -1)[[0, 2]].max(1)
    assert "Touched: rocket, row 2, column 4. Its nearest in another photograph is in the " in said
    assert f"cosine {others.max():.2f}" in said


def test_a_mouse_has_only_to_pass_over(show, alike):
    page = show(alike)
    box = page.locator(".vb-touched .vb-image").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + box["height"] * 0.99)
    assert state(page) == "shown=1 photo=1 patch=23"
    right = page.locator(".vb-touched .vb-image").nth(1).bounding_box()
    page.mouse.move(right["x"] + 1, right["y"] + 1)
    assert state(page) == "shown=1 photo=1 patch=0"


def test_another_photograph_keeps_what_was_touched(show, alike):
    page = show(alike)
    page.get_by_role("radio", name="flower").click()
    assert state(page) == "shown=2 photo=1 patch=9"
    assert page.locator(".vb-touched .vb-asked").first.is_hidden()
    page.locator(".vb-touched .vb-image").first.click(position={"x": 3, "y": 3})
    assert state(page) == "shown=2 photo=2 patch=0"
    page.get_by_role("button", name="Reset").click()
    assert state(page) == "shown=1 photo=1 patch=9"


def test_keys_walk_and_stop_at_the_border(show, alike):
    page = show(alike)
    page.locator("[data-control=patch]").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    assert state(page) == "shown=1 photo=1 patch=5"


def test_a_finger_taps(browser, alike, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(f'<!doctype html><meta charset="utf-8"><body>{alike._repr_html_()}')
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_function("document.querySelector('.vitbook-figure').dataset.ready")
    box = page.locator(".vb-touched .vb-image").first.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] * 0.99, box["y"] + 2)
    assert state(page) == "shown=1 photo=1 patch=5"
    # Both halves stand side by side on a phone too.
    assert page.locator(".vb-touched .vb-image").nth(1).bounding_box()["y"] == box["y"]
    context.close()


def arguments(**changed):
    usual = dict(
        images=torch.zeros(2, 3, 8, 8, dtype=torch.uint8), tokens=torch.randn(2, 16, 8),
        grid_size=(4, 4), names=("a", "b"), start=(0, (0, 0)),
    )  # fmt: skip
    return usual | changed


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(names=("a",)), "2 images and 1 names with tokens of shape .*expected .images, patch"),
        (dict(tokens=torch.randn(3, 16, 8)), "2 images and 2 names with tokens of shape"),
        (dict(tokens=torch.randn(2, 17, 8)), "17 patches do not fill a grid of 4 x 4: leave the"),
        (dict(tokens=torch.full((2, 16, 8), torch.nan)), "tokens hold NaN or infinity"),
        (dict(start=(2, (0, 0))), r"start .2, .0, 0..: expected a photograph from 0 to 1"),
        (dict(start=(0, (0, 4))), "a patch of a grid of 4 x 4"),
        (dict(tokens=torch.zeros(2, 6001, 2)), "12,002 patches, a page holds 12,000"),
        (dict(images=torch.zeros(2, 3, 8, 8)), "images came as float32"),
    ],
)
def test_bad_input_gets_one_sentence(changed, words):
    with pytest.raises(ValueError, match=words):
        alike_patches(**arguments(**changed))


def test_tokens_that_are_all_alike_are_drawn(show):
    figure = alike_patches(**arguments(tokens=torch.ones(2, 16, 8)))
    assert np.isfinite(cosines(show(figure))).all()
    assert figure.data["components"] <= _COMPONENTS
