"""What a token sees on the page is the support of its gradient in the real module."""

import math

import numpy as np
import pytest
import torch

from vitbook.analysis import pixels_seen
from vitbook.figures import token_footprint
from vitbook.layers import PatchEmbedding, RotatedPatches, ShiftedPatches

SIZE, PATCH = (16, 24), 4
ANGLES = (0.7, 9.0, 12.9, 30.0)


def real(tokenizer, degrees):
    """Pixels that change each token: "tokens height width"."""
    if tokenizer == "rotated":
        angle = math.radians(degrees)
        module = RotatedPatches(SIZE, PATCH, 3, 8, angles=(angle, angle))
    else:
        module = {"plain": PatchEmbedding, "shifted": ShiftedPatches}[tokenizer](SIZE, PATCH, 3, 8)
    return pixels_seen(module, SIZE)


def look(page, tokenizer=None, degrees=None):
    if degrees is not None:
        page.locator("[data-control=angle]").fill(str(round(10 * degrees)))
    if tokenizer is not None:
        page.locator("[data-control=tokenizer]").select_option(tokenizer)


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


@pytest.mark.parametrize(
    ("tokenizer", "degrees"),
    [("plain", 12.9), ("shifted", 12.9), *(("rotated", angle) for angle in ANGLES)],
)
def test_the_page_counts_what_the_gradient_reaches(show, footprint, tokenizer, degrees):
    page, expected = show(footprint), real(tokenizer, degrees)
    look(page, tokenizer, degrees)
    assert computed(page, "counts") == expected.flatten(1).sum(1).tolist()
    for token in (0, 9, 23):
        page.locator("[data-control=token] button").nth(token).click()
        assert computed(page, "seen") == expected[token].flatten().nonzero()[:, 0].tolist()


def test_not_turned_nothing_is_gained(show, footprint):
    page = show(footprint)
    look(page, degrees=0)
    assert set(computed(page, "counts")) == {PATCH**2}
    assert computed(page, "lost") == 0


def test_a_corner_loses_its_copies(show):
    """At 32 px and 12.9 degrees 22 of the corner's 32 turned places lie beyond the edge."""
    image = torch.zeros(3, 32, 32, dtype=torch.uint8)
    page = show(token_footprint(image, token=(0, 0)))
    assert computed(page, "lost") == pytest.approx(22 / 32)
    assert "69 % lies outside" in page.locator(".vb-readout").inner_text()
    assert page.locator(".vitbook-figure").get_attribute("data-reached") == "false"
    look(page, degrees=29)
    assert page.locator(".vitbook-figure").get_attribute("data-reached") == "true"
    page.locator("[data-control=reset]").click()
    assert computed(page, "counts")[0] == 32


def test_a_turned_view_shows_what_the_module_reads(show):
    """The strip is drawn from the same readings: a white dot lands where grid_sample puts it."""
    image = torch.zeros(1, 32, 32, dtype=torch.uint8)
    image[0, 8, 16] = 255
    page = show(token_footprint(image, degrees=12.9))
    drawn = page.evaluate(
        "[...document.querySelectorAll('.vb-strip canvas')].map(c =>"
        " [...c.getContext('2d').getImageData(0, 0, 32, 32).data].filter((_, i) => i % 4 === 0))"
    )
    module = RotatedPatches(32, PATCH, 1, 8)
    angle = math.radians(12.9)
    normal = image[None].float() / 127.5 - 1
    turned = module.rotate(normal, torch.tensor([[angle, -angle]]))[0, :, 0]
    expected = ((turned + 1) * 127.5).flatten(1).numpy()
    assert np.abs(np.array(drawn[1:]) - expected).max() < 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(patch_size=5), "16x24 px with patches of 5.*patches that divide it"),
        (dict(tokenizer="turned"), "'turned', expected one of plain, rotated, shifted"),
        (dict(degrees=31), "degrees came as 31, expected 0 to 30"),
        (dict(token=(4, 0)), "row 4, column 0, expected under 4 and 6"),
    ],
)
def test_what_it_cannot_draw(change, words):
    image = torch.zeros(3, *SIZE, dtype=torch.uint8)
    with pytest.raises(ValueError, match=words):
        token_footprint(image, **{"patch_size": 4} | change)


def test_an_image_too_large_or_not_of_bytes():
    with pytest.raises(ValueError, match="at most 64 px"):
        token_footprint(torch.zeros(3, 96, 96, dtype=torch.uint8))
    with pytest.raises(ValueError, match="expected uint8"):
        token_footprint(torch.zeros(3, 32, 32))
