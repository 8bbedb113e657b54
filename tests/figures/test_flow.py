"""The data flow: what is packed against torch, its scenes in Node, and readers who walk it."""

from base64 import b64decode

import numpy as np
import pytest
import torch

from vitbook import create_model
from vitbook.analysis import capture_attention
from vitbook.analysis.capture.outputs import capture_outputs, list_blocks
from vitbook.figures import data_flow
from vitbook.figures.data_flow import LINES
from vitbook.figures.data_flow.colors import layer_colors

DEPTH, PATCHES, LAST = 3, 24, 7  # of the fixture: steps 0 to 3, three layers, the answer

COUNT_FRAMES = """window.frames_ = 0;
const ask = requestAnimationFrame;
window.requestAnimationFrame = (draw) => (window.frames_++, ask(draw));"""
CLIPPED = """(stage) => [...stage.querySelectorAll(".vb-label")]
  .filter((label) => label.scrollWidth > label.clientWidth + 1).map((label) => label.textContent)"""


def state(page):
    return page.locator(".vitbook-figure").get_attribute("data-state")


def at(step, patch=8, playing="false"):
    return f"step={step} patch={patch} playing={playing}"


def rest(page):
    """Wait until nothing moves."""
    page.wait_for_function("document.querySelector('.vitbook-figure').moving === false")


def press(page, control, times=1):
    for _ in range(times):
        page.click(f"[data-control={control}]")


def said(page):
    return page.locator(".vb-readout").inner_text()


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


def test_the_page_gets_the_answer_by_patch(flowing, flow):
    means = flowing["answer"].reshape(4, 4, 6, 4).mean((1, 3)).numpy().ravel()
    assert np.abs(packed(flow, "means", np.uint8, -1) / 255 - means).max() < 0.003
    assert flow.data["photo"].startswith("data:image/jpeg;base64,")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(tokens=torch.randn(4, 24, 20)), r"tokens of shape .4, 24, 20.: expected .*25, width"),
        (dict(attention=np.ones((3, 24, 24))), r"attention of shape .3, 24, 24.: expected .3, 25"),
        (dict(attention=np.full((3, 25, 25), np.nan)), "attention has no weights from 0 to 1"),
        (dict(tokens=torch.full((4, 25, 20), torch.nan)), "tokens hold NaN or infinity"),
        (dict(photograph=torch.zeros(3, 32, 32, dtype=torch.uint8)), "does not have the proportio"),
        (dict(photograph=torch.zeros(3, 32, 48)), "images came as float32"),
        (dict(answer=torch.rand(15, 24)), "each patch whole"),
        (dict(answer=2 * torch.ones(16, 24)), "an answer from 2 to 2: expected 0 to 1"),
        (dict(start=(4, 0)), "start .4, 0.: expected a patch of a grid of 4 x 6"),
        (dict(grid_size=(40, 40)), "1,600 patches, a stage holds 1,024"),
    ],
)
def test_bad_input_gets_one_sentence(flowing, changed, words):
    with pytest.raises(ValueError, match=words):
        data_flow(**flowing | changed)


# Its scenes.


def test_patches_fly_from_their_places_to_a_row_and_back(js):
    data = {"grid": [4, 6], "depth": 3, "prefix": 1, "small": False}
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


# A reader.


def test_a_mouse_walks_from_the_photograph_to_the_answer(show, flow, flowing):
    page = show(flow)
    assert state(page) == at(0) and "16 × 24 pixels of 3 numbers" in said(page)
    words = ["4 × 6 = 24 patches of 4 × 4 × 3 = 48 numbers", "row 2, column 3, is number 9 of 24",
             "One matrix makes 20 numbers of each patch’s 48", "Layer 1 of 3", "Layer 2 of 3",
             "Layer 3 of 3", "become 16 × 24 numbers, bright where"]  # fmt: skip
    for step, told in enumerate(words, 1):
        press(page, "next")
        assert state(page) == at(step) and told in said(page)
        if told == "Layer 3 of 3":
            row = flowing["attention"][2, 9]
            looks = page.evaluate("document.querySelector('.vitbook-figure').looks")
            assert [token for token, _ in looks] == np.argsort(-row, kind="stable")[:LINES].tolist()
            top = np.sort(row)[::-1][:LINES].sum()
            assert f"carry {100 * top:.0f}"[:7] in said(page)
            assert page.locator(".vb-flow-look").count() == LINES
    rest(page)
    mean = flowing["answer"].reshape(4, 4, 6, 4).mean((1, 3)).ravel()[8]
    assert f"The framed patch: {mean:.2f}" in said(page)
    press(page, "next")  # once more
    assert state(page) == at(0)
    press(page, "back")
    assert state(page) == at(0)


def test_the_followed_patch_is_chosen_in_the_grid_and_in_the_row(show, flow):
    page = show(flow)
    stage = page.locator(".vb-flow").bounding_box()
    main = page.locator(".vb-flow-main").bounding_box()
    page.mouse.click(main["x"] + main["width"] - 4, main["y"] + 4)
    assert state(page) == at(0, 5)
    page.mouse.click(stage["x"] + 3, stage["y"] + 3)  # beside the photograph
    assert state(page) == at(0, 5)
    press(page, "next", 4)
    rest(page)
    page.mouse.click(stage["x"] + stage["width"] - 3, stage["y"] + stage["height"] - 30)
    assert state(page) == at(4, PATCHES - 1)
    # Its frame is where the patch is, in every step.
    press(page, "back", 4)
    rest(page)
    ring = page.locator(".vb-flow > .vb-asked").first.bounding_box()
    assert ring["x"] + ring["width"] == pytest.approx(main["x"] + main["width"], abs=1)
    assert ring["y"] + ring["height"] == pytest.approx(main["y"] + main["height"], abs=1)


def test_keys_walk_the_steps_and_the_patch(show, flow):
    page = show(flow)
    page.locator("[data-control=next]").focus()
    for key, step in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1), ("Enter", 2)):
        page.keyboard.press(key)
        assert state(page) == at(step)
    page.locator("[data-control=patch]").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    assert state(page) == at(2, 21)
    page.locator("[data-control=phase] [aria-checked=true]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert state(page) == at(LAST, 21)
    page.locator("[data-control=layer]").fill("2")
    assert state(page) == at(5, 21)
    press(page, "reset")
    assert state(page) == at(0)


def test_it_plays_once_and_stops_by_itself_or_at_any_other_control(show, flow):
    page = show(flow)
    page.clock.install()
    press(page, "play")
    assert state(page) == at(0, playing="true")
    page.clock.run_for(3500)
    assert state(page) == at(1, playing="true")
    press(page, "next")
    assert state(page) == at(2)
    page.clock.run_for(20_000)
    assert state(page) == at(2)
    press(page, "play")
    page.clock.run_for(40_000)
    assert state(page) == at(LAST) and page.locator("[data-control=play]").inner_text() == "Play"
    press(page, "play")  # from the start
    assert state(page) == at(0, playing="true")


def test_a_finger_taps_a_patch_and_the_page_still_scrolls(touched, flow):
    page, finger = touched(flow)
    main = page.locator(".vb-flow-main").bounding_box()
    page.touchscreen.tap(main["x"] + 4, main["y"] + main["height"] - 4)
    assert state(page) == at(0, 18)
    page.locator("[data-control=next]").tap()
    assert state(page) == at(1, 18)
    x, y = main["x"] + main["width"] * 0.75, main["y"] + 20
    finger((x, y), (x, y - 40), (x, y - 120))
    assert page.evaluate("scrollY") > 50 and state(page) == at(1, 18)


def test_with_reduced_motion_nothing_flies(browser, flow, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(f'<!doctype html><meta charset="utf-8"><body>{flow._repr_html_()}')
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.add_init_script(COUNT_FRAMES)
    page.goto(file.as_uri())
    page.wait_for_function("document.querySelector('.vitbook-figure').dataset.ready")
    for step in (1, 2, 3, 4):
        press(page, "next")
        assert state(page) == at(step)
        assert page.evaluate("document.querySelector('.vitbook-figure').moving") is False
    assert page.evaluate("window.frames_") == 0
    context.close()


def test_the_small_form_is_less_tall_and_has_no_slider(show, flowing, flow):
    heights = []
    for figure in (flow, data_flow(**flowing, small=True)):
        page = show(figure)
        heights.append(page.locator(".vb-flow").bounding_box()["height"])
    assert heights[1] < 0.8 * heights[0]
    assert page.locator("[data-control=layer]").count() == 0
    press(page, "next", 5)
    assert state(page) == at(5)


@pytest.mark.parametrize("width", [390, 600, 900])
def test_it_fits_and_follows_a_change_of_width(show, flow, width):
    page = show(flow, width=width)
    press(page, "next", 4)
    rest(page)
    for now in (width, 390, 900):
        page.set_viewport_size({"width": now, "height": 900})
        page.wait_for_timeout(150)
        stage = page.locator(".vb-flow")
        sheet = page.locator(".vb-flow-sheet").bounding_box()
        assert sheet["width"] == pytest.approx(stage.bounding_box()["width"], abs=1)
        assert page.evaluate("document.documentElement.scrollWidth") <= now
        assert stage.evaluate(CLIPPED) == []


def test_a_photograph_without_class_token_flows_too(show, flowing):
    bare = flowing | dict(
        tokens=flowing["tokens"][:, 1:], attention=flowing["attention"][:, 1:, 1:]
    )
    page = show(data_flow(**bare, num_prefix_tokens=0))
    press(page, "next", 3)
    assert "Each gets its position added: 24 × 20" in said(page)
    press(page, "next", 1)
    assert "the class token" not in said(page)
