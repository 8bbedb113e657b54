"""What the gallery starts with: who asks, fused maps, patches alike."""

import numpy as np
import pytest
import torch

from vitbook.analysis import attention_distance, capture_attention, last_tokens
from vitbook.analysis.attention.rollout import roll_out
from vitbook.figures import attention_gallery
from vitbook.figures.attention_gallery.looks import fused


@pytest.fixture(autouse=True)
def without_kernel(monkeypatch):
    monkeypatch.setenv("VITBOOK_STATIC", "1")


@pytest.fixture
def looked(model, images):
    with torch.no_grad(), capture_attention(model) as maps:
        model(images / 127.5 - 1)
    return torch.stack(list(maps.values()), 1)


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def wait(page):
    page.wait_for_function("!document.querySelector('.vitbook-figure').waits")


def test_two_layers_are_fused_as_on_paper():
    first = np.array([[[0.0, 1], [0, 1]], [[1, 0], [0, 1]]])  # heads queries keys
    layers = np.stack([first, first[::-1]])
    assert fused(layers, "mean")[0].tolist() == [[0.5, 0.5], [0, 1]]
    assert fused(layers, "max")[0].tolist() == [[1, 1], [0, 1]]
    assert fused(layers, "min")[0].tolist() == [[0, 0], [0, 1]]
    # (I + A) / 2 is [[3/4, 1/4], [0, 1]]; its square has 9/16 and 7/16.
    assert fused(layers, "rollout").tolist() == [[[0.75, 0.25], [0, 1]], [[0.5625, 0.4375], [0, 1]]]
    with pytest.raises(ValueError, match="fuse came with 'median', expected one of mean, max"):
        fused(layers, "median")


def test_rollout_is_the_librarys_in_every_layer(looked):
    found = fused(looked[0].numpy(), "rollout")
    means = [layer[None] for layer in looked[0].mean(1)]
    for count in range(1, 5):
        expected = roll_out(torch.eye(17)[None], means[:count])[0]
        assert found[count - 1] == pytest.approx(expected.numpy(), abs=1e-6)
    wrong = roll_out(torch.eye(17)[None], means[::-1])[0].numpy()
    assert np.abs(found[-1] - wrong).max() > 1e-4, "a null: the order of the layers tells"


def test_fused_maps_lie_below_the_heads(show, model, images, looked):
    figure = attention_gallery(
        model, images, fuse=("mean", "rollout"), head=(2, 5), start="class token"
    )
    assert figure.data["heads"] == 4 and figure.data["fused"] == ["mean", "rollout"]
    assert "The class token" in figure.description or "the class token" in figure.description
    assert "and rollout through layer 3 is enlarged." in figure.description
    page = show(figure)
    assert page.locator("[data-control=head] button").count() == 4 * 6
    rolled = fused(looked[0].numpy(), "rollout")
    assert "Rollout through layer 3 looks here" in page.locator(".vb-live").inner_text()
    row = rolled[2, 0]
    assert computed(page, "row") == pytest.approx(row[1:].tolist(), abs=0.02 * float(row.max()))
    page.locator("[data-control=query] button").nth(9).click()
    page.locator("[data-control=head] button").nth(4 * 4 + 1).click()  # second layer's mean
    wait(page)
    row = looked[0, 1].mean(0)[10]
    assert computed(page, "row") == pytest.approx(row[1:].tolist(), abs=0.02 * float(row.max()))
    text = page.locator(".vb-live").inner_text()
    assert "Layer 2, mean of heads looks here" in text and "asks 16 heads" in text


def test_a_fused_map_does_not_reach_the_task(show, model, images):
    far = attention_gallery(model, images[:1]).data["photos"][0]["far"]
    page = show(
        attention_gallery(model, images[:1], fuse=("mean",), head=(0, 4), goal=max(far) + 9)
    )
    figure = page.locator(".vitbook-figure")
    assert figure.get_attribute("data-reached") == "false"
    page.locator("[data-control=head] button").first.click()
    assert figure.get_attribute("data-reached") == "true"


def test_distances_of_fused_maps_are_those_of_the_library(model, images, looked):
    far = attention_gallery(model, images[:1], fuse=("rollout",)).data["photos"][0]["far"]
    rolled = torch.tensor(fused(looked[0].numpy(), "rollout"))
    expected = attention_distance(rolled[None], (4, 4), 2, 1)[0]
    assert np.reshape(far, (4, 5))[:, 4] == pytest.approx(expected.numpy(), abs=0.006)


def test_patches_alike_at_the_start_come_with_the_page(show, model, images):
    figure = attention_gallery(model, images, start=(2, 1), alike=True, task="Look for its like.")
    page = show(figure)
    assert computed(page, "waits") is False and page.locator(".vb-tile:visible").count() == 2
    with torch.no_grad():
        tokens = last_tokens(model, images / 127.5 - 1)
    expected = torch.nn.functional.cosine_similarity(tokens[0, 10], tokens[:, 1:], dim=-1)
    assert computed(page, "seen.here.all") == pytest.approx(expected[0].tolist(), abs=0.006)
    assert computed(page, "seen.mean") == pytest.approx(float(expected[1:].mean()), abs=0.006)
    assert page.locator(".vb-task").inner_text() == "Look for its like."
    page.locator("[data-control=query] button").nth(3).click()
    wait(page)
    other = torch.nn.functional.cosine_similarity(tokens[0, 4], tokens[0, 1:], dim=-1)
    assert computed(page, "seen.here.all") == pytest.approx(other.tolist(), abs=0.01)
    page.click("[data-control=alike]")
    wait(page)
    assert "Layer" in page.locator(".vb-gallery").inner_text()


def test_with_a_task_of_its_own_there_is_no_goal(model, images):
    assert attention_gallery(model, images[:1], task="").data["goal"] is None
    assert attention_gallery(model, images[:1], task="Do.", goal=3).data["goal"] == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"start": (4, 0)}, r"start came as \(4, 0\), expected a row and column of 4x4, from 0, or "
                            "'class token'"),
        ({"start": (-1, 0)}, r"start came as \(-1, 0\)"),
        ({"start": "class"}, "start came as 'class', expected a row and column of 4x4"),
        ({"head": (0, 5), "fuse": ("mean",)}, "expected a layer under 4 and a head under 5"),
        ({"fuse": ("median",)}, "fuse came with 'median', expected one of mean, max, min, rollout"),
        ({"names": "abc"}, r"names came as the text 'abc', expected a list: pass \['abc'\]"),
        ({"images": torch.zeros(1, 3, 8, 8).byte()}, r"on images of shape \(1, 3, 8, 8\): .*3 ch"),
        ({"images": torch.zeros(1, 2, 8, 8).byte()}, r"expected uint8 \(n, 1 or 3, h, w\)"),
        ({"normalize": lambda x: x.numpy()}, "normalize gave a ndarray, expected a tensor"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(model, images, change, words):
    arguments = {"model": model, "images": images} | change
    with pytest.raises(ValueError, match=words):
        attention_gallery(arguments.pop("model"), arguments.pop("images"), **arguments)


class Blind(torch.nn.Module):
    """A net of patches in which no token sees another."""

    grid_size, num_prefix_tokens = (4, 4), 0

    def forward(self, x):
        return x


def test_a_model_without_attention_is_refused(images):
    with pytest.raises(ValueError, match=r"no maps of tokens by tokens came from Blind on images"):
        attention_gallery(Blind(), images)


def test_alike_needs_tokens(model, images):
    class Foreign(Blind):
        grid_size, num_prefix_tokens = (4, 4), 1

        def forward(self, x):
            return model(x)

    with pytest.raises(ValueError, match="alike came as True, but Foreign gives no tokens"):
        attention_gallery(Foreign(), images, alike=True)


def test_tokens_that_are_no_numbers_are_refused(model, images):
    torch.nn.init.constant_(model.encoder.norm.bias, torch.nan)
    with pytest.raises(ValueError, match="the tokens hold NaN or infinity"):
        attention_gallery(model, images)
