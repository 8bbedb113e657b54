"""The page's channels are those of Python, and a dead one is crossed where it is dead."""

from base64 import b64decode

import numpy as np
import pytest
import torch
from reading import computed, pick, reached, said
from small_inputs import digits, seeded

from vitbook.figures import channel_browser
from vitbook.figures.channel_browser import quantize


def maps():
    """Two models; in the last layer of the first, channel 2 sleeps on the first image."""
    generator = seeded(5)
    first = torch.randn(3, 4, 8, 8, generator=generator)
    last = torch.randn(3, 6, 4, 4, generator=generator)
    last[0, 1] = 0
    last[:, 4] = 0
    other = {"block 1": 100 * torch.randn(3, 4, 4, 4, generator=generator)}
    return {"conv": {"stem": first, "stage 1": last}, "vit": other}


def sample():
    return channel_browser(digits(), maps())


def crossed(page):
    return page.evaluate(
        "[...document.querySelectorAll('.vb-channels button')].flatMap("
        "(cell, i) => cell.classList.contains('vb-dead') ? [i] : [])"
    )


def layer(page, number):
    page.locator("[data-control=layer]").select_option(str(number))


def test_a_number_comes_back_within_its_byte(js):
    numbers = torch.randn(2, 3, 4, 5, generator=seeded(0)).numpy()
    numbers[0, 0, 0, 3] = 0
    codes, scale = quantize(numbers)
    back = np.sign(codes) * scale * (codes / 127.0) ** 2
    assert np.abs(back - numbers).max() <= scale / 127 and back[0, 0, 0, 3] == 0
    assert scale == np.abs(numbers).max()
    stored = channel_browser(digits()[:2], {"m": {"l": numbers}}).data["layers"][0]
    assert np.array_equal(np.frombuffer(b64decode(stored["codes"]), np.int8), codes.ravel())
    found = js("channel_browser", "Array.from({ length: 120 }, (_, i) => unpack(layer)"
               "(Math.floor(i / 60), Math.floor(i / 20) % 3, i % 20))", layer=stored)  # fmt: skip
    assert np.abs(found - back.ravel()).max() < 1e-5 * scale


def test_the_page_shows_the_maps_it_was_given(page):
    flat = [layer for model in maps().values() for layer in model.values()]
    for number, image, channel in [(1, 0, 0), (1, 2, 5), (0, 1, 3), (2, 2, 3)]:
        layer(page, number)
        pick(page, "image", image)
        pick(page, "channel", channel)
        expected = flat[number][image, channel].flatten().numpy()
        apart = np.abs(np.array(computed(page, "map")) - expected)
        assert apart.max() < flat[number].abs().max() / 127


def test_dead_channels_are_crossed_and_one_wakes(page):
    assert crossed(page) == [1, 4] and not reached(page)
    pick(page, "image", 1)
    assert crossed(page) == [4]
    pick(page, "channel", 1)
    assert not reached(page)  # alive here, and never seen dead
    pick(page, "image", 0)
    assert not reached(page)
    pick(page, "image", 2)
    assert reached(page)
    page.click("[data-control=reset]")
    pick(page, "channel", 4)
    pick(page, "image", 1)
    assert not reached(page)  # dead on all
    layer(page, 0)
    assert crossed(page) == [] and page.locator("[data-control=channel] button").count() == 4


def test_the_finding_is_what_the_page_opens_with(page):
    found = "leaves 2 of the 6 channels of conv, stage 1, dead; on all 3 images together 1 are dead"
    assert found in sample().description
    assert "conv, stage 1: 2 of 6 channels are dead on this image, 1 on all 3." in said(page)


def test_more_than_a_page_holds_is_refused():
    with pytest.raises(ValueError, match="maps hold 1.2 million numbers"):
        channel_browser(digits(), {"a": {"b": torch.zeros(3, 400, 32, 32)}})
