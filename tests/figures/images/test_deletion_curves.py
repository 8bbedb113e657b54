"""The page takes away the cells that the library took, and shows the library's curve."""

from functools import cache

import numpy as np
import pytest
import torch
from reading import computed, pick, put, reached, terms
from small_inputs import digits, digits_model, seeded

from vitbook.analysis import deletion
from vitbook.analysis.attribution.faithfulness import order
from vitbook.figures import deletion_curves

MAPS = {name: torch.rand(3, 4, 4, generator=seeded(i)) for i, name in enumerate("abc")}


@cache
def curves():
    """The digits model's, along three explanations of three images of 4 x 4 cells."""
    given = digits_model(), digits() / 127.5 - 1, torch.tensor([1, 2, 3])
    return {name: deletion(*given, map) for name, map in MAPS.items()}


@cache
def sample():
    return deletion_curves(digits(), MAPS, curves(), rival="a", truth="b", task="Find it.")


def choose(page, image, name, removed):
    pick(page, "image", image)
    page.locator("[data-control=explanation]").select_option(name)
    put(page, removed=removed)


def test_the_page_shows_the_librarys_curve_and_takes_the_first_cells(page):
    for image, name, removed in [(0, "a", 0), (1, "c", 5), (2, "b", 16)]:
        choose(page, image, name, removed)
        points = np.array(computed(page, "points"))
        assert np.abs(points - curves()[name].scores[image].numpy()).max() <= 0.5 / 255 + 1e-6
        assert computed(page, "taken") == removed
        tiles = page.evaluate("""[...document.querySelectorAll('.vb-taken i')]
            .map((tile) => tile.classList.contains('vb-gone'))""")
        assert tiles == (order(MAPS[name])[image] < removed).tolist()
        areas = [f"{curves()[each].areas[image]:.3f}" for each in (name, "b")]
        assert terms(page)[:3] == [f"{points[removed]:.2f}", *areas]


def test_what_is_gone_has_the_images_mean(page):
    choose(page, 1, "a", 1)
    colour = page.locator(".vb-taken .vb-gone").evaluate("e => getComputedStyle(e).backgroundColor")
    mean = round(digits()[1].float().mean().item())
    assert colour == f"rgb({mean}, {mean}, {mean})"


def test_the_task_is_reached_where_the_rival_beats_the_truth(page):
    better = (curves()["a"].areas < curves()["b"].areas).tolist()
    assert any(better) and not all(better)
    for name in "ac":
        for image in range(3):
            choose(page, image, name, 3)
            assert reached(page) == (name == "a" and better[image])


def test_the_caption_says_what_the_page_opens_with(page):
    assert f"a {terms(page)[1]};" in sample().description


@pytest.mark.parametrize("seed", range(3))
def test_the_area_under_a_curve_is_that_of_torch(js, seed):
    points = np.random.default_rng(seed).uniform(size=17)
    expected = torch.trapezoid(torch.tensor(points), dx=1 / 16).item()
    assert js("deletion_curves", "area(points)", points=points) == pytest.approx(expected)
    under = np.flatnonzero(points < 0.5)[0]
    assert js("deletion_curves", "firstUnderHalf(points)", points=points) == under
