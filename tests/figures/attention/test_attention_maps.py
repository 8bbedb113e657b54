"""Maps of all heads: what is stored, what is measured, what is refused."""

from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image
from reading import pick, said
from small_inputs import digits, maps

from vitbook.figures import attention_maps
from vitbook.figures.parts.drawing import base64, heat, png
from vitbook.figures.parts.maps import quantize

GRID = {"num_prefix_tokens": 1, "grid_size": (4, 4)}


def sample():
    return attention_maps(digits(), maps(), goal=100.0, **GRID)


def table(page):
    """Model -> its four numbers: on the class token, on itself, distance, largest."""
    cells = page.locator(".vb-table > span").all_inner_texts()
    return {cells[i]: cells[i + 1 : i + 5] for i in range(5, len(cells), 5)}


def test_stored_weights_are_near_and_small_ones_nearer():
    trained = maps()["trained"]
    codes, scales = quantize(trained)
    scale = scales.reshape(-1, 1, 1, 1, 1)
    error = np.abs(scale * (codes / 255.0) ** 2 - trained)
    assert codes.dtype == np.uint8
    assert (error <= scale / 255 + 1e-9).all() and error[trained < 0.01].max() < 0.0006


def test_uniform_rows_of_many_patches_survive_beside_a_peak():
    rows = np.full((1, 2, 197), 1 / 197)
    rows[0, 1] = np.eye(197)[3]
    codes, scales = quantize(rows)
    assert scales[0] * (codes[0, 0] / 255.0) ** 2 == pytest.approx(rows[0, 0], rel=0.03)


def test_node_reads_stored_maps_and_measures_their_distance(js):
    rows = maps()["trained"][:1, :1, :1]
    codes, scales = quantize(rows)
    stored = {"codes": base64(codes), "scales": scales.tolist()}
    row = js("attention_maps", "reader(stored, [1, 1, 1, 17, 17])(0, 0, 0, 5)", stored=stored)
    assert row == pytest.approx(scales[0] * (codes[0, 0, 0, 5] / 255.0) ** 2)
    far = js("attention_maps", "meanDistance(row, 4, 4, [2, 3])", row=row[1:])
    away = np.indices((4, 4)).reshape(2, 16).T - [1, 0]
    assert far == pytest.approx(row[1:] @ np.linalg.norm(away * [2, 3], axis=1))


def test_the_page_shows_what_the_maps_say(page):
    shown = table(page)
    assert float(shown["trained"][0]) == pytest.approx(maps()["trained"][1, 0, 0, 0, 0], abs=0.005)
    assert shown["trained"][2] == "no position" and shown["uniform"][:2] == ["0.059", "0.059"]
    page.get_by_role("radio", name="patch in row 2, column 3", exact=True).click()
    for name, each in maps().items():
        row = each[1, 0, 0, 7]
        away = np.indices((4, 4)).reshape(2, 16).T - [1, 2]
        distance = (row[1:] * np.linalg.norm(2 * away, axis=1)).sum()
        assert float(table(page)[name][2].removesuffix(" px")) == pytest.approx(distance, abs=0.06)
        assert float(table(page)[name][1]) == pytest.approx(row[7], abs=0.005)


def test_a_cell_of_the_matrix_is_chosen_for_both_models_on_one_scale(page):
    page.get_by_role("radiogroup", name="uniform").get_by_role("radio").first.click()
    assert "Layer 1 of 2, head 1 of 2" in said(page)
    assert page.locator("[data-control=head] [aria-checked=true]").count() == 2
    largest = maps()["trained"][0, 0, 0, 0].max()
    assert float(table(page)["trained"][3].split()[0]) == pytest.approx(largest, abs=0.005)
    colors = page.evaluate(
        """[...document.querySelectorAll('[data-control=head]')].map(group =>
            new Set([...group.querySelectorAll('canvas')].flatMap(canvas => {
              const data = canvas.getContext('2d').getImageData(0, 0, 4, 4).data;
              return Array.from({length: 16}, (_, i) => data.slice(4 * i, 4 * i + 3).join());
            })).size)"""
    )
    assert colors[0] > 20 and colors[1] == 1, "uniform attention is one colour"


def test_many_layers_of_few_heads_lie_on_their_side(show):
    deep = np.concatenate([maps()["trained"]] * 3)
    page = show(attention_maps(digits(), deep, start=(4, 1), **GRID))
    cells = page.locator("[data-control=head] button")
    assert cells.nth(10).get_attribute("aria-checked") == "true"
    pick(page, "head", 3)
    assert "Layer 4 of 6, head 1 of 2" in said(page)


def test_what_capture_yields_is_taken_as_it_is():
    layers = {f"encoder.blocks.{i}": torch.tensor(m) for i, m in enumerate(maps()["trained"])}
    assert attention_maps(digits(), layers, **GRID).data["shape"] == [2, 3, 2, 17, 17]
    both = attention_maps(digits(), {"a": layers, "b": layers}, **GRID)
    assert both.data["models"][1]["name"] == "b"


def test_colours_run_from_dark_to_bright_in_images_that_others_read():
    ramp = heat(np.linspace(0, 1, 50)[None], 1)
    assert (np.diff(ramp.astype(int).sum(-1)[0]) > 0).all()
    assert (np.asarray(Image.open(BytesIO(b64decode(png(ramp).split(",")[1])))) == ramp).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"images": torch.zeros(3, 1, 8, 8)}, "images came as float32 .*, expected uint8"),
        ({"images": torch.zeros(0, 1, 8, 8, dtype=torch.uint8)}, "images came empty"),
        ({"grid_size": (3, 3)}, "a grid of 3x3 does not divide images of 8x8"),
        ({"num_prefix_tokens": 2}, r"came with shape \(2, 3, 2, 17, 17\), expected .* 18, 18"),
        ({"labels": ["one"]}, "1 labels came for 3 images"),
        ({"start": (2, 0)}, "start came as layer 2, head 0, expected under 2 and 2"),
        ({"maps": {"rows": np.ones((6, 2, 4, 4)), "columns": np.ones((12, 2, 2, 2))}},
         r"shapes \(6, 2, 4, 4\), \(12, 2, 2, 2\), expected the same in every layer: pass full"),
        ({"maps": {"raw": np.full((2, 3, 2, 17, 17), -1.0)}}, "hold negative .* after the softmax"),
        ({"maps": {"a": np.ones((2, 3, 2, 17, 17)), "b": np.ones((1, 3, 2, 17, 17))}},
         "expected the same layers and heads"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(change, words):
    with pytest.raises(ValueError, match=words):
        attention_maps(**{"images": digits(), "maps": maps()} | GRID | change)
