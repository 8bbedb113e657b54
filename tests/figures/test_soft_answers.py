"""Soft answers: the page's shares are torch's, at every temperature of its slider."""

import math

import numpy as np
import pytest
import torch

from vitbook.errors import UnknownNameError
from vitbook.figures import soft_answers
from vitbook.figures.soft_answers import TEMPERATURES, percent, perplexity, shares

FIGURE = ".vitbook-figure"
TEACHERS = ["sure", "<fresh>"]


def state(page, nth=0):
    return page.locator(FIGURE).nth(nth).get_attribute("data-state")


def reached(page):
    return page.locator(FIGURE).get_attribute("data-reached") == "true"


def said(page):
    return page.locator(".vb-readout").inner_text()


def computed(page, name):
    return page.evaluate(f"document.querySelector('{FIGURE}').{name}")


def choose(page, control, number):
    page.locator(f"[data-control={control}] button").nth(number).click()


def heat(page, temperature):
    page.locator("[data-control=temperature]").fill(str(TEMPERATURES.index(temperature)))


def expected(figure, image, teacher, temperature):
    """Torch's, of the numbers that the page gets."""
    logits = torch.tensor(figure.data["logits"], dtype=torch.float64)
    return (logits[teacher, image] / temperature).softmax(-1)


def test_the_slider_has_round_places_about_as_far_apart_by_ratio():
    steps = np.diff(np.log(TEMPERATURES))
    assert TEMPERATURES[0] == 0.25 and TEMPERATURES[-1] == 100 and {0.5, 1, 3, 10} < {*TEMPERATURES}
    assert steps.min() > math.log(1.09) and steps.max() < math.log(1.26)
    assert all(float(f"{each:.2g}") == each for each in TEMPERATURES)


def test_logits_travel_with_four_decimals(answers):
    assert answers.data["logits"][0][0] == [4, 1.5, 0, -1, 0.1235]


@pytest.mark.parametrize("temperature", [0.25, 0.9, 1, 3, 30, 100])
def test_the_page_shows_torchs_shares(show, answers, temperature):
    page = show(answers)
    heat(page, temperature)
    track = page.locator(".vb-answers .vb-track").first.bounding_box()["width"]
    for image in range(3):
        choose(page, "image", image)
        for teacher in range(2):
            choose(page, "teacher", teacher)
            assert state(page) == f"image={image} teacher={teacher} temperature={temperature}"
            wanted = expected(answers, image, teacher, temperature)
            assert computed(page, "shares") == pytest.approx(wanted.tolist(), rel=1e-9)
            assert computed(page, "beside") == pytest.approx(
                expected(answers, image, 1, temperature).tolist(), rel=1e-9
            )
            page.wait_for_timeout(150)  # the bars move
            bars = page.locator(".vb-answers i").all()
            widths = [each.bounding_box()["width"] / track for each in bars]
            assert widths == pytest.approx(wanted.tolist(), abs=0.005)
            told = page.locator(".vb-answer > :last-child").all_inner_texts()
            assert told == [percent(each) for each in wanted.tolist()]
            spread = f"{wanted.pow(-wanted).prod().item():.2f}"
            assert page.locator(".vb-asking b").inner_text() == spread
            assert f"as if undecided among {spread} of 5 classes" in said(page)


def test_the_readout_names_the_class_the_next_and_the_label(show, answers):
    page = show(answers)
    choose(page, "image", 1)
    first, second = (percent(each) for each in expected(answers, 1, 0, 1).tolist()[1:3])
    assert said(page).startswith(
        f"sure at temperature 1 says <b> with {first}, then c with {second}: as if undecided among "
    )
    assert said(page).split("✓")[0].strip().endswith("The image's label is c.")
    assert page.locator(".vb-most > :first-child").inner_text() == "<b>"
    assert page.locator(".vb-true:visible").locator("..").inner_text().split() == ["label", "c"]


def test_a_high_temperature_makes_all_classes_alike(show, answers):
    page = show(answers)
    heat(page, 100)
    for image in range(3):
        choose(page, "image", image)
        assert computed(page, "shares") == pytest.approx([0.2] * 5, abs=0.02)
        assert "5.00 of 5 classes" in said(page)


def test_marks_are_the_references_and_hidden_over_its_own_bars(show, answers):
    page = show(answers)
    track = page.locator(".vb-answers .vb-track").first.bounding_box()
    for bar, share in zip(
        page.locator(".vb-reference").all(), expected(answers, 0, 1, 1).tolist(), strict=True
    ):
        assert bar.bounding_box()["x"] == pytest.approx(
            track["x"] + share * (track["width"] - 3), abs=0.5
        )
    assert page.locator(".vb-shown p").inner_text() == (
        "Bar: sure. Thin mark: <fresh>, at the same temperature."
    )
    choose(page, "teacher", 1)
    assert page.locator(".vb-reference:visible").count() == 0
    assert page.locator(".vb-shown p").inner_text() == "Bar: <fresh>."


def test_it_starts_as_its_caption_says(show, told):
    figure = soft_answers(**told, temperature=2.75)
    page = show(figure)
    assert state(page) == "image=0 teacher=0 temperature=2.75" and not reached(page)
    first = expected(figure, 0, 0, 2.75)
    spread = f"{first.pow(-first).prod().item():.2f}"
    assert figure.description == (
        "At the start: at temperature 2.75 sure says that the first image, whose label is a, is a "
        f"with {percent(first[0].item())}, and <b> with {percent(first[1].item())}: as if it were "
        f"undecided among {spread} of 5 classes.\nA bar is the share of a class. A thin mark is "
        "the share that <fresh> gives it at the same temperature. Bars that stay apart at "
        "temperature 100 would refute the title."
    )
    page.locator("[data-control=temperature]").press("ArrowRight")
    assert state(page).endswith("temperature=3")
    page.click("[data-control=reset]")
    assert state(page).endswith("temperature=2.75")


def test_the_task_is_reached_by_the_first_teacher_alone(show, told):
    twin = {name: told["logits"]["sure"] for name in ("sure", "its twin")}
    answers = soft_answers(**told | {"logits": twin}, goal=0.4)
    page = show(answers)
    task = "Find an image and a temperature at which sure gives its second class at least 40 %."
    assert page.locator(".vb-task").inner_text() == task
    choose(page, "image", 1)
    assert not reached(page)
    heat(page, 0.5)
    second, twice = (percent(expected(answers, 1, 0, t)[2].item()) for t in (0.5, 1))
    assert reached(page)
    assert said(page).endswith(
        f"✓ Reached: c has {second}. At twice the temperature it would have {twice}."
    )
    choose(page, "teacher", 1)
    assert not reached(page)


def test_the_arrow_keys_walk_images_teachers_and_temperatures(show, answers):
    page = show(answers)
    page.locator("[data-control=image] [tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert state(page) == "image=2 teacher=0 temperature=1", "it ends there"
    page.locator("[data-control=teacher] [tabindex='0']").press("ArrowRight")
    slider = page.locator("[data-control=temperature]")
    slider.press("ArrowRight")
    assert state(page) == "image=2 teacher=1 temperature=1.2"
    assert slider.get_attribute("aria-valuetext") == "1.2"
    slider.press("End")
    assert state(page).endswith("temperature=100")


def test_a_finger_chooses_and_scrolls(touched, answers):
    page, finger = touched(answers)
    box = page.locator("[data-control=image] button").nth(1).bounding_box()
    page.touchscreen.tap(box["x"] + 10, box["y"] + 10)
    box = page.locator("[data-control=temperature]").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    assert state(page) == "image=1 teacher=0 temperature=100"
    box = page.locator("div.vb-answers").bounding_box()
    finger((200, box["y"] + 90), (200, box["y"] + 50), (200, box["y"] - 50))
    assert page.evaluate("scrollY") > 0
    assert state(page) == "image=1 teacher=0 temperature=100"


def test_what_is_seen_has_names(show, answers):
    page = show(answers)
    images = page.locator("[data-control=image] [role=radio]")
    assert images.nth(1).get_attribute("aria-label") == "image 2, label c"
    choose(page, "image", 1)
    assert images.nth(1).get_attribute("aria-checked") == "true"
    assert page.locator(".vb-asking img").get_attribute("alt") == "image 2, label c"


def test_a_link_restores_what_was_chosen(show, answers, come_back_by_link):
    page = show(answers)
    choose(page, "image", 2)
    choose(page, "teacher", 1)
    heat(page, 0.35)
    come_back_by_link(page, "#answers?image=2&teacher=1&temperature=0.35")


def test_two_on_a_page_have_links_of_their_own(show, answers, ladder):
    page = show(answers, ladder, answers)
    links = [link.get_attribute("href").split("?")[0] for link in page.locator(".vb-link").all()]
    assert links == ["#answers", "#gradients", "#answers2"]
    page.evaluate("location.hash = '#answers2?temperature=30'")
    page.wait_for_function(
        f"document.querySelectorAll('{FIGURE}')[2].dataset.state.endsWith('temperature=30')"
    )
    assert state(page).endswith("temperature=1")


def test_a_link_gives_only_what_the_page_has(js, answers):
    for text, wanted in [
        ("image=2&teacher=1&temperature=0.25", {"image": 2, "teacher": 1, "temperature": 0.25}),
        ("image=3&teacher=2&temperature=0.26", {}), ("image=0.5&temperature=&toString=1", {}),
        ("temperature=100", {"temperature": 100}),
    ]:  # fmt: skip
        found = js("soft_answers", "answeredState(text, data)", text=text, data=answers.data)
        assert found == wanted


@pytest.mark.parametrize("temperature", [0.25, 1, 100])
def test_node_and_python_compute_what_torch_does(js, temperature):
    logits = 30 * torch.randn(200, 7, generator=torch.Generator().manual_seed(0)).double()
    wanted = (logits / temperature).softmax(-1)
    spread = torch.distributions.Categorical(probs=wanted).perplexity()
    assert shares(logits.numpy(), temperature) == pytest.approx(wanted.numpy(), rel=1e-9)
    assert [perplexity(each) for each in wanted.numpy()] == pytest.approx(spread.tolist(), rel=1e-6)
    live = js("soft_answers", "z.map((each) => sharesAt(each, t))", z=logits, t=temperature)
    assert np.array(live) == pytest.approx(wanted.numpy(), rel=1e-9)
    live = js("soft_answers", "p.map(perplexity)", p=wanted)
    assert live == pytest.approx(spread.tolist(), rel=1e-6)


def test_extremes_by_hand(js):
    for logits, wanted in [([1e308, -1e308], [1, 0]), ([3, 3], [0.5, 0.5])]:
        with np.errstate(over="ignore"):
            assert shares(np.array(logits), 0.25).tolist() == wanted
        assert js("soft_answers", "sharesAt(z, 0.25)", z=logits) == wanted
        assert js("soft_answers", "perplexity(p)", p=wanted) == perplexity(np.array(wanted))
    assert js("soft_answers", "ranked([0.2, 0.4, 0.4])") == [1, 2, 0]


@pytest.mark.parametrize(
    ("share", "words"),
    [(1, "100.0 %"), (0.0625, "6.3 %"), (0.3417, "34.2 %"), (0.0005, "0.1 %"),
     (0.00049, "< 0.1 %"), (0, "< 0.1 %")],
)  # fmt: skip
def test_a_share_in_words(js, share, words):
    assert percent(share) == js("numbers", "shareTold(share)", share=share) == words


def test_one_teacher_needs_no_choice_and_no_marks(show, told):
    figure = soft_answers(**told | {"logits": {"sure": told["logits"]["sure"]}})
    page = show(figure)
    assert page.locator("[data-control=teacher]").count() == 0
    assert page.locator(".vb-reference:visible").count() == 0
    assert page.locator(".vb-shown p").inner_text() == "Bar: sure."
    assert "mark" not in figure.description and figure.data["task"] == ""


def test_the_reference_is_the_callers(show, told):
    figure = soft_answers(**told, reference="sure")
    assert "mark" not in figure.description, "the first teacher is shown at the start"
    page = show(figure)
    assert page.locator(".vb-reference:visible").count() == 0
    choose(page, "teacher", 1)
    assert page.locator(".vb-reference:visible").count() == 5
    assert page.locator(".vb-shown p").inner_text().startswith("Bar: <fresh>. Thin mark: sure")
    with pytest.raises(UnknownNameError, match="unknown reference 'fresh': did you mean <fresh>"):
        soft_answers(**told, reference="fresh")


def test_a_teacher_may_have_an_empty_name(told):
    unnamed = dict(zip(("", "b"), told["logits"].values(), strict=True))
    assert soft_answers(**told | {"logits": unnamed}, reference="").data["reference"] == 0


def test_huge_logits_are_shown(show, told):
    huge = {"huge": 1e30 * told["logits"]["sure"], "<fresh>": -1e300 * np.ones((3, 5))}
    page = show(soft_answers(**told | {"logits": huge}))
    heat(page, 100)
    assert computed(page, "shares") == [1, 0, 0, 0, 0]
    assert computed(page, "beside") == pytest.approx([0.2] * 5)
    assert "huge at temperature 100 says a with 100.0 %, then <b> with < 0.1 %" in said(page)


@pytest.mark.parametrize(
    "address", ["#answers?image=%", "#%E0%A4%A", "#answers?image=99&teacher=x"]
)
def test_a_damaged_link_stops_nothing(show, answers, address):
    page = show(answers)
    page.evaluate("(to) => (location.hash = to)", address)
    page.reload()
    page.wait_for_selector(f"{FIGURE}[data-ready=true]")
    assert state(page) == "image=0 teacher=0 temperature=1"
    page.evaluate("location.hash = '#answers%3Fimage%3D2'")  # as some mail programs write it
    page.wait_for_function(
        f"document.querySelector('{FIGURE}').dataset.state.startsWith('image=2')"
    )


@pytest.mark.parametrize("width", [900, 390])
def test_long_names_do_not_widen_the_page(show, told, width):
    names = ["x" * 120, "<img src=x onerror=alert(1)>", "$x_1$", "x" * 120, "a b " * 30]
    logits = dict(zip(("t" * 120, "</script>"), told["logits"].values(), strict=True))
    page = show(soft_answers(**told | {"class_names": names, "logits": logits}), width=width)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    for row in page.locator(".vb-answer").all():
        name, track, _ = (each.bounding_box() for each in row.locator("> *").all())
        assert name["x"] + name["width"] <= track["x"] and track["width"] > 100
    assert page.locator(".vb-answer img").count() == 0


@pytest.mark.parametrize("width", [900, 390])
def test_names_and_numbers_stay_in_their_columns(show, told, width):
    page = show(soft_answers(**told | {"labels": [4, 4, 4]}), width=width)
    for row in page.locator(".vb-answer").all():
        name, track, number = (each.bounding_box() for each in row.locator("> *").all())
        assert name["x"] >= 0 and name["x"] + name["width"] <= track["x"]
        assert track["width"] > 150 and name["height"] < 30
        assert track["x"] + track["width"] <= number["x"]
        assert number["x"] + number["width"] <= width


def test_numpy_lists_and_half_precision_are_logits(told):
    plain = soft_answers(**told).data
    lists = {name: each.double().numpy() for name, each in told["logits"].items()}
    assert soft_answers(**told | {"logits": lists, "labels": [0, 2, 3]}).data == plain
    half = {"sure": told["logits"]["sure"].bfloat16().requires_grad_()}
    assert soft_answers(**told | {"logits": half}).data["logits"][0][0][:2] == [4, 1.5]
    assert soft_answers(**told | {"class_names": None}).data["classes"] == list("01234")


def logits(*shape, value=0.0):
    return {"sure": torch.full(shape, value)}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(images=torch.rand(3, 1, 8, 8)), "images came as float32 of shape"),
        (dict(images=torch.zeros(17, 1, 8, 8, dtype=torch.uint8)), "17 images came, expected at m"),
        (dict(images=torch.zeros(0, 1, 8, 8, dtype=torch.uint8)), "images came empty"),
        (dict(images=torch.zeros(3, 1, 0, 8, dtype=torch.uint8)), "images came empty"),
        (dict(logits={}), "no logits came, expected those of at least one teacher"),
        (dict(logits={i: torch.zeros(3, 5) for i in range(6)}), "6 teachers came, expected at m"),
        (dict(logits=logits(2, 5)), r"logits of 'sure' came with shape \(2, 5\), expected \(3, c"),
        (dict(logits=logits(3)), r"logits of 'sure' came with shape \(3,\), expected"),
        (dict(logits=logits(3, 1)), "logits of 'sure' came for 1 classes, expected 2 to 20"),
        (dict(logits=logits(3, 21)), "logits of 'sure' came for 21 classes, expected 2 to 20"),
        (dict(logits=logits(3, 5, value=math.nan)), "logits of 'sure' hold NaN or infinity, expe"),
        (dict(logits={"sure": np.full((3, 5), 1e308)}), "logits of 'sure' hold NaN or infinity"),
        (dict(logits={1: logits(3, 5)["sure"], "1": torch.ones(3, 5)}), r"came as \[1, '1'\], exp"),
        (dict(logits=logits(3, 5, value=-math.inf)), "logits of 'sure' hold NaN or infinity"),
        (dict(logits=logits(3, 5) | {"x": torch.zeros(3, 4)}), "logits of 'x' came for 4 classes"),
        (dict(labels=[0, 1]), r"labels came with shape \(2,\) for 3 images, expected \(3,\)"),
        (dict(labels=[0, 1, 5]), "labels came from 0 to 5, expected 0 to 4, the classes of"),
        (dict(labels=[-1, 1, 2]), "labels came from -1 to 2, expected 0 to 4"),
        (dict(class_names=["a"]), "1 class names came, expected 5: one for each logit"),
        (dict(temperature=0), "temperature 0 at the start, expected a number from 0.25 to 100"),
        (dict(temperature=-1.0), "temperature -1.0 at the start, expected"),
        (dict(temperature=101), "temperature 101 at the start, expected"),
        (dict(temperature=math.nan), "temperature nan at the start, expected"),
        (dict(temperature=True), "temperature True at the start, expected"),
        (dict(goal=0.45), "goal 0.45 is never reached: the second class of the first teacher has"),
        (dict(goal=0.05), "goal 0.05 is reached before the task begins: expected a larger one, or"),
        (dict(goal=0), "goal 0 came, expected a share above 0, such as 0.2"),
        (dict(goal=math.nan), "goal nan came, expected a share above 0"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(told, changed, words):
    with pytest.raises(ValueError, match=words):
        soft_answers(**told | changed)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(labels=[0.0, 1.0, 2.0]), "labels came as float64, expected whole numbers"),
        (dict(labels=[True, False, True]), "labels came as bool, expected whole numbers"),
        (dict(logits={"sure": torch.zeros(3, 5, dtype=torch.bool)}), "logits of 'sure' came as bo"),
        (dict(logits={"sure": [["a"] * 5] * 3}), "logits of 'sure' came as <U1, expected numbers"),
    ],
)
def test_what_is_no_number_is_a_type_error(told, changed, words):
    with pytest.raises(TypeError, match=words):
        soft_answers(**told | changed)
