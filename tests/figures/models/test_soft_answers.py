"""Soft answers: the page's shares are torch's, at every temperature of its slider."""

import math

import numpy as np
import pytest
import torch
from reading import computed, pick, put, reached, said, state
from small_inputs import digits, seeded

from vitbook.figures import soft_answers
from vitbook.figures.soft_answers import TEMPERATURES, percent, perplexity, shares

SURE = [[4, 1.5, 0, -1, 0.123456], [0, 2.2, 2.05, -3, 1], [-1, 0, 0.5, 6, -2]]


def given(**changed):
    """Logits of two teachers for three images of five classes: one sure, the other hardly so."""
    fresh = 0.05 * torch.randn(3, 5, generator=seeded(4))
    return {
        "images": digits(), "logits": {"sure": torch.tensor(SURE), "<fresh>": fresh},
        "labels": torch.tensor([0, 2, 3]), "class_names": ["a", "<b>", "c", "d", "automobile"],
    } | changed  # fmt: skip


def sample():
    return soft_answers(**given(), goal=0.4)


LOGITS = torch.tensor(sample().data["logits"], dtype=torch.float64)  # those that the page gets


def heat(page, temperature):
    put(page, temperature=TEMPERATURES.index(temperature))


def expected(image, teacher, temperature):
    return (LOGITS[teacher, image] / temperature).softmax(-1)


def test_the_slider_has_round_places_about_as_far_apart_by_ratio():
    steps = np.diff(np.log(TEMPERATURES))
    assert TEMPERATURES[0] == 0.25 and TEMPERATURES[-1] == 100 and {0.5, 1, 3, 10} < {*TEMPERATURES}
    assert steps.min() > math.log(1.09) and steps.max() < math.log(1.26)
    assert all(float(f"{each:.2g}") == each for each in TEMPERATURES)


@pytest.mark.parametrize("temperature", [0.25, 1, 30])
def test_the_page_shows_torchs_shares(page, temperature):
    heat(page, temperature)
    track = page.locator(".vb-answers .vb-track").first.bounding_box()["width"]
    for image, teacher in ((0, 0), (1, 1), (2, 0)):
        pick(page, "image", image)
        pick(page, "teacher", teacher)
        assert state(page) == f"image={image} teacher={teacher} temperature={temperature}"
        wanted = expected(image, teacher, temperature)
        assert computed(page, "shares") == pytest.approx(wanted.tolist(), rel=1e-9)
        beside = expected(image, 1, temperature).tolist()
        assert computed(page, "beside") == pytest.approx(beside, rel=1e-9)
        page.wait_for_timeout(150)  # the bars move
        bars = page.locator(".vb-answers i").all()
        widths = [each.bounding_box()["width"] / track for each in bars]
        assert widths == pytest.approx(wanted.tolist(), abs=0.005)
        told = page.locator(".vb-answer > :last-child").all_inner_texts()
        assert told == [percent(each) for each in wanted.tolist()]
        spread = f"{wanted.pow(-wanted).prod().item():.2f}"
        assert page.locator(".vb-asking b").inner_text() == spread
        assert f"as if undecided among {spread} of 5 classes" in said(page)


def test_the_readout_names_the_class_the_next_and_the_label(page):
    pick(page, "image", 1)
    first, second = (percent(each) for each in expected(1, 0, 1).tolist()[1:3])
    assert said(page).startswith(
        f"sure at temperature 1 says <b> with {first}, then c with {second}: as if undecided among "
    )
    assert said(page).split("✓")[0].strip().endswith("The image's label is c.")
    assert page.locator(".vb-most > :first-child").inner_text() == "<b>"
    assert page.locator(".vb-true:visible").locator("..").inner_text().split() == ["label", "c"]
    image = page.locator("[data-control=image] [role=radio]").nth(1)
    assert image.get_attribute("aria-label") == "image 2, label c"
    assert page.locator(".vb-asking img").get_attribute("alt") == "image 2, label c"


def test_it_starts_as_its_caption_says(page):
    assert state(page) == "image=0 teacher=0 temperature=1" and not reached(page)
    first = expected(0, 0, 1)
    spread = f"{first.pow(-first).prod().item():.2f}"
    assert sample().description == (
        "At the start: at temperature 1 sure says that the first image, whose label is a, is a "
        f"with {percent(first[0].item())}, and <b> with {percent(first[1].item())}: as if it were "
        f"undecided among {spread} of 5 classes.\nA bar is the share of a class. A thin mark is "
        "the share that <fresh> gives it at the same temperature. Bars that stay apart at "
        "temperature 100 would refute the title."
    )


def test_the_task_is_reached_by_the_first_teacher_alone(show):
    twin = {name: torch.tensor(SURE) for name in ("sure", "its twin")}
    page = show(soft_answers(**given(logits=twin), goal=0.4))
    task = "Find an image and a temperature at which sure gives its second class at least 40 %."
    assert page.locator(".vb-task").inner_text() == task
    pick(page, "image", 1)
    assert not reached(page)
    heat(page, 0.5)
    second, twice = (percent(expected(1, 0, t)[2].item()) for t in (0.5, 1))
    assert reached(page)
    assert said(page).endswith(
        f"✓ Reached: c has {second}. At twice the temperature it would have {twice}."
    )
    pick(page, "teacher", 1)
    assert not reached(page)


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


def test_one_teacher_needs_no_choice_and_no_marks(show):
    figure = soft_answers(**given(logits={"sure": torch.tensor(SURE)}))
    page = show(figure)
    assert page.locator("[data-control=teacher]").count() == 0
    assert page.locator(".vb-reference:visible").count() == 0
    assert page.locator(".vb-shown p").inner_text() == "Bar: sure."
    assert "mark" not in figure.description and figure.data["task"] == ""


def test_more_than_a_page_can_draw_is_refused():
    with pytest.raises(ValueError, match="3 images of 21 classes and 1 teachers came, expected up"):
        soft_answers(**given(logits={"sure": torch.zeros(3, 21)}))
