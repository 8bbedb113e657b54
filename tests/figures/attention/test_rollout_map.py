"""The page's rollout is the library's, whoever asks, with all heads and without one."""

import numpy as np
import pytest
import torch
from reading import computed, pick, put, reached, said
from small_inputs import digits, seeded

from vitbook.analysis import attention_rollout
from vitbook.figures import rollout_map

GIVEN = dict(num_prefix_tokens=1, grid_size=(4, 4))


def layers(without=None):
    """Six layers of one image, as attention_rollout takes them; in the first one head may lack."""
    maps = list((6 * torch.randn(6, 1, 3, 17, 17, generator=seeded(3))).softmax(-1))
    maps[0][0, 2] = torch.eye(17)[9]  # all weight on one patch
    if without is not None:
        maps[0] = maps[0][:, [head for head in range(3) if head != without]]
    return maps


def of_classes():
    return dict(zip("ab", torch.rand(2, 6, 4, 4, generator=seeded(4)), strict=True))


def sample(**changes):
    given = GIVEN | dict(weighted=of_classes(), left_out=(0, 2)) | changes
    return rollout_map(digits()[0], layers(), **given)


def ask(page, query):
    page.click("[data-control=prefix]") if query == "class" else pick(page, "query", query)


def test_node_carries_a_row_as_the_library_does(js):
    maps = torch.cat(layers()).mean(1).double()[:3]
    carried = js("rollout_map", "carry(row, layers, 0.25)", row=np.eye(17)[3], layers=maps.numpy())
    whole = torch.eye(17).double()
    for layer in maps:
        whole = (0.25 * torch.eye(17) + 0.75 * layer) @ whole
    assert carried == pytest.approx(whole[3].numpy())


def test_the_page_computes_the_rollout_within_its_bytes(page):
    for depth, query, without in [(6, "class", False), (4, 15, False), (1, 3, True), (5, 9, True)]:
        put(page, depth=depth)
        ask(page, query)
        button = page.locator("[data-control=without]")
        if (button.get_attribute("aria-pressed") == "true") != without:
            button.click()
        maps = layers(2 if without else None)[:depth]
        expected = attention_rollout(maps, query=query, **GIVEN)
        page.wait_for_function("document.querySelector('.vitbook-figure').waits === false")
        row = np.array(computed(page, "row"))
        assert row.sum() == pytest.approx(1, abs=1e-9)
        assert np.abs(row[1:] - expected.numpy().ravel()).max() < 0.02 * expected.max()


def test_the_task_is_reached_when_the_patch_of_the_head_is_gone(page):
    assert "row 3, column 1" in said(page) and not reached(page)
    page.click("[data-control=without]")
    assert "row 3, column 1" not in said(page) and reached(page)
    put(page, depth=3)
    assert not reached(page)


def test_a_class_has_its_map_in_each_layer(page):
    maps = of_classes()
    for name, number in (("a", 0), ("b", 1)):
        page.select_option("[data-control=class]", str(number))
        put(page, depth=2)
        words = page.locator(".vb-rolled > div").nth(3).inner_text()
        top = maps[name][1]
        assert f"“{name}”, 1–2" in words
        assert f"brightest: {top.max() / top.mean():.1f} × mean" in words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_prefix_tokens": 0}, "no prefix token came, expected a class token"),
        ({"num_prefix_tokens": 2}, r"expected \(layers, 1, heads, 18, 18\)"),
        ({"left_out": (0, 3)}, r"left_out \(0, 3\): expected a layer under 6 .* under 3"),
        ({"weighted": {}}, "weighted holds no class"),
        ({"weighted": {"a": torch.rand(6, 4, 3)}}, "maps of 'a' came with shape .* expected"),
        ({"weighted": {"a": -torch.ones(6, 4, 4)}}, "of numbers from 0 up"),
    ],
)
def test_what_is_no_such_map_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        sample(**change)


def test_more_weights_than_a_page_holds_are_refused():
    many = torch.ones(1, 1, 2, 901, 901) / 901
    with pytest.raises(ValueError, match="1 layers of 901 tokens make 1,623,602 weights"):
        rollout_map(digits()[0], many, num_prefix_tokens=1, grid_size=(30, 30), weighted={})
