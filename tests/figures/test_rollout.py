"""The page's rollout is the library's, whoever asks, whatever the residual and the layers."""

import numpy as np
import pytest
import torch

from vitbook.analysis import attention_rollout
from vitbook.figures import rollout_map
from vitbook.figures.rollout_map import difference, rolled

GIVEN = dict(num_prefix_tokens=1, grid_size=(4, 4))


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def put(page, residual=None, depth=None, query=None):
    for control, value in (("residual", residual), ("depth", depth)):
        if value is not None:
            page.locator(f"[data-control={control}]").fill(str(value))
    if query == "class":
        page.locator("[data-control=prefix]").click()
    elif query is not None:
        page.locator("[data-control=query] button").nth(query).click()


@pytest.fixture
def layers(weights):
    """Six layers of one image, as attention_rollout takes them."""
    generator = torch.Generator().manual_seed(3)
    scores = 2 * torch.randn(6, 1, 2, 17, 17, generator=generator)
    return list(scores.softmax(-1))


@pytest.fixture
def figure(images, layers):
    return rollout_map(images[0], layers, **GIVEN)


def test_the_page_computes_the_rollout_within_its_bytes(show, figure, layers):
    page = show(figure)
    for residual, depth, query in [
        (10, 6, "class"), (0, 6, 3), (0, 1, 0), (19, 4, 15), (7, 2, "class"), (14, 5, 9),
    ]:  # fmt: skip
        put(page, residual, depth, query)
        expected = attention_rollout(layers[:depth], query=query, residual=residual / 20, **GIVEN)
        row = np.array(computed(page, "row"))
        assert row.sum() == pytest.approx(1, abs=1e-9)
        error = np.abs(row[1:] - expected.numpy().ravel())
        assert error.max() < 0.02 * expected.max()
        fused = torch.cat(layers).mean(1).numpy()[:depth]
        apart = difference(rolled(fused, residual / 20))
        assert computed(page, "apart") == pytest.approx(apart, abs=0.005)


def test_with_the_stored_bytes_it_is_the_rollout_to_the_last_digit(show, figure):
    page = show(figure)
    stored = page.evaluate(
        """() => {
          const data = JSON.parse(document.querySelector('.vb-data').textContent);
          const bytes = Uint8Array.from(atob(data.codes), (c) => c.charCodeAt(0));
          return [data.scales, [...bytes]];
        }"""
    )
    scales, codes = (torch.tensor(part, dtype=torch.double) for part in stored)
    maps = scales[:, None, None] * (codes.reshape(6, 17, 17) / 255) ** 2
    maps = maps / maps.sum(-1, keepdim=True)
    for residual, depth, query in [(10, 6, "class"), (0, 3, 7), (19, 6, 2)]:
        put(page, residual, depth, query)
        expected = attention_rollout(
            list(maps[:depth, None, None]), query=query, residual=residual / 20, **GIVEN
        )
        assert computed(page, "row")[1:] == pytest.approx(expected.flatten().tolist(), abs=1e-9)


def test_difference_by_hand():
    assert difference(np.eye(2)) == 0.5
    assert difference(np.full((3, 3), 1 / 3)) == 0


def test_the_task_is_reached_at_the_fewest_layers_only(show, figure, layers):
    page = show(figure)
    fused = torch.cat(layers).mean(1).numpy()
    apart = [difference(rolled(fused[:depth], 0)) for depth in range(1, 7)]
    fewest = next(depth for depth, share in enumerate(apart, 1) if share < 0.01)
    assert 1 < fewest < 6
    put(page, residual=0)
    reached = []
    for depth in range(1, 7):
        put(page, depth=depth)
        reached.append(page.locator(".vitbook-figure").get_attribute("data-reached") == "true")
    assert reached == [depth == fewest for depth in range(1, 7)]
    put(page, residual=1, depth=fewest)
    assert page.locator(".vitbook-figure").get_attribute("data-reached") == "false"


def test_one_layer_without_residual_is_that_layers_map(show, figure, layers):
    page = show(figure)
    put(page, residual=0, depth=1, query=5)
    row = layers[0][0].mean(0)[6].numpy()
    assert np.abs(np.array(computed(page, "row")) - row).max() < 0.02 * row.max()
    colors = page.evaluate(
        """[...document.querySelectorAll('.vb-image canvas')].map((canvas) =>
            [...canvas.getContext('2d').getImageData(0, 0, 4, 4).data].join())"""
    )
    assert len(colors) == 2 and colors[0] == colors[1]


def test_the_caption_says_what_the_page_opens_with(show, figure):
    page = show(figure)
    shown = page.locator(".vb-terms b").all_inner_texts()
    assert f"{shown[2]} of its weight" in figure.description


def test_a_model_of_the_book_is_taken_as_it_is_captured(show, images, model):
    from vitbook.analysis import capture_attention

    image = images[:1]
    with torch.no_grad(), capture_attention(model) as maps:
        model(image / 255)
    page = show(rollout_map(image[0], maps, **GIVEN))
    expected = attention_rollout(model, image / 255).flatten()
    error = np.abs(np.array(computed(page, "row"))[1:] - expected.numpy())
    assert error.max() < 0.02 * float(expected.max())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image": torch.zeros(1, 8, 8)}, "images came as float32 .*, expected uint8"),
        ({"num_prefix_tokens": 0}, "0 prefix tokens .* expected a class token"),
        ({"grid_size": (20, 20)}, "a grid of 20x20 came, expected .* at most 200 tokens"),
        ({"grid_size": (3, 3)}, "a grid of 3x3 does not divide an image of 8x8"),
        ({"num_prefix_tokens": 2}, r"expected \(layers, 1, heads, 18, 18\)"),
        ({"residual": 0.52}, "residual came as 0.52, expected 0, 0.05, 0.1"),
        ({"residual": 1}, "residual came as 1, expected .* or 0.95"),
        ({"maps": torch.zeros(1, 2, 17, 17)}, "maps came as one tensor, expected a list"),
    ],
)
def test_bad_input_gets_one_sentence(images, layers, change, words):
    arguments = {"image": images[0], "maps": layers} | GIVEN | change
    with pytest.raises(ValueError, match=words):
        rollout_map(arguments.pop("image"), arguments.pop("maps"), **arguments)
