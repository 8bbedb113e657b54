"""What a token sees on the page is the support of its gradient in the real module."""

import math

import numpy as np
import pytest
import torch
from reading import computed, pick, reached, said
from small_inputs import photo

from vitbook.analysis import pixels_seen
from vitbook.figures import token_footprint
from vitbook.layers import PatchEmbedding, RotatedPatches, ShiftedPatches

SIZE, PATCH = (16, 24), 4


def sample():
    return token_footprint(photo(*SIZE), PATCH)


def real(tokenizer, degrees):
    """Pixels that change each token: "tokens height width"."""
    if tokenizer == "rotated":
        angle = math.radians(degrees)
        module = RotatedPatches(SIZE, PATCH, 3, 8, angles=(angle, angle))
    else:
        module = {"plain": PatchEmbedding, "shifted": ShiftedPatches}[tokenizer](SIZE, PATCH, 3, 8)
    return pixels_seen(module, SIZE)


def turn(page, degrees):
    page.locator("[data-control=angle]").fill(str(round(10 * degrees)))


@pytest.mark.parametrize(
    ("tokenizer", "degrees"),
    [("plain", 12.9), ("shifted", 12.9), *(("rotated", angle) for angle in (0.7, 12.9, 30))],
)
def test_the_page_counts_what_the_gradient_reaches(page, tokenizer, degrees):
    expected = real(tokenizer, degrees)
    turn(page, degrees)
    page.locator("[data-control=tokenizer]").select_option(tokenizer)
    assert computed(page, "counts") == expected.flatten(1).sum(1).tolist()
    for token in (0, 9, 23):
        pick(page, "token", token)
        assert computed(page, "seen") == expected[token].flatten().nonzero()[:, 0].tolist()


def test_the_caption_counts_what_the_page_starts_with(page):
    counts = computed(page, "counts")
    told = f"sees {counts[6 * 2 + 3]} pixels, the one in the corner {counts[0]}, and the most is "
    assert told + str(max(counts)) in sample().description


def test_not_turned_nothing_is_gained(page):
    turn(page, 0)
    assert set(computed(page, "counts")) == {PATCH**2} and computed(page, "lost") == 0


def test_a_corner_loses_its_copies(show):
    """At 32 px and 12.9 degrees 22 of the corner's 32 turned places lie beyond the edge."""
    page = show(token_footprint(torch.zeros(3, 32, 32, dtype=torch.uint8)))
    pick(page, "token", 0)
    assert computed(page, "lost") == pytest.approx(22 / 32)
    assert "69 % lies outside" in said(page) and not reached(page)
    turn(page, 29)
    assert reached(page)


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


def test_an_image_that_cannot_be_cut_is_refused():
    for size, patch in ((SIZE, 5), ((96, 96), 4)):
        with pytest.raises(ValueError, match="at most 64 px a side and patches that divide it"):
            token_footprint(torch.zeros(3, *size, dtype=torch.uint8), patch)
