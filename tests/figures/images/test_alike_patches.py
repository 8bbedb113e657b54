"""Touching a photograph: the page's cosines are numpy's, and a mouse, a finger and keys touch."""

from base64 import b64decode

import numpy as np
import pytest
import torch
from reading import computed, said, state
from small_inputs import seeded

from vitbook.figures import alike_patches

NAMES = ("cat", "rocket", "flower")


def sample():
    """Three noisy photographs of 4 x 6 patches, in each a block of tokens that are alike."""
    images = torch.randint(0, 256, (3, 3, 16, 24), dtype=torch.uint8, generator=seeded(2))
    tokens = torch.randn(3, 24, 60, generator=seeded(3))
    tokens[:, 8:11, 0] += 12
    return alike_patches(images, tokens, (4, 6), names=NAMES, start=(1, (1, 3)), task="Touch.")


def levels(figure):
    raw = np.frombuffer(b64decode(figure.data["tokens"]), np.int8)
    return raw.reshape(len(NAMES), -1, figure.data["components"])


def like(tokens, number, patch):
    """Cosines of all tokens with one: "images patches"."""
    tokens = tokens.astype(np.float32)
    tokens = tokens / np.maximum(np.linalg.norm(tokens, axis=-1, keepdims=True), 1e-12)
    return tokens @ tokens[number, patch]


def test_the_stored_tokens_keep_the_likeness():
    tokens = torch.randn(3, 24, 20, generator=seeded(0))
    images = torch.zeros(3, 3, 16, 24, dtype=torch.uint8)
    figure = alike_patches(images, tokens, (4, 6), names=NAMES, start=(0, (0, 0)))
    assert figure.data["components"] == 20  # all of them, and fewer than the page would keep
    centred = (tokens - tokens.flatten(0, 1).mean(0)).numpy()
    centred /= np.linalg.norm(centred, axis=-1, keepdims=True)
    assert np.abs(like(levels(figure), 1, 5) - centred @ centred[1, 5]).max() < 0.02


def test_brightness_begins_above_the_floor(js):
    found = js("veil", "[.2, .3, .65, 1].map((c) => brightness(c, .3))")
    assert found == pytest.approx([0, 0, 0.5, 1])


def test_it_opens_on_what_was_touched(page):
    assert state(page) == "shown=1 photo=1 patch=9"
    expected = like(levels(sample()), 1, 9).reshape(-1)
    assert np.abs(np.array(computed(page, "cosines")) - expected).max() < 1e-5
    others = expected.reshape(3, -1)[[0, 2]].max(1)
    nearest = 2 * int(others.argmax())
    patch = expected.reshape(3, -1)[nearest].argmax()
    assert said(page) == (
        f"Touched: rocket, row 2, column 4. Most similar in the {NAMES[nearest]}: row "
        f"{patch // 6 + 1}, column {patch % 6 + 1}, cosine {others.max():.2f}."
    )
    marked = [page.locator(".vb-album .vb-asked").nth(i).is_visible() for i in range(3)]
    assert marked == [i in (1, nearest) for i in range(3)]


def test_a_click_touches_and_a_mouse_that_passes_over_does_not(page):
    left, right = (page.locator(".vb-touched .vb-image").nth(i) for i in range(2))
    box = left.bounding_box()
    at = {"x": box["width"] * 0.99, "y": box["height"] * 0.99}
    page.mouse.move(box["x"] + at["x"], box["y"] + at["y"])
    assert state(page) == "shown=1 photo=1 patch=9"
    left.click(position=at)
    assert state(page) == "shown=1 photo=1 patch=23"
    right.click(position={"x": 1, "y": 1})
    assert state(page) == "shown=1 photo=1 patch=0"


def test_another_photograph_shows_what_is_most_alike_there(page):
    page.get_by_role("radio", name="flower").click()
    assert state(page) == "shown=2 photo=1 patch=9"
    best = like(levels(sample()), 1, 9)[2].argmax()
    told = f"Most similar in the flower: row {best // 6 + 1}, column {best % 6 + 1}"
    assert "Touched: rocket, row 2, column 4." in said(page) and told in said(page)
    image, mark = (page.locator(f".vb-touched {part}").first for part in (".vb-image", ".vb-asked"))
    (x, y, wide, high), at = (image.bounding_box().values()), mark.bounding_box()
    assert at["x"] - x == pytest.approx(wide * (best % 6) / 6, abs=4)
    assert at["y"] - y == pytest.approx(high * (best // 6) / 4, abs=4)
    image.click(position={"x": 3, "y": 3})
    assert state(page) == "shown=2 photo=2 patch=0"


def test_tokens_that_are_all_alike_are_drawn(show):
    figure = alike_patches(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), torch.ones(2, 16, 8), (4, 4),
                           names="ab", start=(0, (0, 0)))  # fmt: skip
    assert np.isfinite(computed(show(figure), "cosines")).all()


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (torch.randn(2, 17, 8), "17 patches do not fill a grid of 4 x 4: leave the"),
        (torch.full((2, 16, 8), torch.nan), "tokens hold NaN or infinity"),
        (torch.zeros(2, 6001, 2), "12,002 patches, a page holds 12,000"),
    ],
)
def test_tokens_that_no_page_can_draw_are_refused(tokens, words):
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    with pytest.raises(ValueError, match=words):
        alike_patches(images, tokens, (4, 4), names="ab", start=(0, (0, 0)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (dict(start=(2, (0, 0))), "there are 2 photographs, counted from 0"),
        (dict(start=(-1, (0, 0))), "there are 2 photographs, counted from 0"),
        (dict(start=(0, (0, 6))), r"patch \(0, 6\): the grid has 4 rows and 6 columns"),
        (dict(names=["cat"]), "2 images, tokens of 2 and 1 names: expected as many of each"),
        (dict(tokens=torch.randn(3, 24, 8)), "2 images, tokens of 3 and 2 names"),
    ],
)
def test_what_cannot_be_touched_is_said(given, words):
    asked = {"tokens": torch.randn(2, 24, 8), "names": ["cat", "rocket"], "start": (0, (0, 0))}
    images = torch.zeros(2, 3, 16, 24, dtype=torch.uint8)
    with pytest.raises(ValueError, match=words):
        alike_patches(images, grid_size=(4, 6), **asked | given)


def test_a_photograph_alone_and_one_beside_its_equal():
    images = torch.zeros(2, 3, 16, 24, dtype=torch.uint8)
    tokens = torch.randn(1, 24, 60, generator=seeded(4))
    alone = alike_patches(images[:1], tokens, (4, 6), names=["cat"], start=(0, (3, 5)))
    assert alone.data["start"] == {"photo": 0, "patch": 23}
    both = alike_patches(
        images, tokens.expand(2, -1, -1), (4, 6), names=["cat", "cat"], start=(0, (3, 5))
    )
    raw = np.frombuffer(b64decode(both.data["tokens"]), np.int8).reshape(2, 24, -1)
    assert (raw[0] == raw[1]).all()
