"""One head set by hand: the page's numbers are those of the probe."""

import re

import numpy as np
import pytest
import torch
from reading import computed, put, reached, said, state

from vitbook.analysis import attention_distance, uniform_attention_distance
from vitbook.figures import distance_meter

OBLONG = ((4, 6), (5, 8))


def sample():
    return distance_meter()


def head(figure, width, share):
    """The maps of the head that the page shows, one class token in front."""
    (rows, columns), (down, across) = figure.data["grid"], figure.data["patch"]
    sigma = figure.data["widths"][width]
    places = torch.cartesian_prod(
        torch.arange(rows).double() * down, torch.arange(columns).double() * across
    )
    squares = (places[:, None] - places).pow(2).sum(-1)
    if sigma == 0:
        rows_ = torch.eye(len(places)).double()
    elif sigma is None:
        rows_ = torch.ones_like(squares)
    else:
        rows_ = torch.exp(-squares / (2 * sigma**2))
    maps = torch.zeros(1, 1, 1 + len(places), 1 + len(places)).double()
    maps[..., 0] = share / 100
    maps[..., 1:, 1:] = (1 - share / 100) * rows_ / rows_.sum(-1, keepdim=True)
    return maps


def renormalize(page):
    page.click("[data-control=renormalize]")


def numbers(page):
    """The three numbers of the product, as they are read."""
    return page.locator(".vb-product b").all_inner_texts()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("sigma", [3, 12.5])
def test_a_gaussian_heads_distance_is_the_probes(js, sigma, again):
    rows = js("distance_meter", "gaussian(distances([3, 5], [4, 6]), sigma, 0.6)", sigma=sigma)
    full = torch.zeros(1, 1, 16, 16, dtype=torch.float64)
    full[0, 0, :, 0] = 1 - 0.6
    full[0, 0, 1:, 1:] = torch.tensor(rows)
    expected = attention_distance(full, (3, 5), (4, 6), 1, renormalize=again).item()
    found = js("distance_meter", "attentionDistance(head, distances([3, 5], [4, 6]), again)",
               head=rows, again=again)  # fmt: skip
    assert found == pytest.approx(expected, rel=1e-5)


def test_it_opens_on_the_misreading(page):
    assert numbers(page) == ["0.50", "116 px", "58 px"] and "takes 58 px off the 116 px" in said(
        page
    )
    assert "0.50 × 116 px = 58 px" in sample().description
    renormalize(page)
    assert numbers(page) == ["1", "116 px", "116 px"]


@pytest.mark.parametrize("at", [((14, 14), (16, 16)), OBLONG])
def test_the_page_computes_the_probe(show, at):
    page = show(figure := distance_meter(*at))
    for width, share in [(100, 0), (45, 30), (1, 80), (0, 10)]:
        put(page, width=width, share=share)
        maps = head(figure, width, share)
        for again in (False, True):
            expected = attention_distance(maps, *at, 1, again).item()
            assert computed(page, "distance") == pytest.approx(expected, abs=1e-6)
            assert numbers(page)[2] == f"{expected:.{figure.data['digits']}f} px"
            row = maps[0, 0, 1 + figure.data["query"], 1:]
            row = row / row.sum() if again else row
            assert computed(page, "row") == pytest.approx(row.numpy(), abs=1e-9)
            renormalize(page)


def test_one_query_has_its_own_distance(page):
    weights = head(sample(), 100, 50)[0, 0, 1, 1:].numpy()  # uniform: the same from everywhere

    def alone():
        return float(re.search(r"alone: (\S+) px", page.locator(".vb-live").inner_text())[1])

    def of(row, column):
        y, x = np.divmod(np.arange(196), 14)
        return float(weights @ (16 * np.hypot(y - row, x - column)))

    assert alone() == pytest.approx(of(7, 7), abs=0.5)
    page.get_by_role("radio", name="patch in row 1, column 1", exact=True).click()
    assert alone() == pytest.approx(of(0, 0), abs=0.5) and numbers(page)[2] == "58 px"
    page.keyboard.press("ArrowRight")
    assert alone() == pytest.approx(of(0, 1), abs=0.5) and "query=1 " in state(page)


def distances(figure):
    """What each place of the width's slider gives with nothing on the class token."""
    at = tuple(figure.data["grid"]), tuple(figure.data["patch"]), 1
    levels = (head(figure, level, 0) for level in range(101))
    return np.array([attention_distance(each, *at).item() for each in levels])


def test_the_other_head_is_found_and_renormalising_tells_them_apart(page):
    assert not reached(page)
    put(page, share=0)
    away = np.abs(distances(sample()) - sample().data["goal"])
    for width in (10, int(away.argmin()), 90):
        put(page, width=width)
        assert reached(page) == (away[width] < 1.6)
    put(page, width=int(away.argmin()))
    found = numbers(page)[2]
    assert found in ("57 px", "58 px", "59 px") and "Now renormalise it" in said(page)
    renormalize(page)
    assert numbers(page)[2] == found and "the first head goes to 116 px" in said(page)


@pytest.mark.parametrize("at", [((14, 14), (16, 16)), OBLONG, ((4, 4), (2, 2))])
def test_the_slider_moves_the_distance_evenly(at):
    steps = np.diff(distances(distance_meter(*at)))
    uniform = uniform_attention_distance(*at)
    assert steps.sum() == pytest.approx(uniform, rel=1e-6)
    assert (steps > 0).all() and steps.max() < 2 * uniform / 75


def test_all_on_the_class_token_is_nothing_to_renormalise(js, page):
    assert js("distance_meter", "attentionDistance([[0, 0]], [[0, 1]], true)") == "nan"
    put(page, share=100)
    assert numbers(page)[2] == "0 px" and "none looks at any patch" in said(page)
    renormalize(page)
    assert numbers(page) == ["0/0", "none", "none"] and "0/0 is no distance" in said(page)


def test_a_grid_of_too_many_buttons_is_refused():
    with pytest.raises(ValueError, match="a grid of 40x40 patches, expected at most 1,024"):
        distance_meter((40, 40))
