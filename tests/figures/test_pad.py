"""The pad in a page: mouse, finger and keys draw and erase; it names who was fooled; links."""

import numpy as np
import pytest
from drawn_digits import DIGITS, placed

import vitbook
from vitbook import datasets
from vitbook.figures import digit_reader

FIGURE = ".vitbook-figure"


@pytest.fixture(scope="module")
def trained():
    """The pad of the book, with two examples."""
    held_out = datasets.load("digits", "test")
    model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
    return digit_reader(model, (held_out.images[[4, 11]], held_out.labels[[4, 11]]))


def pixels(page):
    """What the model sees, as levels from 0 to 16."""
    return np.array(page.evaluate(f"document.querySelector('{FIGURE}').pixels")).reshape(8, 8) / 16


def words(page):
    return page.locator(".vb-readout").inner_text()


def reached(page):
    return page.locator(FIGURE).get_attribute("data-reached") == "true"


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


def mean(page, digit):
    page.locator("[data-control=meant] button").nth(digit).click()


def test_it_names_what_was_drawn_small_in_a_corner(show, trained):
    page = show(trained)
    for digit in (0, 2, 5, 7):
        page.click("[data-control=clear]")
        draw(page, placed(DIGITS[digit], 0.4, 0.55, 0.57))
        assert f"The model reads {digit} with" in words(page)
        assert "Which digit was meant?" in words(page) and not reached(page)


def test_it_tells_who_was_fooled(show, trained):
    page = show(trained)
    draw(page, DIGITS[3])
    mean(page, 3)
    assert "3 was meant: read right." in words(page) and not reached(page)
    mean(page, 8)
    assert "8 was meant" in words(page) and "the model is fooled" in words(page) and reached(page)
    page.click("[data-control=clear]")
    assert "The pad is empty" in words(page) and not reached(page)
    mean(page, 0)
    mean(page, 1)
    assert not reached(page), "nothing was drawn, so nobody is fooled"


def test_an_example_has_its_writer(show, trained):
    page = show(trained)
    truth = trained.data["examples"][0]["label"]
    assert f"its writer meant {truth}: read right." in words(page)
    mean(page, (truth + 1) % 10)
    assert f"its writer meant {truth}, not {(truth + 1) % 10}: read right." in words(page)
    assert not reached(page)


def test_the_first_stroke_does_not_land_on_the_digit_that_is_shown(show, reader):
    page = show(reader)
    assert (pixels(page) > 0).sum() > 40
    draw(page, [[(0.2, 0.2), (0.2, 0.8)]])
    first = pixels(page)
    assert (first[:, [0, 1, 6, 7]] == 0).all() and first[:, 3:5].min() > 5
    draw(page, [[(0.8, 0.2), (0.8, 0.8)]])
    second = pixels(page)
    assert second[:, 2:6].max() == 0 and second[3, 0] > 5 and second[3, 7] > 5
    assert "writer" not in words(page)


def test_the_eraser_takes_a_stroke_back(show, reader):
    page = show(reader)
    page.click("[data-control=clear]")
    draw(page, [[(0.2, 0.1), (0.2, 0.9)]])
    one = pixels(page)
    draw(page, [[(0.7, 0.4), (0.7, 0.6)]])
    assert not np.array_equal(pixels(page), one)
    page.click("[data-control=erase]")
    draw(page, [[(0.7, 0.3), (0.7, 0.7)]])
    assert np.array_equal(pixels(page), one)
    draw(page, [[(0.1, 0.5), (0.3, 0.5)]])
    assert pixels(page)[3:5].max() < one.max(), "a gap in the middle"
    page.click("[data-control=erase]")
    draw(page, [[(0.2, 0.1), (0.2, 0.9)]])
    assert np.array_equal(pixels(page), one)


def test_the_eraser_rubs_pixels_out_of_an_example(show, reader, images):
    page = show(reader)
    page.click("[data-control=erase]")
    draw(page, [[(0.5, 0.03), (0.03, 0.03)]])
    left = pixels(page)
    assert (left[0, :5] == 0).all()
    assert np.array_equal(left[1:] * 16, np.rint(images[0, 0, 1:].numpy()))
    assert "example=none" in page.locator(FIGURE).get_attribute("data-state")


def test_a_finger_draws_and_beside_the_pad_it_scrolls(touched, trained):
    page, finger = touched(trained)
    page.locator(".vb-pad").scroll_into_view_if_needed()
    top = page.evaluate("scrollY")
    finger(*on_pad(page, DIGITS[0])[0])
    assert "The model reads 0 with" in words(page) and page.evaluate("scrollY") == top
    box = page.locator(".vb-pad").bounding_box()
    finger((380, box["y"] + 90), (380, box["y"] + 40), (380, box["y"]))
    assert page.evaluate("scrollY") > top + 40
    assert "The model reads 0 with" in words(page)
    page.click("[data-control=erase]")
    top = page.evaluate("scrollY")
    finger(*on_pad(page, DIGITS[0])[0])
    assert "The pad is empty" in words(page) and page.evaluate("scrollY") == top


def test_the_keys_draw_and_erase(show, trained):
    page = show(trained)
    page.click("[data-control=clear]")
    page.locator("[data-control=pad] [tabindex='0']").focus()
    for key in ["ArrowRight"] * 4:
        page.keyboard.press(key)
    assert pixels(page).max() == 0, "the pen is still up"
    page.keyboard.press("Space")
    for key in ["ArrowDown"] * 7:
        page.keyboard.press(key)
        assert "The pen is down." in words(page)
    page.keyboard.press("Space")
    assert "The model reads 1 with" in words(page) and "pen" not in words(page)
    line = pixels(page)
    page.keyboard.press("ArrowLeft")
    assert np.array_equal(pixels(page), line), "the pen is up again"
    pressed = page.locator("[data-control=pad] [aria-pressed=true]").count()
    assert pressed == 8
    page.locator("[data-control=erase]").press("Space")
    page.locator("[data-control=pad] [tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    for key in ["ArrowUp"] * 7:
        page.keyboard.press(key)
    assert "The pad is empty" in words(page)


def test_leaving_the_pad_lifts_the_pen(show, reader):
    page = show(reader)
    page.locator("[data-control=pad] [tabindex='0']").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    assert "pen" not in words(page)
    page.keyboard.press("Shift+Tab")
    before = pixels(page)
    page.keyboard.press("ArrowDown")
    assert np.array_equal(pixels(page), before)


def test_a_link_brings_back_drawing_and_verdict(show, trained, come_back_by_link):
    page = show(trained)
    draw(page, DIGITS[3])
    mean(page, 8)
    page.select_option("[data-control=look]", "1 2")
    link, seen = page.locator(".vb-link").get_attribute("href"), pixels(page)
    assert link.startswith("#drawing?ink=") and link.endswith("&meant=8&look=8")
    assert len(link) < 250
    come_back_by_link(page, link)
    assert np.array_equal(pixels(page), seen) and reached(page)


def test_a_link_brings_back_an_example_and_what_was_rubbed_out(show, trained, come_back_by_link):
    page = show(trained)
    page.locator("[data-control=example] button").nth(1).click()
    come_back_by_link(page, page.locator(".vb-link").get_attribute("href"))
    page.click("[data-control=erase]")
    draw(page, [[(0.2, 0.1), (0.8, 0.1)]])
    page.click("[data-control=erase]")
    link = page.locator(".vb-link").get_attribute("href")
    assert link.startswith("#drawing?pixels=")
    come_back_by_link(page, link)


@pytest.mark.parametrize(
    "text",
    ["ink=AA", "ink=AAA&example=0", "ink=!!!", "ink=", "example=2", "example=-1", "meant=12",
     "pixels=AAA", f"pixels={'z' * 64}", "ink=AAA&look=99", "x=1", f"ink={'AAA' * 601}"],
)  # fmt: skip
def test_a_bad_link_is_left_out_with_a_sentence(show, trained, text):
    page = show(trained)
    before = page.locator(FIGURE).get_attribute("data-state")
    page.evaluate("(to) => (location.hash = to)", f"#drawing?{text}")
    page.wait_for_function("document.querySelector('.vb-readout').innerText.includes('link')")
    assert words(page).startswith("The link's drawing could not be read, so it was left out.")
    assert page.locator(FIGURE).get_attribute("data-state") == before
    page.click("[data-control=clear]")
    assert "link" not in words(page), "it is said once"


def test_a_pad_that_is_full_says_so(show, reader):
    page = show(reader)
    page.evaluate("(to) => (location.hash = to)", "#drawing?ink=" + ".".join(["AAA"] * 600))
    page.wait_for_function("document.querySelector('.vb-link').hash.length > 2000")
    draw(page, [[(0.5, 0.5), (0.9, 0.9)]])
    assert "A link holds 600 points" in words(page)
