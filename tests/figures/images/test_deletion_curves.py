"""The page takes the reader's cells away, and says what the model says of the rest."""

from base64 import b64decode
from functools import cache

import numpy as np
import pytest
import torch
from reading import computed, reached, said, terms
from small_inputs import digits, digits_model, seeded

from vitbook import create_model
from vitbook.analysis import deletion
from vitbook.analysis.attribution.faithfulness import order
from vitbook.figures import deletion_curves

MAPS = {name: torch.rand(4, 4, generator=seeded(i)) for i, name in enumerate("abc")}
CLASSES = [f"class {i}" for i in range(10)]


@cache
def sample():
    return deletion_curves(digits_model(), digits()[0], MAPS, classes=CLASSES, beat="a")


def take(page, *cells):
    for cell in cells:
        page.locator("[data-control=gone] button").nth(cell).click()
    page.wait_for_function("document.querySelector('.vitbook-figure').found")


def without(cells):
    """The model's chances of the image with these cells in its mean colour."""
    image = digits()[0].clone()
    mean = image.float().mean().round().to(torch.uint8)
    for cell in cells:
        row, column = divmod(cell, 4)
        image[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] = mean
    with torch.no_grad():
        return digits_model()(image[None] / 127.5 - 1).softmax(1)[0]


def test_the_page_says_what_the_model_says_of_what_is_left(page):
    take(page, 3, 9, 10)
    expected = without([3, 9, 10])
    assert np.allclose(computed(page, "found"), expected, atol=0.01)
    assert terms(page)[1] == "3 of 16"
    take(page, 9)  # it is back
    assert np.allclose(computed(page, "found"), without([3, 10]), atol=0.01)


def test_the_curves_are_those_of_deletion():
    data = sample().data
    model, images = digits_model(), digits()[:1] / 127.5 - 1
    stored = np.frombuffer(b64decode(data["curves"]), np.uint8)
    stored = stored.reshape(3, 17) / 255
    for curve, (name, maps) in zip(stored, MAPS.items(), strict=True):
        targets = torch.tensor([data["target"]])
        expected = deletion(model, images, targets, maps[None], steps=16).scores[0]
        assert np.abs(curve - expected.numpy()).max() < 0.02, name


def test_an_end_is_the_first_count_at_which_another_class_is_likelier():
    data = sample().data
    for name, end in zip(data["names"], data["ends"], strict=True):
        turns = order(MAPS[name][None])[0].argsort().tolist()
        lost = [n for n in range(17) if without(turns[:n]).argmax() != data["target"]]
        assert end == (lost[0] if lost else -1)


@pytest.mark.parametrize("beat", "abc")
def test_the_task_is_reached_with_fewer_cells_than_the_rival(show, beat):
    figure = deletion_curves(digits_model(), digits()[0], MAPS, classes=CLASSES, beat=beat)
    target, end = figure.data["target"], figure.data["ends"]["abc".index(beat)]
    gone = []
    while without(gone).argmax() == target:  # take what hurts most
        left = [cell for cell in range(16) if cell not in gone]
        gone.append(min(left, key=lambda cell: without([*gone, cell])[target].item()))
    page = show(figure)
    take(page, *gone[:-1])
    assert not reached(page) and f"The model says class {target}" in said(page)
    take(page, gone[-1])
    assert f"You ended it after {len(gone)} cell" in said(page)
    assert reached(page) == (end < 0 or len(gone) < end)


def test_what_does_not_fit():
    given = {"classes": CLASSES, "beat": "a"}
    with pytest.raises(KeyError, match="beat 'd': expected one of a, b, c"):
        deletion_curves(digits_model(), digits()[0], MAPS, classes=CLASSES, beat="d")
    with pytest.raises(ValueError, match=r"b has a map of \(2, 2\): expected \(4, 4\), as a"):
        deletion_curves(digits_model(), digits()[0], MAPS | {"b": torch.rand(2, 2)}, **given)
    with pytest.raises(ValueError, match="grid of 3x3"):
        deletion_curves(digits_model(), digits()[0], {"a": torch.rand(3, 3)}, **given)
    other = create_model("resnet8_digits")
    with pytest.raises(ValueError, match="the page does not know"):
        deletion_curves(other, digits()[0], MAPS, **given)
