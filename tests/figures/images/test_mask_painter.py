"""Painted patches: the page's head is ridge regression, its masks torch's, and a stroke paints."""

from base64 import b64decode

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import computed, middle, parts, press, reached, said
from small_inputs import seeded
from torch.nn.functional import interpolate

from vitbook.figures import mask_painter
from vitbook.figures.mask_painter.head import PENALTY, head_scores, marked, overlaps

NAMES = ("cat", "rocket", "flower")
GRID = (4, 6)
PAINTED = {0: ([(1, 1), (1, 2)], [(3, 5)])}


def objects():
    """Of 4 x 6 patches a block in each photograph, and the same as masks of 24 x 24 pixels."""
    cells = torch.zeros(3, *GRID, dtype=torch.bool)
    cells[0, 1:3, 1:4] = cells[1, 0:2, 2:5] = cells[2, 2:4, 0:3] = True
    return cells, cells.repeat_interleave(6, 1).repeat_interleave(4, 2)


def made(**change):
    images = torch.randint(0, 256, (3, 3, 16, 24), dtype=torch.uint8, generator=seeded(2))
    cells, masks = objects()
    noise = torch.randn(2, 3, 24, 40, generator=seeded(3))
    told = noise[0] / 4
    told[..., 0] += 6 * cells.flatten(1)
    given = dict(tokens={"block 10": told, "noise": noise[1]}, masks=masks, grid_size=GRID,
                 names=NAMES, painted=PAINTED, goal=(0.6, 4), task="Paint.")  # fmt: skip
    return mask_painter(images, **given | change)


def sample():
    return made()


def levels(figure, source=0):
    raw = np.frombuffer(b64decode(figure.data["sources"][source][1]), np.int8)
    return raw.reshape(3 * 24, -1)


def marks(painted=PAINTED):
    made = np.zeros((3, *GRID), int)
    for photo, kinds in painted.items():
        for kind, places in zip((1, -1), kinds, strict=True):
            for place in places:
                made[photo][place] = kind
    return made.ravel()


def naive(levels, marks):
    """The same as one system of least squares, with a row for each number that is penalised."""
    inputs = levels / max(np.sqrt((levels.astype(float) ** 2).mean()), 1e-12)
    inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], 1)
    weight = np.sqrt(np.where(marks > 0, 0.5 / (marks > 0).sum(), 0.5 / (marks < 0).sum()))
    seen = marks != 0
    held = np.sqrt(PENALTY) * np.eye(levels.shape[1], levels.shape[1] + 1)
    rows = np.concatenate([weight[seen, None] * inputs[seen], held])
    wanted = np.concatenate([(weight * marks)[seen], np.zeros(len(held))])
    return inputs @ np.linalg.lstsq(rows, wanted, rcond=None)[0]


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 40), st.integers(1, 32), st.integers(0, 10_000))
def test_the_head_is_ridge_regression_in_the_page_and_in_python(js, patches, width, seed):
    rng = np.random.default_rng(seed)
    levels = rng.integers(-127, 128, (patches, width)).astype(np.int8)
    marks = rng.integers(-1, 2, patches)
    marks[:2] = 1, -1
    found = head_scores(levels, marks)
    assert found == pytest.approx(naive(levels, marks), abs=1e-8)
    page = js("head", "Array.from(headScores(Int8Array.from(levels), marks, penalty))",
              levels=levels.ravel(), marks=marks, penalty=PENALTY)  # fmt: skip
    assert page == pytest.approx(found.tolist(), abs=1e-8)


def test_both_classes_weigh_alike_however_much_is_painted_of_each():
    tokens = np.array([[1]] * 9 + [[-1]] + [[0]], np.int8)
    marks = np.array([1] * 9 + [-1, 0])
    few, even = head_scores(tokens, marks), head_scores(tokens[8:], marks[8:])
    assert few[-1] == pytest.approx(0) and even[-1] == pytest.approx(0)
    assert (few[0] > 0) and few[0] == pytest.approx(-few[9])


@pytest.mark.parametrize("marks", [[0, 0, 0], [1, 0, 1], [-1, 0, 0]])
def test_without_both_classes_there_is_no_head(js, marks):
    tokens = np.ones((3, 2), np.int8)
    assert head_scores(tokens, np.array(marks)) is None
    assert js("head", "headScores(Int8Array.from(levels), marks, 1)", levels=tokens.ravel(),
              marks=marks) is None  # fmt: skip


def test_tokens_that_are_all_alike_give_the_mean_of_the_classes(js):
    tokens, marks = np.zeros((4, 3), np.int8), [1, 1, -1, 0]
    found = js("head", "Array.from(headScores(new Int8Array(12), marks, 1))", marks=marks)
    assert found == pytest.approx([0] * 4) == head_scores(tokens, np.array(marks)).tolist()


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 20), st.integers(0, 99))
def test_scores_are_enlarged_as_by_torch(js, rows, columns, side, seed):
    scores = torch.randn(1, 1, rows, columns, dtype=torch.float64, generator=seeded(seed))
    wanted = interpolate(scores, (side, side), mode="bilinear", align_corners=False)
    found = js("head", "Array.from(enlarged(scores, grid, side))", scores=scores.flatten(),
               grid=[rows, columns], side=side)  # fmt: skip
    assert found == pytest.approx(wanted.flatten().tolist(), abs=1e-9)
    assert (marked(scores[:, 0].numpy(), side) == (wanted[:, 0] > 0).numpy()).all()


def test_masks_come_back_from_their_bits_and_are_compared(js):
    found, true = np.array([[[1, 1, 0], [1, 0, 0], [0, 0, 0]], [[0] * 3] * 3]).astype(bool), None
    true = np.array([[[0, 1, 1], [1, 0, 0], [0, 0, 0]], [[0] * 3] * 3]).astype(bool)
    assert overlaps(found, true).tolist() == [0.5, 0]
    for i, wanted in enumerate((0.5, 0)):
        one, other = (each[i].ravel().astype(int) for each in (found, true))
        assert js("head", "overlap(one, other)", one=one, other=other) == wanted
        assert js("head", "Array.from(unpacked(raw, 9))", raw=np.packbits(one)) == one.tolist()


def test_the_edges_of_a_mask_go_around_it(js):
    assert js("head", "outline([0, 1, 0, 0], 2)") == "M1 0h1M1 1h1M1 0v1M2 0v1"
    full = js("head", "outline(Array(9).fill(1), 3)")
    assert full.count("M") == 12


def test_it_opens_with_the_head_on_what_is_painted(page):
    assert parts(page) == {"source": "0", "brush": "0", "truth": "false", "painted": "7+.8+.23-"}
    scores = head_scores(levels(sample()), marks())
    assert computed(page, "scores") == pytest.approx(scores.tolist(), abs=1e-8)
    ious = overlaps(marked(scores.reshape(3, *GRID), 24), objects()[1].numpy())
    assert computed(page, "ious") == pytest.approx(ious.tolist())
    words = f"{ious[1:].mean():.2f} on 2 photographs not painted, {ious[0]:.2f} on 1 painted."
    assert said(page).startswith(f"3 patches are painted. Mean IoU: {words}")
    assert words in sample().description.partition("\n")[0]
    shown = page.locator(".vb-found > :last-child").all_inner_texts()
    assert shown == [f"IoU {each:.2f}" for each in ious]


def test_what_is_dark_is_what_the_head_leaves_out(page):
    alphas = page.evaluate("""[...document.querySelectorAll('.vb-canvass canvas')].map((veil) =>
      [...veil.getContext('2d').getImageData(0, 0, 24, 24).data].filter((_, i) => i % 4 === 3))""")
    found = marked(np.array(computed(page, "scores")).reshape(3, *GRID), 24)
    assert ((np.array(alphas) == 0) == found.reshape(3, -1)).all() and 0 < found.mean() < 1


def test_another_source_gives_other_scores(page):
    page.select_option("[data-control=source]", "1")
    wanted = head_scores(levels(sample(), 1), marks())
    assert parts(page)["source"] == "1"
    assert computed(page, "scores") == pytest.approx(wanted.tolist(), abs=1e-8)


def drag(page, nth, start, end):
    """A stroke over a photograph from (row, column) to another."""
    box = page.locator(".vb-canvass").nth(nth).bounding_box()
    at = [(box["x"] + box["width"] * (c + 0.5) / 6, box["y"] + box["height"] * (r + 0.5) / 4)
          for r, c in (start, end)]  # fmt: skip
    page.mouse.move(*at[0])
    page.mouse.down()
    page.mouse.move(*at[1], steps=3)
    page.mouse.up()


def brush(page, name):
    page.get_by_role("radio", name=name).click()


def test_a_stroke_paints_with_the_brush_and_a_second_one_wipes(page):
    drag(page, 1, (0, 2), (0, 4))
    assert parts(page)["painted"] == "7+.8+.23-.26+.27+.28+"
    brush(page, "Background")
    drag(page, 1, (0, 4), (0, 5))  # over the object's end
    assert parts(page)["painted"] == "7+.8+.23-.26+.27+.28-.29-"
    drag(page, 1, (0, 5), (0, 4))  # begun on one of its own
    assert parts(page)["painted"] == "7+.8+.23-.26+.27+"
    brush(page, "Wipe")
    drag(page, 1, (0, 2), (0, 5))
    drag(page, 1, (0, 2), (0, 5))
    assert parts(page)["painted"] == "7+.8+.23-"


def test_the_keys_walk_and_space_paints(page):
    handle = page.locator("[data-control=patch]").nth(2)
    handle.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    label = handle.get_attribute("aria-label")
    assert label == "flower, row 2, column 1: not painted; arrow keys move, space paints"
    page.keyboard.press("Space")
    assert parts(page)["painted"] == f"7+.8+.23-.{48 + 6}+"
    assert "row 2, column 1: object" in handle.get_attribute("aria-label")
    page.keyboard.press("Enter")
    assert parts(page)["painted"] == "7+.8+.23-"


def test_without_both_classes_it_says_what_to_paint(page):
    page.click("[data-control=clear]")
    assert parts(page)["painted"] == "none" and computed(page, "scores") is None
    assert "Drag over patches of an object, then over its background" in said(page)
    assert page.locator(".vb-found > :last-child").all_inner_texts() == [""] * 3
    drag(page, 0, (1, 1), (1, 2))
    assert "some patches of the background too" in said(page)
    page.click("[data-control=clear]")
    brush(page, "Background")
    drag(page, 0, (3, 3), (3, 5))
    assert "some patches of an object too" in said(page)


def test_every_photograph_may_be_painted(page):
    for nth in (1, 2):
        drag(page, nth, (0, 0), (0, 0))
    assert said(page).startswith("5 patches are painted. Mean IoU: 0.")
    assert "on 3 painted" in said(page) and "not painted" not in said(page)
    assert not reached(page)


def test_the_true_masks_are_drawn_where_they_are_asked_for(page):
    edge = page.locator(".vb-canvass .vb-ink.vb-edge:not(.vb-head)")
    assert edge.first.get_attribute("d") == ""
    press(page, "truth", "Space")
    bounds = edge.first.evaluate(
        "e => { const b = e.getBBox(); return [b.x, b.y, b.width, b.height]; }"
    )
    assert bounds == [4, 6, 12, 12]  # of 24


def test_the_task_is_reached_with_few_patches_on_the_photographs_of_the_start(page):
    mean = np.mean(computed(page, "ious")[1:])
    assert mean >= 0.6, "else the sample does not try what this test is about"
    assert reached(page) and f"✓ Reached: {mean:.2f} on photographs not painted, with 3" in said(
        page
    )
    drag(page, 0, (1, 3), (2, 3))
    assert not reached(page) and "The task allows 4 patches." in said(page)
    page.click("[data-control=reset]")
    drag(page, 1, (0, 2), (0, 2))
    assert not reached(page) and "The task allows paint on cat alone." in said(page)


def test_a_finger_across_paints_and_a_second_one_does_nothing(touched):
    page, finger = touched(sample(), above=900)
    page.locator(".vb-canvass").nth(1).evaluate("e => e.scrollIntoView({ block: 'center' })")
    before, top, (x, y) = parts(page), page.evaluate("scrollY"), middle(page, ".vb-canvass", 1)
    finger((x, y), (x + 20, y), (x + 60, y))
    assert page.evaluate("scrollY") == top and parts(page)["painted"] != before["painted"]


def test_large_masks_are_kept_at_112_pixels():
    masks = torch.zeros(3, 448, 448, dtype=torch.bool)
    masks[:, 40:80, 200:300] = True
    data = made(masks=masks).data
    kept = np.unpackbits(np.frombuffer(b64decode(data["masks"][1]), np.uint8)).reshape(112, 112)
    assert data["side"] == 112 and kept[10:20, 50:75].all() and kept.sum() == 250


def test_a_start_without_paint_says_so():
    assert made(painted={}, goal=None).description.startswith("At the start: too little is painted")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(tokens={}), "no tokens came: expected at least one source"),
        (dict(tokens={"a": torch.ones(3, 25, 8)}), r"tokens of 'a' came as \(3, 25, 8\), expected"),
        (dict(tokens={"a": torch.ones(2, 24, 8)}), r"expected \(3, 24, width\), one for each"),
        (dict(tokens={"a": torch.full((3, 24, 8), torch.nan)}), "tokens of 'a' hold NaN or inf"),
        (dict(names=("cat",)), "1 names came for 3 images, expected one for each"),
        (dict(masks=objects()[1][:2]), "2 masks came for 3 images, expected one for each"),
        (dict(masks=objects()[1].int()), r"came as int32 of shape \(3, 24, 24\), expected bool"),
        (dict(masks=objects()[0]), r"shape \(3, 4, 6\), expected bool \(n, side, side\)"),
        (dict(masks=objects()[1] & False), "the mask of cat is empty at 24 x 24 pixels"),
        (dict(painted={3: ([], [])}), "photograph 3 is painted: there are 3, counted from 0"),
        (dict(painted={0: ([(4, 0)], [])}), r"patch \(4, 0\): the grid has 4 rows and 6 columns"),
        (dict(painted={0: ([(1, 0)], [(1, 0)])}), r"patch \(1, 0\) of photograph 0 is pai"),
        (dict(painted={}), "the goal counts paint on the photographs of the start: paint some"),
        (dict(painted={i: ([(0, 0)], []) for i in range(3)}), "not painted .*, and all are"),
        (dict(goal=(50, 4)), r"goal \(50, 4\): expected a mean IoU above 0, at most 1"),
        (dict(goal=(0.5, 1)), "and 2 patches or more, one of each kind"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(change, words):
    with pytest.raises(ValueError, match=words):
        made(**change)


def test_more_tokens_than_a_page_holds_are_refused():
    tokens = {f"block {i}": torch.zeros(3, 24, 40) for i in range(500)}
    with pytest.raises(
        ValueError, match=r"500 sources and 3 images make 1\.2 MB, expected at most"
    ):
        made(tokens=tokens)
