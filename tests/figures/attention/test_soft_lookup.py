"""Attention as a soft lookup: numbers by torch, and the handle."""

import numpy as np
import pytest
import torch
from reading import put, reached, said
from scipy.spatial import ConvexHull

from vitbook.figures import soft_lookup

KEYS = [[2, 1], [-1, 2], [-2, -1], [1, -2]]


def sample():
    return soft_lookup(
        keys=KEYS, values=[[2, 2], [-2, 1], [-1, -2], [2, -1]], query=[1, 0],
        task="Move the query until the output sits on A.", goal="A",
    )  # fmt: skip


def read(page):
    """The scores and weights of the table under the planes."""
    rows = page.locator(".vb-bar:not(.vb-head)").all()
    cells = [row.locator("span:not(.vb-track)").all_inner_texts() for row in rows]
    return np.array([[float(cell.replace("−", "-")) for cell in row] for row in cells]).T


@pytest.mark.parametrize("seed", range(3))
def test_a_query_gets_what_attention_gives(js, seed):
    query, keys, values = np.split(np.random.default_rng(seed).normal(size=(11, 2)), [1, 6])
    found = js("soft_lookup", "attend(query[0], keys, values, 1.7)",
               query=query, keys=keys, values=values)  # fmt: skip
    q, k, v = (torch.tensor(each)[None] for each in (1.7 * query, keys, values))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)[0, 0]
    assert found["output"] == pytest.approx(expected.tolist())
    hull = js("soft_lookup", "hull(points)", points=values)
    corners = values[ConvexHull(values).vertices]
    assert sorted(hull) == pytest.approx(np.array(sorted(corners.tolist())))


def test_scores_and_weights_are_those_of_the_formula(page):
    scores, weights = read(page)
    expected = torch.tensor(KEYS).double() @ torch.tensor([1.0, 0]).double() / 2**0.5
    assert scores == pytest.approx(expected.tolist(), abs=0.005)
    assert weights == pytest.approx(expected.softmax(0).tolist(), abs=0.0005)
    put(page, sharpness=0)
    assert read(page)[1] == pytest.approx(np.full(4, 0.25)) and "(0.25, 0.00)" in said(page)


def test_the_handle_follows_the_pointer_and_the_task_is_reached(page):
    assert not reached(page)
    handle = page.locator(".vb-handle .vb-ring").bounding_box()
    plane = page.locator(".vb-square").first.bounding_box()
    page.mouse.move(handle["x"] + 5, handle["y"] + 5)
    page.mouse.down()
    page.mouse.move(plane["x"] + plane["width"] - 2, plane["y"] + plane["height"] * 0.3, steps=5)
    page.mouse.up()
    put(page, sharpness=3)
    assert reached(page) and "Reached" in said(page)


@pytest.mark.parametrize("keys", [[[1, 2, 3]] * 4, [[1, 2]] * 3])
def test_what_is_no_plane_is_refused(keys):
    with pytest.raises(ValueError, match=r"keys came with shape .*, expected \(n, 2\)"):
        soft_lookup(keys, KEYS, [1, 0])
