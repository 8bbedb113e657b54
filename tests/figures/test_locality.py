"""Sharpness and mask on one head: the page's rows are those of locality self-attention."""

import numpy as np
import pytest
import torch

from vitbook.figures import locality_dial
from vitbook.layers.attention import Attention

TOKENS = 17


def row(figure, sharpness, masked):
    """What the library's attention makes of the scores, sharpened and masked."""
    scores = torch.tensor(figure.data["scores"], dtype=torch.float64)
    query, itself = figure.data["query"], figure.data["prefix"] + figure.data["query"]
    # Queries that are one row of scores each, keys that are the axes: q k^T / sqrt(d) = scores.
    q = sharpness * scores[None, None, query : query + 1] * TOKENS**0.5
    allowed = torch.ones(1, TOKENS, dtype=torch.bool)
    allowed[0, itself] = not masked
    return Attention.weights(q, torch.eye(TOKENS).double()[None, None], allowed)[0, 0, 0].numpy()


def set_dial(page, level=None, masked=None):
    if level is not None:
        page.locator("[data-control=sharpness]").fill(str(level))
    button = page.locator("[data-control=masked]")
    if masked is not None and (button.get_attribute("aria-pressed") == "true") != masked:
        button.click()


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def numbers(page):
    return page.locator(".vb-terms b").all_inner_texts()


def test_it_starts_as_the_head_was(show, dial, head):
    page = show(dial)
    captured = head[1 + dial.data["query"]]
    assert captured[1 + dial.data["query"]] < 0.5
    assert computed(page, "weights") == pytest.approx(captured, abs=1e-3)
    assert numbers(page)[0] == f"{captured[1 + dial.data['query']]:.2f}"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("level", [0, 12, 20, 24])
def test_the_page_computes_the_layers_rows(show, dial, level, masked):
    page = show(dial)
    set_dial(page, level, masked)
    expected = row(dial, dial.data["sharpness"][level], masked)
    assert computed(page, "weights") == pytest.approx(expected, abs=1e-9)
    positive = expected[expected > 0]
    used = np.exp(-(positive * np.log(positive)).sum())
    assert computed(page, "used") == pytest.approx(used, rel=1e-6)
    assert numbers(page)[2] == f"{used:.1f}"


def test_the_mask_keeps_the_others_in_proportion(show, dial):
    page = show(dial)
    free = np.array(computed(page, "weights"))
    set_dial(page, masked=True)
    masked = np.array(computed(page, "weights"))
    itself = 1 + dial.data["query"]
    assert masked[itself] == 0 and numbers(page)[0] == "0"
    others = np.arange(TOKENS) != itself
    assert masked[others] == pytest.approx(free[others] / (1 - free[itself]))


def test_the_task_is_reached_by_sharpening_and_then_masking(show, dial):
    page = show(dial)
    figure = page.locator(".vitbook-figure")
    set_dial(page, masked=True)
    assert figure.get_attribute("data-reached") == "false"
    set_dial(page, level=24, masked=False)
    assert figure.get_attribute("data-reached") == "false"
    set_dial(page, masked=True)
    assert figure.get_attribute("data-reached") == "true"
    assert "Reached" in page.locator(".vb-readout").inner_text()


def test_another_patch_asks(show, dial, head):
    page = show(dial)
    page.get_by_role("radio", name="patch in row 2, column 3", exact=True).click()
    assert "query=6 " in page.locator(".vitbook-figure").get_attribute("data-state")
    assert computed(page, "weights") == pytest.approx(head[7], abs=1e-3)


def test_no_task_where_sharpening_never_ends_at_the_patch_itself(images):
    even = np.full((TOKENS, TOKENS), 1 / TOKENS)
    figure = locality_dial(images[0], even, grid_size=(4, 4), num_prefix_tokens=1)
    assert figure.data["task"] == ""


def test_a_model_without_prefix_and_a_chosen_start(show, images, head):
    maps = head[:16, :16]
    maps = maps / maps.sum(-1, keepdims=True)
    figure = locality_dial(
        images[0], maps, grid_size=(2, 8), num_prefix_tokens=0, start=(1, 2), task="Look."
    )
    page = show(figure)
    assert computed(page, "weights") == pytest.approx(maps[10], abs=1e-3)
    assert page.locator(".vb-task").inner_text() == "Look."


@pytest.mark.parametrize(
    ("size", "change", "words"),
    [
        (16, None, r"shape \(16, 16\), expected \(17, 17\)"),
        (17, "zero", "came with a zero or with rows that do not sum to 1"),
        (17, "scores", "came with a zero or with rows that do not sum to 1"),
    ],
)
def test_bad_input_gets_one_sentence(images, size, change, words):
    maps = np.full((size, size), 1 / size)
    if change == "zero":
        maps = 1 - np.eye(size)
    elif change == "scores":
        maps = maps * 3
    with pytest.raises(ValueError, match=words):
        locality_dial(images[0], maps, grid_size=(4, 4), num_prefix_tokens=1)
    even = np.full((TOKENS, TOKENS), 1 / TOKENS)
    with pytest.raises(ValueError, match=r"start came as \(4, 0\), expected a patch of the grid"):
        locality_dial(images[0], even, grid_size=(4, 4), num_prefix_tokens=1, start=(4, 0))
