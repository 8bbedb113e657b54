"""The page's channels are those of Python, and a dead one is crossed where it is dead."""

import numpy as np
import pytest
import torch

from vitbook.figures import channel_browser
from vitbook.figures.channel_browser import dead_on, quantize


def shown(page):
    return np.array(page.evaluate("document.querySelector('.vitbook-figure').map"))


def reached(page):
    return page.locator(".vitbook-figure").get_attribute("data-reached") == "true"


def crossed(page):
    return page.evaluate(
        "[...document.querySelectorAll('.vb-channels button')].flatMap("
        "(cell, i) => cell.classList.contains('vb-dead') ? [i] : [])"
    )


def pick(page, layer=None, image=None, channel=None):
    if layer is not None:
        page.locator("[data-control=layer]").select_option(str(layer))
    for control, at in (("image", image), ("channel", channel)):
        if at is not None:
            page.locator(f"[data-control={control}] button").nth(at).click()


def test_a_number_comes_back_within_its_byte():
    numbers = torch.randn(500, generator=torch.Generator().manual_seed(0)).numpy()
    numbers[3] = 0
    codes, scale = quantize(numbers)
    back = np.sign(codes) * scale * (codes / 127.0) ** 2
    assert np.abs(back - numbers).max() <= scale / 127 and back[3] == 0
    assert scale == np.abs(numbers).max()


def test_the_page_shows_the_maps_it_was_given(show, images):
    maps = {"a": {"one": torch.randn(3, 5, 4, 4), "two": torch.randn(3, 9, 2, 2)},
            "b": {"one": 100 * torch.randn(3, 4, 8, 8)}}  # fmt: skip
    page = show(channel_browser(images, maps))
    flat = [layer for model in maps.values() for layer in model.values()]
    for layer, image, channel in [(1, 0, 0), (1, 2, 8), (0, 1, 4), (2, 2, 3), (2, 0, 0)]:
        pick(page, layer, image, channel)
        expected = flat[layer][image, channel].flatten().numpy()
        assert np.abs(shown(page) - expected).max() < flat[layer].abs().max() / 127


def test_dead_channels_are_crossed_and_one_wakes(show, channels):
    page = show(channels)
    assert crossed(page) == [1, 4] and not reached(page)
    pick(page, image=1)
    assert crossed(page) == [4]
    pick(page, channel=1)
    assert not reached(page)  # alive here, and never seen dead
    pick(page, image=0)
    assert not reached(page)
    pick(page, image=2)
    assert reached(page)
    page.click("[data-control=reset]")
    pick(page, image=2, channel=1)
    assert not reached(page)
    pick(page, channel=4, image=0)
    pick(page, image=1)
    assert not reached(page)  # dead on all
    pick(page, layer=0)
    assert crossed(page) == [] and page.locator("[data-control=channel] button").count() == 4


def test_the_finding_is_what_the_page_opens_with(show, channels):
    page = show(channels)
    assert "leaves 2 of the 6 channels of conv, stage 1, dead; on all 3" in channels.description
    assert "together 1 are dead" in channels.description
    told = page.locator(".vb-readout").inner_text()
    assert "conv, stage 1: 2 of 6 channels are dead on this image, 1 on all 3." in told


def test_a_model_of_the_book(show, images, model):
    from vitbook.analysis import feature_maps

    maps = feature_maps(model, images / 255)
    page = show(channel_browser(images, {"vit": maps}, start=("vit", "encoder.blocks.0")))
    pick(page, channel=63)
    expected = maps["encoder.blocks.0"][0, 63].flatten().numpy()
    assert np.abs(shown(page) - expected).max() < maps["encoder.blocks.0"].abs().max() / 127
    assert dead_on(maps["encoder.blocks.0"].numpy()) == []


@pytest.mark.parametrize(
    ("maps", "start", "words"),
    [
        ({}, None, "maps came empty"),
        ({"a": torch.zeros(3, 4, 2, 2)}, None, "maps of 'a' came without layers"),
        ({"a": {"b": torch.zeros(2, 4, 2, 2)}}, None, r"a, b came with shape \(2, 4, 2, 2\)"),
        ({"a": {"b": torch.zeros(3, 400, 32, 32)}}, None, "maps hold 1.2 million numbers"),
        ({"a": {"b": torch.ones(3, 4, 2, 2)}}, ("a", "c"), r"start came as \('a', 'c'\)"),
    ],
)
def test_bad_input_gets_one_sentence(images, maps, start, words):
    with pytest.raises(ValueError, match=words):
        channel_browser(images, maps, start=start)
