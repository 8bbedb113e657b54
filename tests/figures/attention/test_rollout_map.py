"""The page's rollout is the library's, whoever asks, whatever the residual and the layers."""

import numpy as np
import pytest
import torch
from reading import computed, pick, put, reached, terms
from small_inputs import digits, seeded

from vitbook.analysis import attention_rollout
from vitbook.figures import rollout_map
from vitbook.figures.rollout_map import difference, rolled

GIVEN = dict(num_prefix_tokens=1, grid_size=(4, 4))


def layers():
    """Six layers of one image, as attention_rollout takes them."""
    return list((2 * torch.randn(6, 1, 2, 17, 17, generator=seeded(3))).softmax(-1))


def sample():
    return rollout_map(digits()[0], layers(), **GIVEN)


def ask(page, query):
    page.click("[data-control=prefix]") if query == "class" else pick(page, "query", query)


def test_node_carries_a_row_as_the_library_does(js):
    maps = torch.cat(layers()).mean(1).double().numpy()[:3]
    carried = js("rollout_map", "carry(row, layers, 0.25)", row=np.eye(17)[3], layers=maps)
    every = rolled(maps, 0.25)
    assert carried == pytest.approx(every[3])
    apart = js("rollout_map", "difference(rows)", rows=every)
    assert apart == pytest.approx(difference(every))


def test_the_page_computes_the_rollout_within_its_bytes(page):
    for residual, depth, query in [(10, 6, "class"), (0, 6, 3), (19, 4, 15), (14, 5, 9)]:
        put(page, residual=residual, depth=depth)
        ask(page, query)
        expected = attention_rollout(layers()[:depth], query=query, residual=residual / 20, **GIVEN)
        row = np.array(computed(page, "row"))
        assert row.sum() == pytest.approx(1, abs=1e-9)
        assert np.abs(row[1:] - expected.numpy().ravel()).max() < 0.02 * expected.max()
        fused = torch.cat(layers()).mean(1).numpy()[:depth]
        apart = difference(rolled(fused, residual / 20))
        assert computed(page, "apart") == pytest.approx(apart, abs=0.005)


def test_difference_by_hand():
    assert difference(np.eye(2)) == 0.5
    assert difference(np.full((3, 3), 1 / 3)) == 0


def test_the_task_is_reached_at_the_fewest_layers_only(page):
    fused = torch.cat(layers()).mean(1).numpy()
    apart = [difference(rolled(fused[:depth], 0)) for depth in range(1, 7)]
    fewest = next(depth for depth, share in enumerate(apart, 1) if share < 0.01)
    assert 1 < fewest < 6
    put(page, residual=0)
    for depth in range(1, 7):
        put(page, depth=depth)
        assert reached(page) == (depth == fewest)
    put(page, residual=1, depth=fewest)
    assert not reached(page)


def test_one_layer_without_residual_is_that_layers_map(page):
    put(page, residual=0, depth=1)
    ask(page, 5)
    row = layers()[0][0].mean(0)[6].numpy()
    assert np.abs(np.array(computed(page, "row")) - row).max() < 0.02 * row.max()
    colors = page.evaluate(
        """[...document.querySelectorAll('.vb-image canvas')].map((canvas) =>
            [...canvas.getContext('2d').getImageData(0, 0, 4, 4).data].join())"""
    )
    assert len(colors) == 2 and colors[0] == colors[1]


def test_the_caption_says_what_the_page_opens_with(page):
    assert f"{terms(page)[2]} of its weight" in sample().description


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_prefix_tokens": 0}, "0 prefix tokens .* expected a class token"),
        ({"grid_size": (20, 20)}, "a grid of 20x20 came, expected .* at most 200 tokens"),
        ({"num_prefix_tokens": 2}, r"expected \(layers, 1, heads, 18, 18\)"),
    ],
)
def test_maps_of_other_tokens_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        rollout_map(digits()[0], layers(), **GIVEN | change)
