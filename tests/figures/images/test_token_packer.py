"""The packer: its page packs and counts as Python does, and as the model itself."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import pick, reached
from small_inputs import photo

from vitbook import create_model
from vitbook.figures import token_packer
from vitbook.figures.token_packer import macs, packed
from vitbook.measure import count_macs

SIZES = [(512, 768), (768, 512), (384, 512), (300, 451), (343, 512), (512, 768)]


@cache
def sample():
    return token_packer(photo(32, 48), SIZES, size=(512, 640), goal=20, task="Find it.")


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=12))
def test_the_page_packs_as_python_does(js, lengths):
    sequences = js("token_packer", "packed(lengths, 20)", lengths=lengths)
    assert sequences == packed(lengths, 20)


def test_multiply_adds_are_those_of_the_model(js):
    model = create_model("vit_tiny_patch16_224", image_size=(32, 48), num_classes=10)
    counted = count_macs(model, torch.zeros(1, 3, 32, 48)) - 192 * 10  # but for its head
    body = (192, 12, 768)
    assert macs(6, 16, *body) == counted
    assert js("token_packer", "macs(6, 16, body)", body=body) == counted


def told(page):
    return page.evaluate(
        "(f => [f.lengths, f.sequences, f.empty])(document.querySelector('.vitbook-figure'))"
    )


def test_packing_takes_fewer_sequences_and_the_task_asks_for_it(page):
    lengths, sequences, empty = told(page)
    assert lengths[0] == 32 * 40 and len(sequences) == 7 and not reached(page)
    assert empty == pytest.approx(1 - sum(lengths) / (7 * 1536))  # padded to the longest
    pick(page, "packed", 1)
    lengths, sequences, empty = told(page)
    assert sequences == packed(lengths, 2 * 1536)
    assert empty == pytest.approx(1 - sum(lengths) / (2 * 1536 * len(sequences)))
    assert reached(page) == (100 * empty <= 20)


def test_the_keys_move_the_frame_and_it_stays_on_the_board(page):
    handle = page.locator(".vb-live [data-control=frame]")
    handle.focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    assert told(page)[0][0] == 32 * 48
    for _ in range(30):
        page.keyboard.press("ArrowUp")
    assert told(page)[0][0] == 2 * 48
    page.locator(".vb-live [data-control=reset]").click()
    assert told(page)[0][0] == 32 * 40


def test_the_caption_says_what_the_page_starts_with(page):
    lengths, _, empty = told(page)
    assert f"= {lengths[0]:,} tokens" in sample().description
    assert f"{100 * empty:.0f} % are empty" in sample().description


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"size": (512, 800)}, "512x800 pixels: expected 32 to 768 a side"),
        ({"size": (512, 650)}, "expected multiples of 32"),
        ({"patches": (16, 50)}, r"patches \[16, 50\]: expected some that divide 768"),
        ({"sizes": [(8, 8)]}, "8x8 pixels: expected 32 to 768"),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong, why):
    with pytest.raises(ValueError, match=why):
        token_packer(photo(32, 48), **({"sizes": SIZES, "size": (512, 640)} | wrong))
