"""The page takes away the cells that the library took, and shows the library's curve."""

import numpy as np
import pytest
import torch

from vitbook.analysis.attribution.faithfulness import order
from vitbook.figures import deletion_curves

GIVEN = dict(rival="a", truth="b")


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def put(page, image, name, removed):
    page.locator("[data-control=image] button").nth(image).click()
    page.locator("[data-control=explanation]").select_option(name)
    page.locator("[data-control=removed]").fill(str(removed))


def test_the_page_shows_the_librarys_curve_and_takes_the_first_cells(show, taken, explained):
    _, maps, curves = explained
    page = show(taken)
    for image, name, removed in [(0, "a", 0), (1, "c", 5), (2, "b", 16)]:
        put(page, image, name, removed)
        expected = curves[name].scores[image].numpy()
        assert np.abs(np.array(computed(page, "points")) - expected).max() <= 0.5 / 255 + 1e-6
        assert computed(page, "taken") == removed
        tiles = page.evaluate("""[...document.querySelectorAll('.vb-taken i')]
            .map((tile) => tile.classList.contains('vb-gone'))""")
        assert tiles == (order(maps[name])[image] < removed).tolist()
        numbers = page.locator(".vb-terms b").all_inner_texts()
        assert numbers[0] == f"{computed(page, 'points')[removed]:.2f}"
        assert numbers[1] == f"{curves[name].areas[image]:.3f}"
        assert numbers[2] == f"{curves['b'].areas[image]:.3f}"


def test_what_is_gone_has_the_images_mean(show, taken, explained):
    page = show(taken)
    put(page, 1, "a", 1)
    colour = page.locator(".vb-taken .vb-gone").evaluate("e => getComputedStyle(e).backgroundColor")
    mean = round(explained[0][1].float().mean().item())
    assert colour == f"rgb({mean}, {mean}, {mean})"


def test_the_task_is_reached_where_the_rival_beats_the_truth(show, taken, explained):
    curves = explained[2]
    better = (curves["a"].areas < curves["b"].areas).tolist()
    assert any(better) and not all(better)
    page = show(taken)
    for name in "ac":
        for image in range(3):
            put(page, image, name, 3)
            reached = page.locator(".vitbook-figure").get_attribute("data-reached") == "true"
            assert reached == (name == "a" and better[image])


def test_the_caption_says_what_the_page_opens_with(show, taken):
    page = show(taken)
    area = page.locator(".vb-terms b").nth(1).inner_text()
    assert f"a {area};" in taken.description


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rival": "edges"}, "'edges' came, expected one of the maps: a, b, c"),
        ({"start": "mask"}, "'mask' came, expected one of the maps"),
        ({"images": torch.zeros(3, 1, 8, 8)}, "images came as float32"),
        ({"removed": 17}, "17 cells removed at the start: expected 0 to 16"),
        ({"maps": {n: torch.zeros(2, 4, 4) for n in "abc"}}, "for 3 images: expected one grid"),
        ({"maps": {n: torch.zeros(3, 3, 3) for n in "abc"}}, "3x3 cells on images of 8x8"),
        ({"maps": {n: torch.zeros(3, 2, 2) for n in "abc"}}, r"expected 5 for 3, .*steps=4\)"),
        ({"maps": {n: torch.zeros(3, 4, 4) for n in "ab"}}, "curves of a, b, c for maps of a, b"),
    ],
)
def test_bad_input_gets_one_sentence(explained, change, words):
    images, maps, curves = explained
    given = {"images": images, "maps": maps} | GIVEN | change
    with pytest.raises(ValueError, match=words):
        deletion_curves(given.pop("images"), given.pop("maps"), curves, **given)
