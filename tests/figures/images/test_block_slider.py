"""Photographs by block: the page's cosines and colours are those of the block that is chosen."""

from base64 import b64decode

import numpy as np
import pytest
import torch
from reading import computed, put, said, state
from small_inputs import seeded

from vitbook.figures import block_slider

NAMES = ("cat", "rocket")
CURVES = {
    "Read, %": {"probe": [40, 90, 80], "fresh": [30, 31, 32.5]},
    "Directions": {"90 %": [8, 97, 12]},
}


def made(**change):
    """Two noisy photographs of 4 x 6 patches in three blocks; in the last all tokens agree."""
    images = torch.randint(0, 256, (2, 3, 16, 24), dtype=torch.uint8, generator=seeded(2))
    tokens = list(torch.randn(3, 2, 24, 40, generator=seeded(3)))
    tokens[2][:, 8:12, 0] += 30
    given = {"names": NAMES, "curves": CURVES, "start": (1, 0, (1, 2)), "goal": (1, 0.9)}
    return block_slider(images, tokens, (4, 6), **given | {"task": "Slide."} | change), tokens


def sample():
    return made()[0]


def cosines(tokens, photo, patch):
    centred = tokens - tokens.flatten(0, 1).mean(0)
    unit = centred / centred.norm(dim=-1, keepdim=True)
    return (unit @ unit[photo, patch]).flatten().numpy()


def test_each_block_has_its_own_tokens_and_colours():
    tokens = [torch.randn(2, 24, 10, generator=seeded(block)) for block in range(3)]
    images, start = torch.zeros(2, 3, 16, 24, dtype=torch.uint8), (0, 0, (0, 0))
    figure = block_slider(images, tokens, (4, 6), names=NAMES, curves=CURVES, start=start)
    for block, text in enumerate(figure.data["tokens"]):
        kept = np.frombuffer(b64decode(text), np.int8).reshape(48, 10).astype(float)
        kept /= np.linalg.norm(kept, axis=1, keepdims=True)
        assert np.abs(kept @ kept[9] - cosines(tokens[block], 0, 9)).max() < 0.03
    assert len(set(figure.data["colors"])) == 3
    assert [panel["top"] for panel in figure.data["panels"]] == [100, 100]


def test_the_slider_moves_the_tokens_and_the_numbers(page):
    assert state(page) == "block=1 photo=0 patch=8" and "Block 2: probe 90, fresh 31" in said(page)
    before = np.array(computed(page, "cosines"))
    put(page, block=2)
    after = np.array(computed(page, "cosines"))
    assert "90 % 12" in said(page) and np.abs(after - before).max() > 0.1
    assert after[24 + 8 : 24 + 12].min() > 0.9
    assert "✓ Reached: in block 3 a patch of cat has one in rocket with cosine" in said(page)


def test_a_click_and_the_arrow_keys_touch(page):
    page.locator(".vb-block-photos .vb-image:has(.vb-touch)").nth(1).click(
        position={"x": 1, "y": 1}
    )
    assert state(page) == "block=1 photo=1 patch=0"
    page.get_by_role("button", name="framed patch of rocket").press("ArrowRight")
    assert state(page) == "block=1 photo=1 patch=1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ("cat",)}, "2 images, 1 names and tokens of"),
        ({"start": (3, 0, (0, 0))}, "expected a block under 3 and a photograph under 2"),
        ({"curves": {"a": {"probe": [1, 2]}}}, "probe: 2 numbers, expected one for each of the 3"),
    ],
)
def test_bad_input_gets_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        made(**change)
