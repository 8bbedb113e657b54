"""Heads over a photograph: the page's numbers are those of the probe."""

import pytest
import torch
from reading import computed, parts, pick, put, reached, said
from small_inputs import photo, seeded

from vitbook.analysis import attention_distance, weight_on_prefix
from vitbook.figures import distance_meter

GRID, STEP = (4, 6), (8, 10)


def heads():
    """Near, even, and half at the class token, of 25 tokens."""
    at = torch.cartesian_prod(torch.arange(4.0), torch.arange(6.0))
    near = torch.cat([torch.zeros(24, 1), torch.softmax(-torch.cdist(at, at), -1)], 1)
    even = torch.full((24, 25), 1 / 25)
    half = torch.rand(24, 25, generator=seeded(3))
    half[:, 0] = half[:, 1:].sum(1)
    rows = {"near": near, "even": even, "half": half / half.sum(1, keepdim=True)}
    return {name: torch.cat([torch.full((1, 25), 1 / 25), row]) for name, row in rows.items()}


def sample():
    return distance_meter(photo(32, 60), heads(), GRID)


def moved(weights, percent):
    """The same head with this share of what patches have given to the class token."""
    left = weights[None, None].clone()
    left[..., 1:] *= 1 - percent / 100
    left[..., 0] = (1 - left[..., 1:].sum(-1)).clamp_min(0)
    return left


def terms(page):
    return page.locator(".vb-terms b").all_inner_texts()


def numbers(page):
    return [float(told.removesuffix(" px")) for told in terms(page)]


@pytest.mark.parametrize("percent", [0, 35])
def test_the_circle_is_the_probes_distance(page, percent):
    put(page, moved=percent)
    for i, weights in enumerate(heads().values()):
        pick(page, "head", i)
        head = moved(weights, percent)
        expected = attention_distance(head, GRID, STEP, 1).item()
        assert computed(page, "distance") == pytest.approx(expected, rel=1e-5)
        assert float(page.locator(".vb-far").get_attribute("r")) == pytest.approx(expected)
        reach = attention_distance(head, GRID, STEP, 1, renormalize=True).item()
        on_token = weight_on_prefix(head, 1).item()
        for told, value, rounded in zip(
            numbers(page), (expected, on_token, reach), (0.51, 0.0051, 0.51), strict=True
        ):
            assert told == pytest.approx(value, abs=rounded)


def test_the_map_is_the_row_of_the_patch_that_asks_and_stays(page):
    pick(page, "head", 2)
    pick(page, "query", 7)
    row = heads()["half"][8, 1:]
    assert computed(page, "row") == pytest.approx(row.numpy(), abs=row.max().item() / 100)
    drawn = "document.querySelector('.vb-circles canvas').toDataURL()"
    before = page.evaluate(drawn)
    put(page, moved=60)
    assert page.evaluate(drawn) == before
    assert computed(page, "row") == pytest.approx(0.4 * row.numpy(), abs=row.max().item() / 100)


def test_the_far_heads_circle_becomes_as_small_as_the_near_ones(page):
    figure = sample()
    near, far = figure.data["near"], figure.data["far"]
    assert list(heads())[near] == "near" and list(heads())[far] == "even"
    pick(page, "head", far)
    published = figure.data["published"]
    just = round(100 * (1 - published[near] / published[far]))
    put(page, moved=just - 3)
    assert not reached(page)
    put(page, moved=just + 1)
    assert reached(page) and "The map is the same" in said(page)
    pick(page, "head", 2)
    assert not reached(page)


def test_nothing_is_left_to_measure(page):
    put(page, moved=100)
    assert terms(page) == ["0 px", "1.00", "none"] and "no radius" in said(page)
    assert parts(page)["moved"] == "100"


def test_what_is_no_photograph_with_heads_is_refused():
    with pytest.raises(ValueError, match="whole patches, resize the image"):
        distance_meter(photo(32, 50), heads(), GRID)
    with pytest.raises(ValueError, match="expected at least two"):
        distance_meter(photo(32, 60), {"near": heads()["near"]}, GRID)
