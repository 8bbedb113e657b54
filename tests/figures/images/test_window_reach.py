"""What the page says a token sees is what changes it in the real layers of Swin."""

import json
from functools import cache
from inspect import unwrap

import numpy as np
import pytest
import torch
from reading import computed, parts, pick, press, put, reached, said
from small_inputs import seeded
from torch import nn

from vitbook.figures import window_reach
from vitbook.figures.window_reach.reach import Block, blocks_of, pairs, seen
from vitbook.layers import PatchMerging, WindowSelfAttention

SIDE, WINDOW, DEPTHS, WIDTH = 16, 4, (2, 2, 2), 4
WAYS = [{"shift": bool(way % 2), "merge": way > 1} for way in range(4)]


def sample():
    photo = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8, generator=seeded(1))
    return window_reach(photo, task="Which patch sees all of it after four blocks?")


@cache
def layers(shift, merge, side=SIDE, window=WINDOW, depths=DEPTHS):
    """Blocks of the library with residual connections, a merging before the first of a stage."""
    torch.manual_seed(0)
    made, grid, width = [], side, WIDTH
    for stage, depth in enumerate(depths):
        for number in range(depth):
            first = []
            if merge and stage and not number:
                first = [PatchMerging((grid, grid), width, 2 * width)]
                grid, width = grid // 2, 2 * width
            moved = window // 2 if shift and number % 2 and window < grid else 0
            attention = WindowSelfAttention(
                width, 1, grid_size=(grid, grid), window_size=min(window, grid),
                shift=(moved, moved),
            )  # fmt: skip
            made.append((nn.Sequential(*first).double(), attention.double()))
    with torch.no_grad():
        for weight in (each for pair in made for part in pair for each in part.parameters()):
            weight.normal_(std=0.5)  # as layers begin, news of a few blocks ago is lost in rounding
        for _, attention in made:
            attention.qkv.weight[: 2 * attention.qkv.in_features] *= 0.01  # even weights, none 0
    return made


@cache
def real(way, blocks):
    """Which patches change which tokens behind the blocks: bool "tokens patches"."""
    model, side = layers(**WAYS[way])[:blocks], SIDE
    torch.manual_seed(1)
    plain = torch.randn(1, side**2, WIDTH, dtype=torch.double)
    news = plain.expand(side**2, -1, -1).clone()  # in each image another patch has news
    at = torch.arange(side**2)
    news[at, at] = torch.randn(side**2, WIDTH, dtype=torch.double)
    with torch.no_grad():
        for shrink, attention in model:
            plain, news = shrink(plain), shrink(news)
            plain, news = plain + attention(plain), news + attention(news)
    return ((news - plain).abs().amax(-1) > 1e-12).T


def found(way, blocks, token):
    """The patches that Python says the token of a patch sees: bool "side side"."""
    some = blocks_of(SIDE, WINDOW, DEPTHS, **WAYS[way])[:blocks]
    (top, bottom), (left, right) = (seen(at, SIDE, some) for at in divmod(token, SIDE))
    mask = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    mask[top : bottom + 1, left : right + 1] = True
    return mask.flatten()


@pytest.mark.parametrize("way", range(4))
def test_a_token_sees_what_changes_it_in_the_real_layers(way):
    for blocks in range(1, 7):
        changed = real(way, blocks)
        side = int(len(changed) ** 0.5)
        for token in range(0, SIDE**2, 7):
            row, column = (at * side // SIDE for at in divmod(token, SIDE))
            assert torch.equal(changed[row * side + column], found(way, blocks, token))


@pytest.mark.parametrize(("window", "depths"), [(7, (3,)), (7, (2, 1)), (2, (2, 2, 3))])
def test_the_page_is_python_for_windows_of_any_size(js, window, depths):
    side = 14 if window == 7 else 16
    for kind in WAYS:
        ours = blocks_of(side, window, depths, **kind)
        ends = [[list(seen(at, side, ours[:n])) for at in range(side)] for n in range(len(ours))]
        wanted = "{ const all = blocksOf(side, window, depths, kind); return [all.map((_, n) => " \
            "Array.from({ length: side }, (_, at) => seen(at, side, all.slice(0, n)))), " \
            "pairs(side, all)]; }"  # fmt: skip
        told = js("reach", f"(() => {wanted})()", side=side, window=window, depths=depths,
                  kind=kind)  # fmt: skip
        assert told == [ends, pairs(side, ours)]


def test_by_hand():
    assert seen(5, 16, []) == (5, 5)
    assert seen(5, 16, [Block(1, 4, 0)]) == (4, 7)
    assert seen(5, 16, [Block(1, 4, 0), Block(1, 4, 2)]) == (0, 7)
    assert seen(0, 16, [Block(1, 4, 2)]) == (0, 1)  # cut off at the edge
    assert seen(5, 16, [Block(1, 4, 0), Block(2, 4, 0)]) == (0, 7)
    assert pairs(16, [Block(1, 4, 0), Block(2, 4, 2)]) == 256 * 16 + 64 * 16


def test_the_page_tells_what_python_finds(page):
    for blocks in range(7):
        put(page, blocks=blocks)
        for way, ends in enumerate(computed(page, "seen")):
            some = blocks_of(SIDE, WINDOW, DEPTHS, **WAYS[way])[:blocks]
            assert ends == [list(seen(at, SIDE, some)) for at in (3, 5)]
            assert computed(page, "pairs")[way] == pairs(SIDE, some)


def test_it_opens_as_its_caption_says(page):
    assert parts(page) == {"token": "53", "blocks": "1", "way": "3"}
    assert "sees 16 of 256 patches" in sample().description
    assert "row 4, column 6 sees 16 of 256 patches. Block 1: 16 × 16 tokens, windows of 4 × 4" in (
        said(page)
    )
    assert "Up to here 4,096 pairs; without windows 65,536." in said(page)
    assert page.locator(".vb-way b").all_inner_texts() == ["16"] * 4


def test_the_middle_sees_all_after_four_blocks_and_a_corner_after_five(page):
    pick(page, "token", 7 * SIDE + 7)
    put(page, blocks=4)
    counts = page.locator(".vb-way b")
    assert reached(page) and counts.all_inner_texts() == ["16", "256", "64", "256"]
    pick(page, "token", 0)
    assert not reached(page) and counts.all_inner_texts() == ["16", "64", "64", "144"]
    put(page, blocks=5)
    assert "sees 256 of 256" in said(page) and not reached(page)
    pick(page, "way", 2)
    assert "sees 256 of 256 patches. Block 5: 4 × 4 tokens, one window." in said(page)


def test_keys_walk_over_the_patches_and_ways(page):
    press(page, "token", "ArrowDown", "ArrowRight")
    assert parts(page)["token"] == str(53 + 16 + 1)
    press(page, "way", "ArrowLeft")
    assert parts(page)["way"] == "2"


def test_before_the_first_block_a_token_sees_its_own_patch(page):
    put(page, blocks=0)
    assert "sees 1 of 256 patches. Before the first block" in said(page)


def test_a_small_grid_and_numbers_of_numpy():
    photo = torch.zeros(3, 8, 8, dtype=torch.uint8)
    assert window_reach(photo, side=4).data["token"] == 15
    numpys = dict(side=np.int64(8), window=np.int64(4), depths=np.array([2, 2]))
    ours = window_reach(photo, side=8, depths=(2, 2))
    assert json.dumps(unwrap(window_reach)(photo, **numpys).data) == json.dumps(ours.data)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(side=18), "a side of 18 patches in 3 stages: expected a multiple of 4, at most"),
        (dict(side=32), "a side of 32 patches"),
        (dict(window=3), r"windows of 3 in grids of \[16, 8, 4\] a side: expected one"),
        (dict(window=0), "windows of 0"),
        (dict(depths=()), r"depths \(\): expected a block or more in each stage"),
        (dict(depths=(2, 0)), r"depths \(2, 0\)"),
        (dict(token=(16, 0)), r"patch \(16, 0\): the grid has 16 rows"),
    ],
)
def test_what_it_refuses(change, words):
    with pytest.raises(ValueError, match=words):
        window_reach(torch.zeros(3, 8, 8, dtype=torch.uint8), **change)
