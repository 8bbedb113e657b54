"""The model in the page computes what torch computes; its pad draws, erases and names who erred."""

import numpy as np
import pytest
import torch
from drawn_digits import DIGITS, placed
from reading import computed, pick, press, reached, said, state
from small_inputs import digits, digits_model

import vitbook
from vitbook import create_model, datasets
from vitbook.analysis import capture_attention
from vitbook.figures import digit_reader
from vitbook.figures.digit_reader import _weights, forward

LABELS = torch.tensor([1, 2, 3])


def rounded():
    """A model with the float16 weights that the page holds."""
    model = digits_model()
    halves = {name: value.half().float() for name, value in model.state_dict().items()}
    model.load_state_dict(halves)
    return model


def sample():
    return digit_reader(digits_model(), (digits(), LABELS))


def expected(image):
    model = rounded()
    with torch.no_grad(), capture_attention(model) as maps:
        logits = model(image[None].float() / 127.5 - 1)
    return logits[0], torch.cat(list(maps.values()))


def test_logits_and_attention_equal_torch(page):
    for i, image in enumerate(digits()):
        pick(page, "example", i)
        logits, maps = (torch.tensor(computed(page, name)) for name in ("logits", "maps"))
        true_logits, true_maps = expected(image)
        assert maps.shape == true_maps.shape == (4, 4, 17, 17)
        assert true_maps.max() > 0.2, "attention that is nearly uniform proves little"
        torch.testing.assert_close(logits, true_logits, atol=2e-3, rtol=0)
        torch.testing.assert_close(maps, true_maps, atol=2e-4, rtol=0)


def test_the_caption_is_computed_alike():
    logits, maps = forward(_weights(rounded()), 4, digits())
    true_logits, true_maps = expected(digits()[0])
    torch.testing.assert_close(logits[0], true_logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(maps[:, 0], true_maps, atol=1e-5, rtol=0)


def test_mistakes_are_named(show):
    with torch.no_grad():
        read = digits_model()(digits().float() / 127.5 - 1).argmax(-1)
    figure = digit_reader(digits_model(), (digits(), (read + torch.tensor([0, 1, 0])) % 10))
    page = show(figure)
    assert "mistake" not in said(page)
    pick(page, "example", 1)
    assert "a mistake" in said(page)


def test_other_architectures_are_refused():
    with pytest.raises(ValueError, match="does not know Linear: .* pass vit_micro_patch2_8"):
        digit_reader(torch.nn.Linear(2, 2), (digits(), LABELS))
    with pytest.raises(ValueError, match="3 channels, expected one of each"):
        digit_reader(create_model("vit_micro_patch2_8", channels=3), (digits(), LABELS))
    with pytest.raises(ValueError, match="examples came as 8 x 6, expected 16 patches"):
        digit_reader(digits_model(), (digits()[..., :6], LABELS))


# The pad.


@pytest.fixture(scope="module")
def trained():
    """The pad of the book, with two examples."""
    held_out = datasets.load("digits", "test")
    model = vitbook.load_checkpoint("drawn_digits-vit_micro_patch2_8-seed0-eed9b4ba").model
    return digit_reader(model, (held_out.images[[4, 11]], held_out.labels[[4, 11]]))


def pixels(page):
    """What the model sees, as levels from 0 to 16."""
    return np.array(computed(page, "pixels")).reshape(8, 8) / 16


def on_pad(page, strokes):
    box = page.locator(".vb-pad").bounding_box()
    return [[(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
            for stroke in strokes]  # fmt: skip


def draw(page, strokes):
    for first, *others in on_pad(page, strokes):
        page.mouse.move(*first)
        page.mouse.down()
        for place in others:
            page.mouse.move(*place)
        page.mouse.up()


def test_it_names_what_was_drawn_and_tells_who_was_fooled(show, trained):
    page = show(trained)
    truth = trained.data["examples"][0]["label"]
    assert f"its writer meant {truth}: read right." in said(page)
    pick(page, "meant", (truth + 1) % 10)
    assert f"its writer meant {truth}, not {(truth + 1) % 10}: read right." in said(page)
    assert not reached(page)
    for digit in (0, 2, 5):
        page.click("[data-control=clear]")
        draw(page, placed(DIGITS[digit], 0.4, 0.55, 0.57))
        assert f"The model reads {digit} with" in said(page)
    page.click("[data-control=reset]")
    draw(page, DIGITS[3])
    assert "Which digit was meant?" in said(page) and not reached(page)
    pick(page, "meant", 3)
    assert "3 was meant: read right." in said(page) and not reached(page)
    pick(page, "meant", 8)
    assert "8 was meant" in said(page) and "the model is fooled" in said(page) and reached(page)
    page.click("[data-control=clear]")
    assert "The pad is empty" in said(page) and not reached(page)
    pick(page, "meant", 1)
    assert not reached(page), "nothing was drawn, so nobody is fooled"


def test_the_first_stroke_does_not_land_on_the_digit_that_is_shown(page):
    assert (pixels(page) > 0).sum() > 40
    draw(page, [[(0.2, 0.2), (0.2, 0.8)]])
    first = pixels(page)
    assert (first[:, [0, 1, 6, 7]] == 0).all() and first[1:7, 3:5].min() > 5
    draw(page, [[(0.8, 0.2), (0.8, 0.8)]])
    second = pixels(page)
    assert second[:, 3:5].max() == 0 and second[3, 1] > 5 and second[3, 6] > 5
    assert "writer" not in said(page)


def test_the_eraser_takes_a_stroke_back(page):
    page.click("[data-control=clear]")
    draw(page, [[(0.2, 0.1), (0.2, 0.9)]])
    one = pixels(page)
    draw(page, [[(0.7, 0.4), (0.7, 0.6)]])
    assert not np.array_equal(pixels(page), one)
    page.click("[data-control=erase]")
    draw(page, [[(0.7, 0.3), (0.7, 0.7)]])
    assert np.array_equal(pixels(page), one)
    draw(page, [[(0.1, y), (0.3, y)] for y in (0.45, 0.55)])
    assert pixels(page)[3:5].max() < one.max(), "a gap in the middle"
    page.click("[data-control=erase]")


def test_the_eraser_rubs_pixels_out_of_an_example(page):
    page.click("[data-control=erase]")
    draw(page, [[(0.5, 0.03), (0.03, 0.03)]])
    left = pixels(page)
    assert (left[0, :5] == 0).all()
    assert np.array_equal(left[1:] * 16, np.rint(digits()[0, 0, 1:].numpy()))
    assert "example=none" in state(page)
    page.click("[data-control=erase]")


def test_the_keys_draw_and_erase(show, trained):
    page = show(trained)
    page.click("[data-control=clear]")
    press(page, "pad", *["ArrowRight"] * 4)
    assert pixels(page).max() == 0, "the pen is still up"
    page.keyboard.press("Space")
    assert "The pen is down." in said(page)
    for _ in range(7):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert "The model reads 1 with" in said(page) and "pen" not in said(page)
    line = pixels(page)
    page.keyboard.press("ArrowLeft")
    assert np.array_equal(pixels(page), line), "the pen is up again"
    page.locator("[data-control=erase]").press("Space")
    press(page, "pad", "ArrowRight", "Enter", *["ArrowUp"] * 7)
    assert "The pad is empty" in said(page)


def test_no_digit_gets_no_class(page):
    two = [*placed(DIGITS[1], 0.4, 0.05, 0.3), *placed(DIGITS[7], 0.4, 0.5, 0.3)]
    for strokes in ([], [[(0.1, 0.5), (0.9, 0.5)]], two):
        page.click("[data-control=clear]")
        draw(page, strokes)
        assert "The model reads" not in said(page)
        assert page.locator(".vb-class:visible").count() == 0 and computed(page, "logits") == []
        pick(page, "meant", 1)
        assert not reached(page), "nobody is fooled"
    page.click("[data-control=clear]")
    draw(page, [[(0.5, 0.1), (0.5, 0.9)]])
    assert "The model reads" in said(page) and page.locator(".vb-class:visible").count() == 10


def test_leaving_the_pad_lifts_the_pen(page):
    press(page, "pad", "Space", "Tab")
    assert "pen" not in said(page)
    before = pixels(page)
    press(page, "pad", "ArrowDown")
    assert np.array_equal(pixels(page), before)


@pytest.mark.parametrize(
    "text",
    ["ink=A", "ink=", "example=3", "example=-1", "meant=12", "pixels=AAA", f"pixels={'z' * 64}",
     "ink=AAA&look=99", "x=1", f"ink={'AAA' * 601}"],
)  # fmt: skip
def test_a_bad_link_is_left_out_with_a_sentence(page, text):
    before = state(page)
    page.evaluate("(to) => (location.hash = to)", f"#drawing?{text}")
    page.wait_for_function("document.querySelector('.vb-readout').innerText.includes('link')")
    assert said(page).startswith("The link's drawing could not be read, so it was left out.")
    assert state(page) == before
    page.click("[data-control=clear]")
    assert "link" not in said(page), "it is said once"


def test_a_pad_that_is_full_says_so(page):
    page.evaluate("(to) => (location.hash = to)", "#drawing?ink=" + ".".join(["AAA"] * 600))
    page.wait_for_function("document.querySelector('.vb-link').hash.length > 2000")
    draw(page, [[(0.5, 0.5), (0.9, 0.9)]])
    assert "A link holds 600 points" in said(page)
