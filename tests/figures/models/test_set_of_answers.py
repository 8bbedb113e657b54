"""A canvas of digits: it is laid out as in Python, and its queries say what torch says."""

from functools import cache

import numpy as np
import pytest
import torch
from reading import FIGURE, middle, press, put, reached, said, state
from reading import parts as words
from small_detector import Detector, loud_detector
from small_inputs import seeded
from torch import nn
from torchvision.ops import box_convert, box_iou

from vitbook import datasets
from vitbook.analysis import capture_attention
from vitbook.figures import set_of_answers
from vitbook.figures.set_of_answers.canvas import enlarged, laid
from vitbook.figures.set_of_answers.detector import detector_weights

SIDE = 40
START = ((1, 3, 4, 1.7), (0, 20, 10, 1.0), (1, 24, 22, 2.0))


@cache
def detector():
    return loud_detector()


@cache
def digits():
    """Four of the held-out ones, in the tray."""
    return datasets.load("digits", "test").images[:4]


@cache
def sample():
    return set_of_answers(
        detector(), digits(), names=("zero", "<one>", "two", "three"), start=START
    )


def placed_in(page):
    """Of each digit on the canvas its number, left, top and size in tenths, from the link."""
    found = words(page)
    numbers = [int(found[f"d{i}"]) for i in range(int(found["n"]))]
    return [[n // 11 // SIDE**2, n // 11 // SIDE % SIDE, n // 11 % SIDE, 10 + n % 11]
            for n in numbers]  # fmt: skip


def shown(page):
    """Pixels of the canvas, and the answers to it once the model has come."""
    page.wait_for_function(f"document.querySelector('{FIGURE}').said")
    pixels, answers = page.evaluate(
        f"(r => [[...r.pixels], r.said])(document.querySelector('{FIGURE}'))"
    )
    return np.array(pixels, np.uint8).reshape(SIDE, SIDE), answers


@torch.no_grad()
def torchs(model, canvas):
    """Chances, boxes, and where each query looks, by the model itself."""
    image = torch.from_numpy(canvas.copy())[None, None] / 127.5 - 1
    with capture_attention(model) as maps:
        logits, boxes = model(image)
    return logits[0].softmax(-1), boxes[0], list(maps.values())[-1][0].mean(0)


def check_answers(page, model):
    canvas, answers = shown(page)
    assert (canvas == laid(enlarged(digits().numpy()), SIDE, placed_in(page))).all()
    wanted = torchs(model, canvas)
    for name, right in zip(("chances", "boxes", "looks"), wanted, strict=True):
        assert np.array(answers[name]) == pytest.approx(right.numpy(), abs=5e-4), name
    return wanted


def test_the_canvas_is_drawn_as_the_model_gets_it(page):
    press(page, "digits", "Shift+ArrowRight", "Shift+ArrowRight", "ArrowDown")
    sizes = enlarged(digits().numpy())
    naive = np.zeros((SIDE, SIDE), int)
    for which, left, top, tenths in placed_in(page):
        for (row, column), light in np.ndenumerate(sizes[which][tenths - 10]):
            at = top + row, left + column
            naive[at] = max(naive[at], light)
    drawn = page.locator(".vb-table canvas").evaluate(
        "c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
    )
    assert (np.array(drawn).reshape(SIDE, SIDE, 4)[..., :3] == naive[..., None]).all()
    assert (shown(page)[0] == naive).all() and naive.any()


def test_the_pages_answers_are_torchs_whatever_lies_there(page):
    check_answers(page, detector())
    firsts = set()
    for change in (
        lambda: press(page, "digits", "ArrowRight", "ArrowDown"),
        lambda: page.locator("[data-control=tray] button").nth(2).click(),
        lambda: put(page, size=11),
        lambda: page.click("[data-control=remove]"),
        lambda: page.click("[data-control=remove]"),
    ):
        before = state(page)
        change()
        assert state(page) != before
        chances, boxes, looks = check_answers(page, detector())
        firsts |= set(chances.argmax(-1).tolist())
    assert len(firsts) > 3 and chances.std(0).max() > 0.1, "queries that say one thing prove little"
    assert boxes.std(0).min() > 0.01 and looks.max() > 2 / 64


def test_an_empty_canvas_is_answered_too(page):
    for _ in range(3):
        page.click("[data-control=remove]")
    assert placed_in(page) == [] and words(page)["held"] == "-1"
    canvas, _ = shown(page)
    assert not canvas.any()
    check_answers(page, detector())
    assert said(page).startswith("0 digits; ") and not reached(page)
    before = state(page)
    page.click("[data-control=remove]")
    put(page, size=13)
    assert state(page) == before


def test_lines_and_boxes_tell_the_answers(page):
    canvas, _ = shown(page)
    chances, boxes, _ = torchs(detector(), canvas)
    lines = page.locator("[data-control=query] button")
    sure = 0
    for query, (line, box) in enumerate(zip(chances, boxes, strict=True)):
        best = int(line.argmax())
        name = "no object" if best == 10 else str(best)
        assert lines.nth(query).get_attribute("aria-label").startswith(f"q{query}: {name}, ")
        drawn, is_sure = page.locator(".vb-box").nth(query), best < 10 and line[best] >= 0.5
        sure += is_sure
        assert drawn.is_visible() == is_sure
        if is_sure:
            assert page.locator(".vb-tag").nth(query).inner_text() == f"q{query}: {name}"
            pad, seen = page.locator(".vb-table").bounding_box(), drawn.bounding_box()
            middles = [(seen[a] + seen[b] / 2 - pad[a]) / pad[b]
                       for a, b in (("x", "width"), ("y", "height"))]  # fmt: skip
            assert middles == pytest.approx(box[:2].tolist(), abs=0.01)
    assert 0 < sure < 10
    assert said(page).startswith(f"3 digits; {sure} of 10 queries say one. ")


def test_a_chosen_query_shows_where_it_looks_and_what_it_would_say(page):
    canvas, _ = shown(page)
    chances, _, looks = torchs(detector(), canvas)
    quiet = next(
        q for q, line in enumerate(chances) if not (line.argmax() < 10 and line.max() >= 0.5)
    )
    page.locator("[data-control=query] button").nth(quiet).click()
    assert words(page)["query"] == str(quiet)
    assert page.locator(".vb-box").nth(quiet).is_visible()
    data = page.locator(".vb-table canvas").evaluate(
        "c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
    )
    share = (looks[quiet] / looks[quiet].max()).reshape(8, 8).numpy().repeat(5, 0).repeat(5, 1)
    ink = canvas / 255
    for channel, light in enumerate((214, 118, 0)):
        wanted = light * share * (1 - ink) + 255 * ink
        assert np.array(data).reshape(SIDE, SIDE, 4)[..., channel] == pytest.approx(wanted, abs=1)
    assert f"has {looks[quiet].max():.2f}." in page.locator(".vb-answered .vb-note").inner_text()
    page.locator("[data-control=query] button").nth(quiet).click()
    assert words(page)["query"] == "-1" and page.locator(".vb-box").nth(quiet).is_hidden()
    tag = page.locator(".vb-tag:visible").last
    tag.click()
    assert tag.inner_text().startswith(f"q{words(page)['query']}:")


def test_a_pointer_drags_a_digit_and_it_stays_on_the_canvas(page):
    unit = page.locator(".vb-table").bounding_box()["width"] / SIDE
    x, y = middle(page, ".vb-digit", 1)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 3.2 * unit, y + 6.9 * unit, steps=7)
    page.mouse.up()
    assert placed_in(page) == [[1, 3, 4, 17], [0, 17, 17, 10], [1, 24, 22, 20]]
    assert words(page)["held"] == "1"
    page.mouse.down()
    page.mouse.move(x + 900, y - 900, steps=3)
    page.mouse.up()
    height, width = enlarged(digits().numpy())[0][0].shape
    assert placed_in(page)[1] == [0, SIDE - width, 0, 10] and height <= SIDE


def test_keys_move_resize_and_take_off(page):
    second = page.locator(".vb-digit").nth(1)
    second.focus()
    for key, wanted in [
        ("ArrowLeft", [0, 19, 10, 10]), ("ArrowDown", [0, 19, 11, 10]), ("-", [0, 19, 11, 10]),
        ("Shift+ArrowRight", [0, 24, 11, 10]), ("Shift+ArrowUp", [0, 24, 6, 10]),
    ]:  # fmt: skip
        page.keyboard.press(key)
        assert placed_in(page)[1] == wanted, key
    for _ in range(12):
        page.keyboard.press("+")
    assert placed_in(page)[1][3] == 20, "and no larger"
    page.keyboard.press("Delete")
    assert placed_in(page) == [[1, 3, 4, 17], [1, 24, 22, 20]]
    assert page.evaluate("document.activeElement.className") == "vb-digit"


def test_a_digit_from_the_tray_lies_where_there_is_room(page):
    press(page, "tray", "Enter")
    which, left, top, tenths = placed_in(page)[-1]
    assert (which, tenths) == (0, 15) and words(page)["held"] == "3"
    sizes = enlarged(digits().numpy())
    alone = laid(sizes, SIDE, placed_in(page)[:-1]) > 0
    height, width = sizes[0][5].shape
    assert not alone[top : top + height, left : left + width].any()
    for _ in range(12):
        press(page, "tray", "Enter")
    assert len(placed_in(page)) == 12


def test_who_answers_for_a_digit(js):
    generator = seeded(4)
    for _ in range(20):
        cuts = torch.rand(3, 4, generator=generator)
        cuts = torch.cat([cuts[:, :2] * 0.5, cuts[:, :2] * 0.5 + 0.2 + 0.3 * cuts[:, 2:]], 1)
        middles = torch.cat([(cuts[:, :2] + cuts[:, 2:]) / 2, cuts[:, 2:] - cuts[:, :2]], 1)
        boxes = middles.repeat(3, 1) + 0.06 * torch.randn(9, 4, generator=generator)
        chances = (4 * torch.randn(9, 3, generator=generator)).softmax(-1)
        best, label = chances.max(-1)
        shared = box_iou(cuts, box_convert(boxes, "cxcywh", "xyxy"))
        counts = torch.where((shared >= 0.5) & (best >= 0.5) & (label < 2), best, 0)
        wanted = [int(line.argmax()) if line.any() else -1 for line in counts]
        said = {"chances": chances.tolist(), "boxes": boxes.tolist()}
        ours = js("set_of_answers/canvas", "tellersOf(cuts, said)", cuts=cuts, said=said)
        assert ours == wanted
    apart = [[0, 0, 0.2, 0.2], [0.2, 0, 0.4, 0.2], [0.3, 0.1, 0.5, 0.3]]
    for tellers, wanted in [([-1, 0, 1], 0), ([4, -1, -1], -1), ([0, 1, 2], -1)]:
        found = js("set_of_answers/canvas", "overlooked(cuts, t)", cuts=apart, t=tellers)
        assert found == wanted
    for right, wanted in [(0.395, 0), (0.375, -1)]:  # 7.5 and 17.5 % of the first are covered
        cuts = [[0, 0, 0.2, 0.2], [right - 0.21, 0, right, 0.2]]
        assert js("set_of_answers/canvas", "overlooked(cuts, [-1, 0])", cuts=cuts) == wanted


def test_the_task_is_reached_by_a_digit_that_no_query_tells(page):
    """The sample's queries know nothing of digits."""
    canvas, _ = shown(page)
    chances, boxes, _ = torchs(detector(), canvas)
    sure = (chances[:, :10].max(-1).values >= 0.5).nonzero().flatten()
    sizes = enlarged(digits().numpy())
    cuts = []
    for which, left, top, tenths in placed_in(page):
        height, width = sizes[which][tenths - 10].shape
        cuts.append((left, top, left + width, top + height))
    shared = box_iou(box_convert(boxes[sure], "cxcywh", "xyxy"), torch.tensor(cuts) / SIDE)
    assert reached(page) == bool((shared.max(0).values < 0.5).any())
    assert "No query answers for the dashed <one>. " in said(page)
    assert "There are 3 digits and 10 queries." in said(page)


def test_another_task_is_not_checked(show):
    page = show(set_of_answers(detector(), digits(), start=START, task="Play."))
    assert page.locator(".vb-task").inner_text() == "Play." and not reached(page)


def test_a_link_gives_only_what_the_page_has(js):
    sizes = [
        [[patch.shape[0], patch.shape[1]] for patch in each] for each in enlarged(digits().numpy())
    ]
    read = "s.map((each) => each.map(([height, width]) => ({ height, width })))"
    call = f"answersState(text, {read}, 40, 10)"
    number = ((3 * 40 + 7) * 40 + 9) * 11 + 4
    far = ((3 * 40 + 39) * 40 + 39) * 11
    height, width = sizes[3][0]
    for text, wanted in [
        (f"n=1&d0={number}&held=0&query=3", {"placed": [[3, 7, 9, 14]], "held": 0, "query": 3}),
        (f"n=1&d0={far}&held=5", {"placed": [[3, 40 - width, 40 - height, 10]], "held": 0}),
        ("n=0&query=-1", {"placed": [], "held": -1, "query": -1}),
        ("n=2&d0=5&query=10", {}), (f"n=1&d0={4 * 1600 * 11}", {}), ("n=13", {}),
        ("n=1&d0=1.5", {}),
        ("n=1&toString=1&__proto__=2&query=<b>", {}),
    ]:  # fmt: skip
        found = js("set_of_answers/canvas", call, text=text, s=sizes)
        assert found == wanted, text


def test_the_weights_wait_for_a_reader_who_asks(show, tmp_path):
    key, (text,) = sample().data["values"], sample().pieces
    assert len(text) * 0.75 < 450_000, "bytes: base64 holds three in four letters"
    block = f'data-key="{key}">"{text}"<'
    script = f'(window.vitbookData ??= {{}})["{key}"] = "{text}";'
    (tmp_path / "weights.js").write_text(script, encoding="utf-8")
    page = show(sample()._repr_html_().replace(block, f'data-key="{key}" data-src="weights.js"><'))
    assert page.evaluate("window.vitbookData") is None
    press(page, "digits", "ArrowRight")
    check_answers(page, detector())
    page = show(sample()._repr_html_().replace(block, f'data-key="{key}" data-src="missing.js"><'))
    press(page, "digits", "ArrowRight")
    page.wait_for_function("document.querySelector('.vb-readout').innerText.includes('missing')")
    assert placed_in(page)[0] == [1, 4, 4, 17], "digits still move"
    page.click("[data-control=reset]")
    assert "3 digits; " in said(page), "the start is still told"
    show.troubles.clear()


class ReLU(nn.Module):
    def forward(self, tokens):
        return tokens.relu()


def bent():
    model = loud_detector()
    for block in (*model.encoder.blocks, *model.decoder["blocks"]):
        block.mlp.activation = ReLU()
    return model


def without_mixing():
    model = Detector()
    del model.decoder["blocks"][1].attention
    return model


def with_references():
    model = Detector()
    model.box_head["references"] = nn.Linear(2, 2)
    return model


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (with_references, r"'box_head.references.bias' is extra, expected a detector whose"),
        (without_mixing, r"blocks.1.attention.projection.bias' is missing, expected a detector"),
        (lambda: Detector(num_queries=2000), r"has 31\d,\d\d\d weights, expected at most 220,000"),
        (lambda: nn.Linear(2, 2), "does not know Linear: 'box_head.layers.0.bias' is missing"),
        (bent, "the page's answers of Detector differ from the model's by"),
    ],
    ids=["other parts", "without mixing", "many weights", "no detector", "ReLU"],
)
def test_models_that_the_page_does_not_compute_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        set_of_answers(make().eval(), digits(), start=START)


@pytest.mark.parametrize(
    ("given", "start", "words"),
    [
        (torch.zeros(1, 1, 8, 8, dtype=torch.uint8), (), "digit 0 has no ink"),
        (digits(), [(0, 1.5, 0, 1.0)], r"start has \(0, 1.5, 0, 1.0\): expected whole numbers"),
        (digits(), [(0, 1, 0, float("nan"))], "and how many times as large it is"),
        (torch.ones(1, 1, 28, 28, dtype=torch.uint8), (), "of at most 20 pixels"),
        (torch.ones(1, 3, 8, 8, dtype=torch.uint8), (), "expected grey ones"),
        (digits(), ((4, 0, 0, 1.5),), "digit 4 at 1.5 times its size: expected digits 0 to 3, at"),
        (digits(), ((0, 0, 0, 2.5),), "at 2.5 times its size"),
        (digits(), ((0, 36, 0, 1.0),), r"at \(36, 0\): expected it to lie on the canvas of"),
        (digits(), 13 * ((0, 0, 0, 1.0),), "start has 13 digits, expected at most 12"),
    ],
)  # fmt: skip
def test_digits_and_starts_that_cannot_be(given, start, words):
    with pytest.raises(ValueError, match=words):
        set_of_answers(detector(), given, start=start)


def test_weights_are_float16():
    assert {value.dtype for value in detector_weights(detector()).values()} == {torch.float16}
