"""The data flow: what is packed against torch, its scenes in Node, and readers who walk it."""

from base64 import b64decode

import numpy as np
import pytest
import torch
from reading import said, state
from small_inputs import photo, seeded

from vitbook import create_model
from vitbook.analysis import capture_attention
from vitbook.analysis.capture.outputs import capture_outputs
from vitbook.blocks import list_blocks
from vitbook.figures import data_flow
from vitbook.figures.data_flow import LINES, strongest
from vitbook.figures.data_flow.colors import layer_colors

DEPTH, PATCHES, LAST = 3, 24, 7  # of the sample: steps 0 to 3, three layers, the answer

COUNT_FRAMES = """window.frames_ = 0;
const ask = requestAnimationFrame;
window.requestAnimationFrame = (draw) => (window.frames_++, ask(draw));"""


def given():
    """A photograph of 4 x 6 patches of 4 pixels, and three layers of random tokens and maps."""
    powers = np.exp(np.random.default_rng(0).normal(scale=2, size=(3, 25, 25)))
    return {
        "photograph": photo(32, 48), "tokens": torch.randn(4, 25, 20, generator=seeded(3)),
        "attention": powers / powers.sum(-1, keepdims=True),
        "answer": torch.rand(16, 24, generator=seeded(4)),
        "grid_size": (4, 6), "patch_size": 4, "start": (1, 2),
    }  # fmt: skip


def sample():
    return data_flow(**given())


def at(step, patch=8, playing="false"):
    return f"step={step} patch={patch} playing={playing}"


def rest(page):
    """Wait until nothing moves."""
    page.wait_for_function("document.querySelector('.vitbook-figure').moving === false")


def go(page, control, times=1):
    for _ in range(times):
        page.click(f"[data-control={control}]")


def packed(figure, name, dtype, *shape):
    return np.frombuffer(b64decode(figure.data[name]), dtype).reshape(*shape)


# What is packed.


def test_the_lines_are_the_largest_weights_of_torch():
    model = create_model("vit_micro_patch2_8").eval()
    images = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    layers = ("position", *list_blocks(model))
    outputs = capture_outputs(model, layers, lambda _, output: output[0])
    with torch.no_grad(), capture_attention(model) as maps, outputs as tokens:
        model(images)
    attention = torch.stack([each[0].mean(0) for each in maps.values()])
    figure = data_flow(
        (255 * images[0]).to(torch.uint8), torch.stack(list(tokens.values())), attention,
        torch.rand(8, 8), grid_size=(4, 4), patch_size=2, start=(1, 1),
    )  # fmt: skip
    shape = len(attention), 16, LINES
    seen = packed(figure, "seen", "<u2", *shape)
    weights = figure.data["top"] * (packed(figure, "weights", np.uint8, *shape) / 255) ** 2
    wanted = attention[:, 1:].sort(descending=True).values[..., :LINES].numpy()
    exact = np.take_along_axis(attention[:, 1:].numpy(), seen.astype(int), -1)
    np.testing.assert_allclose(exact, wanted, rtol=1e-6)
    assert np.abs(weights - wanted).max() < 0.005 * figure.data["top"]
    assert np.abs(weights.sum(-1) - wanted.sum(-1)).max() < 0.01 and (weights.sum(-1) < 1.01).all()


def test_like_tokens_have_like_colours_in_every_layer():
    tokens = torch.randn(5, 25, 16, generator=torch.Generator().manual_seed(0))
    tokens[:, 1:13, 0] += 8
    tokens[:, 7] = tokens[:, 9]
    colors = layer_colors(tokens, 1).astype(int)
    assert (colors[:, 7] == colors[:, 9]).all() and colors.shape == (5, 25, 3)
    between = np.abs(colors[:, 1:13].mean(1) - colors[:, 13:].mean(1)).sum(-1)
    assert (between > 60).all(), "two groups of tokens have two colours"


def test_what_does_not_change_keeps_its_colour_from_layer_to_layer():
    tokens, axis = torch.randn(26, 16, generator=torch.Generator().manual_seed(0)).split([25, 1])
    axis = axis - axis.mean()
    mirror = torch.eye(16) - 2 * axis.T @ axis / axis.square().sum()  # a LayerNorm lets it pass
    colors = layer_colors(torch.stack([tokens, tokens @ mirror]), 0).astype(int)
    assert np.abs(colors[0] - colors[1]).max() <= 1


def test_the_page_gets_the_answer_by_patch():
    flow, means = sample(), given()["answer"].reshape(4, 4, 6, 4).mean((1, 3)).numpy().ravel()
    assert np.abs(packed(flow, "means", np.uint8, -1) / 255 - means).max() < 0.003
    assert flow.data["photo"].startswith("data:image/jpeg;base64,")


def test_tokens_and_maps_of_another_grid_are_refused():
    for changed in (dict(tokens=torch.randn(4, 24, 20)), dict(attention=np.ones((3, 24, 24)))):
        with pytest.raises(ValueError, match="expected 25 tokens, of 4 x 6 patches and 1 before"):
            data_flow(**given() | changed)


# Its scenes.


def test_patches_fly_from_their_places_to_a_row_and_back(js):
    data = {"grid": [4, 6], "depth": 3, "stops": [1, 2, 3], "prefix": 1, "small": False}
    colors = [[0.0] * 75] * 4
    expression = (
        "(() => { const plan = flowPlan(600, data), at = (step) => flowScene(plan, step, colors);"
        " return [plan, at(0), at(2), flowBetween(at(0), at(2), .5), at(7)]"
        ".map((each) => each.places ? [...each.places] : each); })()"
    )
    plan, grid, row, half, back = js("scenes", expression, data=data, colors=colors)
    grid, row, half = (np.reshape(each, (24, 4)) for each in (grid, row, half))
    assert np.allclose(np.diff(row[:, 0]), plan["unit"], atol=1e-3) and np.ptp(row[:, 1]) == 0
    assert row[-1, 0] + row[-1, 2] == pytest.approx(600, abs=0.01)
    assert np.allclose(back, grid.ravel())
    assert len(np.unique(grid[:, :2].round(3), axis=0)) == 24
    # The first are there while the last have hardly left.
    done = 1 - np.abs(half - row).sum(1) / np.abs(grid - row).sum(1)
    assert done[0] > 0.95 and done[-1] < 0.15
    for places in (grid, row, half):
        assert places[:, :2].min() >= 0 and (places[:, 1] + places[:, 3]).max() <= plan["height"]


# The same of a photograph of its reader, in Node.


def test_the_nearest_rotation_is_that_of_the_singular_vectors(js):
    for seed in range(4):
        matrix = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed)).double()
        left, _, right = torch.linalg.svd(matrix)
        given = js("look", "nearestRotation(m)", m=matrix)
        np.testing.assert_allclose(given, left @ right, atol=1e-9)
    assert js("look", "nearestRotation([[0, 0, 0], [0, 0, 0], [0, 0, 0]])") == np.eye(3).tolist()


def test_the_colours_are_those_of_python(js):
    generator = torch.Generator().manual_seed(0)
    spread = torch.tensor([9.0, 5.0, 2.5])
    tokens = torch.stack([
        (torch.randn(37, 3, generator=generator) * spread) @ torch.randn(3, 16, generator=generator)
        for _ in range(4)
    ])  # fmt: skip
    wanted = layer_colors(tokens, 1)
    given = js("look", "[...layerColors(t.map((l) => Float32Array.from(l)), 16, 1)]",
        t=tokens.flatten(1),
    )  # fmt: skip
    apart = np.abs(np.reshape(given, wanted.shape)[:, 1:].astype(int) - wanted[:, 1:])
    assert (apart <= 2).mean() > 0.99, "power iteration and a decomposition find the same"


def test_the_lines_are_those_of_python(js):
    maps = torch.rand(2, 3, 10, 10, generator=torch.Generator().manual_seed(0))
    seen, weights = strongest(maps.mean(1)[:, 1:].numpy(), 4)
    given = js(
        "look",
        "(({ seen, weights }) => ({ seen: [...seen], weights }))"
        "(strongest(maps.map((m) => ({ dims: [1, 3, 10, 10], data: m.flat(2) })), 1, 4))",
        maps=maps,
    )
    assert given["seen"] == seen.ravel().tolist()
    np.testing.assert_allclose(given["weights"], weights.ravel(), rtol=1e-6)


# A reader.


def test_a_mouse_walks_from_the_photograph_to_the_answer(page):
    flowing = given()
    assert state(page) == at(0) and "16 × 24 pixels of 3 numbers" in said(page)
    words = ["4 × 6 = 24 patches of 4 × 4 × 3 = 48 numbers", "row 2, column 3, is number 9 of 24",
             "One matrix makes 20 numbers of each patch’s 48", "Layer 1 mixes", "Layer 2 mixes",
             "Layer 3 mixes", "become 16 × 24 numbers, bright where"]  # fmt: skip
    for step, told in enumerate(words, 1):
        go(page, "next")
        assert state(page) == at(step) and told in said(page)
        if told == "Layer 3 mixes":
            row = flowing["attention"][2, 9]
            looks = page.evaluate("document.querySelector('.vitbook-figure').looks")
            assert [token for token, _ in looks] == np.argsort(-row, kind="stable")[:LINES].tolist()
            top = np.sort(row)[::-1][:LINES].sum()
            assert f"carry {100 * top:.0f}"[:7] in said(page)
            assert page.locator(".vb-flow-look").count() == LINES
    rest(page)
    mean = flowing["answer"].reshape(4, 4, 6, 4).mean((1, 3)).ravel()[8]
    assert f"The framed patch: {mean:.2f}" in said(page)
    go(page, "next")  # once more
    assert state(page) == at(0)
    go(page, "back")
    assert state(page) == at(0)


def test_the_followed_patch_is_chosen_in_the_grid_and_in_the_row(page):
    stage = page.locator(".vb-flow").bounding_box()
    main = page.locator(".vb-flow-main").bounding_box()
    page.mouse.click(main["x"] + main["width"] - 4, main["y"] + 4)
    assert state(page) == at(0, 5)
    page.mouse.click(stage["x"] + 3, stage["y"] + 3)  # beside the photograph
    assert state(page) == at(0, 5)
    go(page, "next", 4)
    rest(page)
    page.mouse.click(stage["x"] + stage["width"] - 3, stage["y"] + stage["height"] - 30)
    assert state(page) == at(4, PATCHES - 1)
    # Its frame is where the patch is, in every step.
    go(page, "back", 4)
    rest(page)
    ring = page.locator(".vb-flow > .vb-asked").first.bounding_box()
    assert ring["x"] + ring["width"] == pytest.approx(main["x"] + main["width"], abs=1)
    assert ring["y"] + ring["height"] == pytest.approx(main["y"] + main["height"], abs=1)


def test_it_plays_once_and_stops_by_itself_or_at_any_other_control(show):
    page = show(sample())
    page.clock.install()
    go(page, "play")
    assert state(page) == at(0, playing="true")
    page.clock.run_for(3500)
    assert state(page) == at(1, playing="true")
    go(page, "next")
    assert state(page) == at(2)
    page.clock.run_for(20_000)
    assert state(page) == at(2)
    go(page, "play")
    page.clock.run_for(40_000)
    assert state(page) == at(LAST) and page.locator("[data-control=play]").inner_text() == "Play"
    go(page, "play")  # from the start
    assert state(page) == at(0, playing="true")


def test_with_reduced_motion_nothing_flies(show):
    page = show(sample(), reduced_motion="reduce")
    page.add_init_script(COUNT_FRAMES)
    page.reload()
    page.wait_for_function("document.querySelector('.vitbook-figure').dataset.ready")
    for step in (1, 2, 3, 4):
        go(page, "next")
        assert state(page) == at(step)
        assert page.evaluate("document.querySelector('.vitbook-figure').moving") is False
    assert page.evaluate("window.frames_") == 0


def test_the_small_form_is_less_tall_and_has_no_slider(show):
    heights = []
    for small in (False, True):
        page = show(data_flow(**given(), small=small))
        heights.append(page.locator(".vb-flow").bounding_box()["height"])
    assert heights[1] < 0.8 * heights[0]
    assert page.locator("[data-control=layer]").count() == 0
    go(page, "next", 5)
    assert state(page) == at(5)


def test_a_photograph_without_class_token_flows_too(show):
    flowing = given()
    bare = flowing | dict(
        tokens=flowing["tokens"][:, 1:], attention=flowing["attention"][:, 1:, 1:]
    )
    page = show(data_flow(**bare, num_prefix_tokens=0))
    go(page, "next", 3)
    assert "Each gets its position added: 24 × 20" in said(page)
    go(page, "next", 1)
    assert "the class token" not in said(page)


# An answer of names, and layers that are passed by.

NAMED = {"answer": {"Egyptian cat": 0.75, "tabby": 0.2, "goldfish": 0.0004}, "stops": (1, 3),
         "meaning": "A linear layer reads the tokens."}  # fmt: skip


@pytest.mark.parametrize("width", [720, 350])
def test_it_stops_at_the_layers_asked_for_and_ends_in_a_name(show, width):
    page = show(data_flow(**given() | NAMED, small=True), width=width)
    told = []
    for _ in range(6):
        go(page, "next")
        told.append(said(page))
    assert ["Layer 1 mixes" in told[3], "Layer 3 mixes" in told[4]] == [True, True]
    assert told[5] == "A linear layer reads the tokens. Most goes to Egyptian cat: 75.0 %."
    rest(page)
    stage = page.locator(".vb-flow").bounding_box()
    names = [page.locator(".vb-flow-names .vb-class").nth(i) for i in range(3)]
    assert [each.inner_text().split("\n")[-1] for each in names] == ["0.75", "0.20", "0.00"]
    ring = page.locator(".vb-flow > .vb-asked").first.bounding_box()
    for each in names:
        box = each.bounding_box()
        assert box["x"] >= stage["x"] and box["x"] + box["width"] <= stage["x"] + stage["width"] + 1
        assert box["y"] + box["height"] <= stage["y"] + stage["height"] + 1
        apart = box["x"] > ring["x"] + ring["width"] or box["y"] > ring["y"] + ring["height"]
        assert apart, "the names lie beside the photograph, or under it"
    page.mouse.click(ring["x"] + 2, ring["y"] - 4)  # the patch above, where it now lies
    assert state(page) == at(6, 2)
    go(page, "next")
    assert state(page) == at(0, 2)


@pytest.mark.parametrize("stops", [(0, 1), (2, 1), (1, 1), (1, 4)])
def test_stops_that_are_no_layers_in_turn_are_refused(stops):
    with pytest.raises(ValueError, match="expected layers from 1 to 3, each later"):
        data_flow(**given(), stops=stops)


@pytest.mark.parametrize(
    ("given_instead", "words"),
    [
        (dict(answer={}), r"shares \[\]: expected some from 0 to 1, the largest first"),
        (dict(answer={"cat": float("nan")}), "from 0 to 1"),
        (dict(answer={"cat": 97.0}), "from 0 to 1"),
        (dict(answer={"cat": 0.1, "dog": 0.9}), "the largest first"),
        (dict(answer=torch.full((16, 24), torch.nan)), "expected a map from 0 to 1"),
        (dict(answer=255 * torch.ones(16, 24)), "expected a map from 0 to 1"),
        (dict(answer=torch.rand(5, 5)), r"shape \(5, 5\): expected \(height, width\)"),
        (dict(answer=torch.rand(16)), r"shape \(16,\): expected \(height, width\)"),
        (dict(start=(4, 0)), r"patch \(4, 0\): the grid has 4 rows and 6 columns"),
        (dict(start=(-1, 0)), "counted from 0"),
        (dict(attention=torch.full((3, 25, 25), torch.nan)), "expected weights"),
        (dict(attention=torch.zeros(3, 25, 25)), "expected weights"),
    ],
)
def test_what_cannot_be_walked_is_said(given_instead, words):
    with pytest.raises(ValueError, match=words):
        data_flow(**given() | given_instead)


def test_shares_come_as_numbers_of_any_kind():
    shares = {"cat": torch.tensor(0.5), "dog": np.float32(0.25), 3: 0}
    figure = data_flow(**given() | {"answer": shares})
    assert figure.data["names"] == [["cat", 0.5], ["dog", 0.25], ["3", 0]]
    assert figure._repr_html_()


def test_a_long_name_keeps_its_line(show):
    long = "a beetle that few have seen and " + 28 * "Y"
    figure = data_flow(**given() | {"answer": {long: 0.75, long[1:]: 0.25}})
    page = show(figure, width=350)
    go(page, "next", LAST)
    rest(page)
    names = [page.locator(".vb-flow-names .vb-class").nth(i) for i in range(2)]
    first, second = (each.bounding_box() for each in names)
    assert first["y"] + first["height"] <= second["y"] + 1
    assert names[0].locator("span").first.bounding_box()["height"] < 30, "one line"
    assert said(page).startswith("A classifier reads the last tokens. Most goes to a beetle that")
    assert f"{long[:17]}…: 75%" in figure.still and long not in figure.still
