"""Quarters taken away: the page holds the model's 16 answers, and shows those of what is left."""

import numpy as np
import pytest
import torch
from torch import nn

from vitbook.analysis import quarter_drops
from vitbook.figures import missing_quarters

# By hand: ten times 0.8, 0.6 - 0.8 and 0.4 where all are there; a quarter that is gone has 0.4.
WHOLE, WITHOUT_FIRST, WITHOUT_THIRD = [8, -2, 4], [4, 2, 3], [8, -4, 3.5]
CLASSES = {"bright": 0, "red": 1, "all": 2}


class Gives(nn.Module):
    """The same answer, whatever comes."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, images):
        return self.answer


def scaled(images):
    return images / 255


def quarter(page, number):
    return page.locator("[data-control=removed] button").nth(number)


def numbers(page):
    return page.locator(".vb-logit > :nth-child(3)").all_inner_texts()


def changes(page):
    return page.locator(".vb-logit > :nth-child(4)").all_inner_texts()


def reached(page):
    return page.locator(".vitbook-figure").get_attribute("data-reached") == "true"


def test_all_sixteen_answers_are_the_models(quarters):
    found = np.array(quarters.data["logits"])
    assert found.shape == (16, 3)
    for removed in range(16):
        left = [0.4 if removed >> q & 1 else level for q, level in enumerate((0.8, 0.2, 0.6, 0))]
        expected = [10 * left[0], 10 * (left[2] - left[0]), 10 * np.mean(left)]
        assert found[removed] == pytest.approx(expected, abs=1e-3)
    assert list(found[1]) == WITHOUT_FIRST and list(found[4]) == WITHOUT_THIRD
    assert quarters.data["mean"] == [102, 102, 102]
    assert quarters.data["scale"] == [-4, 8]


def test_a_removed_quarter_costs_what_the_library_says(collage, brightness):
    order = {"all": 2, "bright": 0, "red": 1}
    figure = missing_quarters(brightness, collage, order, normalize=scaled)
    found = np.array(figure.data["logits"])
    asked = torch.tensor([[2, 0, 1, 1]])
    drops = quarter_drops(brightness, scaled(collage[None]), asked)[0, :3]
    assert found[0] - found[[1, 2, 4, 8]] == pytest.approx(drops.numpy().T, abs=2e-3)


def test_the_model_is_left_as_it_came(collage, brightness):
    brightness.train()
    missing_quarters(brightness, collage, CLASSES, normalize=scaled)
    assert brightness.training


def test_the_caption_says_what_each_class_lives_on(quarters, collage):
    assert quarters.description == (
        "Logits when one quarter is taken away: bright falls most without cat (by 4.00), red <hot> "
        "without coffee (by 2.00), all without cat (by 1.00). The largest rise: red <hot> without "
        "cat (by 4.00)."
    )
    blind = Gives(torch.ones(16, 2))
    figure = missing_quarters(blind, collage, {"a": 0, "b": 1}, normalize=scaled)
    assert figure.description == "No single quarter lowers a, b. No logit rises."


def test_a_click_takes_a_quarter_away_and_brings_it_back(show, quarters):
    page = show(quarters)
    assert numbers(page) == ["8.00", "−2.00", "4.00"] and changes(page) == ["", "", ""]
    assert quarter(page, 0).get_attribute("aria-label") == "cat: there"
    assert quarter(page, 0).get_attribute("aria-pressed") == "false"
    quarter(page, 0).click()
    assert numbers(page) == ["4.00", "2.00", "3.00"]
    assert changes(page) == ["−4.00", "+4.00", "−1.00"]
    assert quarter(page, 0).get_attribute("aria-label") == "cat: taken away"
    assert quarter(page, 0).get_attribute("aria-pressed") == "true"
    colour = quarter(page, 0).evaluate("e => getComputedStyle(e).backgroundColor")
    assert colour == "rgb(102, 102, 102)" and quarter(page, 0).inner_text() == "cat"
    said = page.locator(".vb-readout").inner_text()
    assert "Taken away: cat. Largest fall: bright, by 4.00. Largest rise: red <hot>, by" in said
    quarter(page, 0).click()
    assert numbers(page) == ["8.00", "−2.00", "4.00"] and quarter(page, 0).inner_text() == ""


def test_every_combination_shows_its_own_answer(show, quarters):
    page, removed = show(quarters), 0
    for step in range(1, 16):  # a Gray code: one click from each to the next
        bit = (step & -step).bit_length() - 1
        quarter(page, bit).click()
        removed ^= 1 << bit
        shown = page.evaluate("document.querySelector('.vitbook-figure').logits")
        assert shown == quarters.data["logits"][removed]
        pressed = page.locator("[data-control=removed] [aria-pressed=true]").count()
        assert pressed == bin(removed).count("1")


@pytest.mark.parametrize("width", [900, 390])
def test_keys_walk_and_take_away(show, quarters, width):
    page = show(quarters, width=width)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert numbers(page)[1] == "−2.00"  # walking alone takes nothing
    page.keyboard.press("Enter")
    assert numbers(page) == ["8.00", "−4.00", "3.50"]
    assert page.evaluate("document.activeElement.ariaLabel") == "coffee: taken away"
    page.keyboard.press("Space")
    assert numbers(page) == ["8.00", "−2.00", "4.00"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_finger_taps(browser, quarters, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(f'<!doctype html><meta charset="utf-8"><body>{quarters._repr_html_()}')
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_function("document.querySelector('.vitbook-figure').dataset.ready")
    quarter(page, 2).tap()
    assert numbers(page) == ["8.00", "−4.00", "3.50"]
    context.close()


@pytest.mark.parametrize("width", [900, 390])
def test_bars_stand_on_one_scale_that_never_moves(show, quarters, width):
    page = show(quarters, width=width)

    def seen():
        page.wait_for_timeout(200)
        return page.evaluate("""[...document.querySelectorAll('.vb-logit')].map((row) => {
            const track = row.querySelector('.vb-track').getBoundingClientRect();
            const at = (e) => { const b = e.getBoundingClientRect();
              return [b.left, b.right].map((x) => -4 + 12 * (x - track.left) / track.width); };
            const was = at(row.querySelector('.vb-was'));
            return { track: [track.left, track.width], bar: at(row.querySelector('i')),
              was: (was[0] + was[1]) / 2 };
        })""")

    before = seen()
    quarter(page, 0).click()
    after = seen()
    for i, (one, other) in enumerate(zip(before, after, strict=True)):
        assert one["track"] == other["track"]
        assert one["was"] == other["was"] == pytest.approx(WHOLE[i], abs=0.15)
        for now, row in ((WHOLE, one), (WITHOUT_FIRST, other)):
            assert row["bar"] == pytest.approx([min(now[i], 0), max(now[i], 0)], abs=0.05)


def test_reached_where_the_logit_of_the_goal_rises_by_one(show, quarters, collage, brightness):
    page = show(quarters)
    for number, expected in enumerate((True, False, False, False)):
        quarter(page, number).click()
        assert reached(page) == expected
        page.click("[data-control=reset]")
    quarter(page, 0).click()
    said = page.locator(".vb-readout strong").inner_text()
    assert "with cat taken away, the logit of red <hot> is 4.00 higher than with all" in said
    down = missing_quarters(brightness, collage, CLASSES, normalize=scaled, goal=("red", "down"))
    page = show(down)
    assert not reached(page)
    quarter(page, 2).click()
    assert reached(page)
    none = show(missing_quarters(brightness, collage, CLASSES, normalize=scaled))
    quarter(none, 0).click()
    assert not reached(none)


def test_it_may_start_without_some(show, collage, brightness):
    figure = missing_quarters(brightness, collage, CLASSES, normalize=scaled, start=5)
    page = show(figure)
    assert quarter(page, 2).get_attribute("aria-label") == "bottom left: taken away"
    assert "Taken away: top left and bottom left." in page.locator(".vb-readout").inner_text()


def test_node_computes_what_the_page_says(js):
    assert js("missing_quarters", "[0, 6, 15].map(quartersIn)") == [[], [1, 2], [0, 1, 2, 3]]
    told = js("missing_quarters", "[[], ['a'], ['a', 'b'], ['a', 'b', 'c']].map(listed)")
    assert told == ["", "a", "a and b", "a, b and c"]
    bar = js("missing_quarters", "[3, -1, 0].map((x) => barOf(x, [-1, 3]))")
    assert bar == [{"left": 25, "width": 75}, {"left": 0, "width": 25}, {"left": 25, "width": 0}]
    said = js("missing_quarters", "movement(['a', 'b'], [-2, -1])")
    assert said == "Largest fall: a, by 2.00. "
    assert js("missing_quarters", "movement(['a'], [.004])") == "No logit changed. "


FLAT = torch.zeros(3, 16, 16, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(image=FLAT / 255), r"image came as float32 of shape \(3, 16, 16\), expected uint8"),
        (dict(image=FLAT[None]), r"image came as uint8 of shape \(1, 3, 16, 16\)"),
        (dict(image=FLAT[:1]), r"shape \(1, 16, 16\), expected uint8 \(3, h, w\)"),
        (dict(image=FLAT[:, :15]), "15x16 px has no four quarters of one size: expected even"),
        (dict(image=FLAT[:, :0]), "0x16 px has no four quarters"),
        (dict(classes={}), "0 classes came, expected 1 to 8"),
        (dict(classes={str(i): 0 for i in range(9)}), "9 classes came, expected 1 to 8"),
        (dict(classes={"a": 3}), "class 'a' is number 3, expected 0 to 2: the model gives 3 log"),
        (dict(classes={"a": -1}), "class 'a' is number -1, expected 0 to 2"),
        (dict(classes={"a": True}), "class 'a' is number True, expected 0 to 2"),
        (dict(labels="abcd"), "labels came as the text 'abcd', expected four"),
        (dict(labels=["a"] * 3), "3 labels came, expected four"),
        (dict(start=16), "start came as 16, expected 0 to 15"),
        (dict(goal=("b", "up")), r"goal came as \('b', 'up'\), expected one of bright, red, all,"),
        (dict(goal=("red", "left")), "and 'up' or 'down'"),
        (dict(goal=("bright", "up")), r"moves bright up by 1 or more \(at most 0.00\): expected a"),
        (dict(model=Gives(torch.ones(16, 3, 2))), r"Gives gave \(16, 3, 2\): expected \(batch, cl"),
        (dict(model=Gives(None)), "Gives gave NoneType, no tensor.*expected"),
        (dict(model=Gives(torch.full((16, 3), torch.nan))), "the model's logits hold NaN"),
    ],
)
def test_bad_input_gets_one_sentence(brightness, changed, words):
    given = dict(model=brightness, image=FLAT, classes=CLASSES, normalize=scaled) | changed
    with pytest.raises(ValueError, match=words):
        missing_quarters(given.pop("model"), given.pop("image"), given.pop("classes"), **given)


def test_what_the_shapes_refuse_too(plain_vitbook):
    plain_vitbook("""
        import pytest, torch
        from vitbook.figures.missing_quarters import missing_quarters
        model, image = torch.nn.Flatten(), torch.ones(3, 16, 16, dtype=torch.uint8)
        def figure(classes={"a": 0}, normalize=lambda images: images / 255, **given):
            return missing_quarters(model, image, classes, normalize=normalize, **given)
        figure()
        for classes in (["a"], "a"):
            with pytest.raises(ValueError, match="classes came as .*, expected a dict"):
                figure(classes)
        for goal in (float("nan"), 3, "a", ("a", "up", 3)):
            with pytest.raises(ValueError, match="goal came as .*, expected one of a, and 'up'"):
                figure(goal=goal)
        for wrong in (lambda images: images, lambda images: 3, lambda images: images[:0] / 255):
            with pytest.raises(TypeError, match="normalize made .* expected it in floating point"):
                figure(normalize=wrong)
    """)
