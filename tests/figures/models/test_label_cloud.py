"""Labels through a training: the page counts the spread as Python does, and places the points."""

import numpy as np
import pytest
import torch
from reading import computed, pick, put, reached, said, state
from small_inputs import seeded

from vitbook.figures import label_cloud
from vitbook.figures.label_cloud import cloud_spread

STEPS, GROUPS = (0, 10, 40), [0, 0, 0, 1, 1, 1]


def made(way):
    """Six labels of four numbers: the first training's come together, the other's stay."""
    start = torch.randn(6, 4, generator=seeded(3))
    pull = (1.0, 0.5, 0.02) if way == "nothing" else (1.0, 0.9, 0.8)
    labels = torch.stack([torch.ones(4) + share * (start - 1) for share in pull])
    return (127 * labels / labels.norm(dim=-1, keepdim=True)).round().to(torch.int8)


def given(**changed):
    names = ("nothing", "<slow> copy")
    return {
        "labels": {name: made(name) for name in names},
        "losses": {names[0]: [1.0, 0.4, 0.0], names[1]: [1.0, 0.6, 0.3]},
        "steps": STEPS, "groups": GROUPS,
    } | changed  # fmt: skip


def sample():
    return label_cloud(**given())


def expected(way, at):
    labels = torch.nn.functional.normalize(
        list(given()["labels"].values())[way][at].double(), dim=1
    )
    return sum(1 - part.mean(0).square().sum().item() for part in labels.split(3)) / 2


@pytest.mark.parametrize(("way", "at"), [(0, 0), (0, 2), (1, 1)])
def test_the_page_and_python_count_the_spread_from_all_numbers(page, way, at):
    pick(page, "way", way)
    put(page, step=at)
    assert state(page) == f"way={way} step={STEPS[at]}"
    assert computed(page, "spread") == pytest.approx(expected(way, at), abs=1e-9)
    levels = list(given()["labels"].values())[way][at].numpy()
    assert cloud_spread(levels, np.array(GROUPS)) == pytest.approx(expected(way, at), abs=1e-9)
    assert f"spread is {expected(way, at):.2f}, it was {expected(way, 0):.2f}" in said(page)
    assert page.locator(".vb-terms b").first.inner_text() == f"{expected(way, at):.2f}"


def test_points_lie_in_the_plane_of_the_principal_components(page, js):
    put(page, step=1)
    data = sample().data
    plane = torch.tensor(data["plane"], dtype=torch.float64)
    labels = torch.nn.functional.normalize(made("nothing")[1].double(), dim=1)
    placed = (labels - torch.tensor(data["center"], dtype=torch.float64)) @ plane.T
    dots = page.locator(".vb-dot").evaluate_all(
        "all => all.map((dot) => [+dot.getAttribute('cx'), -dot.getAttribute('cy')])"
    )
    assert np.array(dots) == pytest.approx(150 * placed.numpy(), abs=0.06)
    live = js("label_cloud", "inPlane(z, c, p)", z=labels, c=data["center"], p=data["plane"])
    assert np.array(live) == pytest.approx(placed.numpy(), abs=1e-9)
    assert (plane @ plane.T).numpy() == pytest.approx(np.eye(2), abs=1e-3)


def test_the_task_is_reached_by_labels_that_nothing_holds(page):
    assert not reached(page)
    pick(page, "way", 1)
    put(page, step=2)
    assert not reached(page)
    pick(page, "way", 0)
    assert reached(page) and expected(0, 2) < 0.05 and "the labels are one point" in said(page)


def test_it_starts_as_its_caption_says():
    told = (
        f"At the start: nothing, step 0: the labels' spread is {expected(0, 0):.2f}, the loss 1.00."
    )
    assert sample().description.startswith(told)


def test_by_hand(js):
    opposite, alike = [[1, 0], [-1, 0]], [[0, 2], [0, 5]]
    both = np.array(opposite + alike)
    assert cloud_spread(both, np.array([0, 0, 1, 1])) == 0.5  # 1 in the first group, 0 in the other
    units = js("label_cloud", "unitLabels(z, 2)", z=both.flatten().tolist())
    assert units == [[1, 0], [-1, 0], [0, 1], [0, 1]]
    assert js("label_cloud", "cloudSpread(z, [0, 0, 1, 1])", z=units) == 0.5


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"labels": {"nothing": torch.zeros(3, 6, 4)}},
            "float32 of shape .3, 6, 4., expected int8",
        ),
        ({"steps": (0, 10)}, "expected int8 .2, 6, dimensions"),
        ({"groups": [0, 0, 0, 1, 1, 2]}, "groups of .3, 2, 1. tokens: expected up to 8 groups"),
        ({"groups": [0, 0, 0, 1, 1, 10**9]}, "group 1000000000: expected numbers from 0 to 7"),
        ({"groups": [0, 0, 0, 1, 1, -1]}, "group -1: expected numbers from 0 to 7"),
        ({"losses": {"nothing": [1.0, float("nan"), 0.0], "<slow> copy": [1.0, 0.6, 0.3]}}, "NaN"),
        ({"labels": {"nothing": torch.zeros(3, 6, 1, dtype=torch.int8)}}, "two dimensions or more"),
        ({"labels": {}, "losses": {}}, "labels of no training: expected one at least"),
        ({"losses": {"nothing": [1.0, 0.4, 0.0]}}, "losses of .'nothing'.: expected one at each"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changed, told):
    with pytest.raises(ValueError, match=told):
        label_cloud(**given(**changed))
