"""What can be dragged goes with a finger and with a mouse, in every figure, in any direction."""

import pytest
from reading import state
from samples import sample

# The figure, what a finger takes hold of, and how far it moves that: across, then down.
HANDLES = [
    ("soft_lookup", "[data-control=query]", (-50, 40)),
    ("cutting_board", "[data-control=square]", (60, 40)),
    ("frontier", "[data-control=budget]", (70, 45)),
    ("layer_gradients", "[data-control=depth]", (20, -80)),
    ("checkpoint_ranking", "li.vb-card:nth-of-type(8) .vb-grip", (25, -120)),
    ("rounding_grid", ".vb-knob", (-45, 40)),
    ("design_counter", "[data-control=network]", (-60, 50)),
    ("alike_patches", "[data-control=patch]", (45, 50)),
    ("alike_patches", "[data-control=token]", (-45, 50)),
    ("attention_gallery", "[data-control=query] [aria-checked=true]", (60, 60)),
    ("masked_photograph", ".vb-mask-pad", (60, 60)),
    ("deletion_curves", ".vb-mask-pad", (60, 60)),
    ("digit_reader", ".vb-pad", (60, 60)),
    ("hearing_map", ".vb-mask-pad", (60, 50)),
    ("set_of_answers", ".vb-digit", (60, 50)),
    ("swapped_tokens", ".vb-mask-pad", (60, 60)),
]
# Over those of the other a mouse has only to pass.
DRAGGED = [handle for handle in HANDLES if handle[0] != "alike_patches"]
# Here a finger that goes down scrolls: six surfaces fill the screen of a phone.
DRAGGED += [("mask_painter", ".vb-canvass", (60, 40))]
SMALL = [handle for handle in HANDLES if handle[0] in ("frontier", "rounding_grid")]


def middle(page, handle):
    page.locator(handle).first.evaluate("e => e.scrollIntoView({ block: 'center' })")
    box = page.locator(handle).first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def steps(start, *corners, count=6):
    """Places on the way from a start over corners, which are relative to it."""
    ways, at = [start], start
    for across, down in corners:
        to = (start[0] + across, start[1] + down)
        ways += [(at[0] + (to[0] - at[0]) * t / count, at[1] + (to[1] - at[1]) * t / count)
                 for t in range(1, count + 1)]  # fmt: skip
        at = to
    return ways


@pytest.mark.parametrize(("name", "handle", "by"), HANDLES)
def test_a_finger_moves_the_handle_and_not_the_page(touched, name, handle, by):
    page, finger = touched(sample(name), above=900)
    for first in ((0, by[1]), (by[0], 0)):
        start, before = middle(page, handle), state(page)
        top = page.evaluate("scrollY")
        assert top > 0, "so that the page could scroll both ways"
        finger(*steps(start, first, by))
        assert page.evaluate("scrollY") == top
        assert state(page) != before
        page.click("[data-control=reset]")


@pytest.mark.parametrize(("name", "handle", "by"), DRAGGED)
def test_a_mouse_moves_the_handle_and_lets_go_of_it(show, name, handle, by):
    page = show(sample(name))
    start, before = middle(page, handle), state(page)
    page.mouse.move(*start)
    page.mouse.down()
    for place in steps(start, by):
        page.mouse.move(*place)
    page.mouse.up()
    moved = state(page)
    assert moved != before and page.evaluate("getSelection().toString()") == ""
    page.mouse.move(start[0], start[1] + 15)
    assert state(page) == moved, "a mouse without its button moves nothing"


@pytest.mark.parametrize(("name", "handle", "by"), SMALL)
def test_a_finger_takes_hold_a_little_beside_a_small_handle(touched, name, handle, by):
    page, finger = touched(sample(name), above=900)
    (x, y), before = middle(page, handle), state(page)
    top = page.evaluate("scrollY")
    finger(*steps((x - 21, y), (0, by[1]), by))
    assert page.evaluate("scrollY") == top and state(page) != before


# Where a finger scrolls: beside what it drags, in figures whose drawing is as wide as the page.
BESIDE = [("checkpoint_ranking", "li.vb-card:nth-of-type(5)"), ("frontier", ".vb-plot"),
          ("layer_gradients", "svg.vb-ladder"), ("rounding_grid", ".vb-along >> nth=3"),
          ("soft_answers", "div.vb-answers"), ("mask_painter", ".vb-canvass"),
          ("attention_gallery", ".vb-gallery .vb-image")]  # fmt: skip


@pytest.mark.parametrize(("name", "drawing"), BESIDE)
def test_beside_it_a_finger_scrolls_the_page(touched, name, drawing):
    page, finger = touched(sample(name))
    box, before = page.locator(drawing).first.bounding_box(), state(page)
    x, y = box["x"] + min(80, box["width"] / 8), box["y"] + 0.85 * box["height"]
    finger((x, y), (x, y - 50), (x, y - 160))
    assert page.evaluate("scrollY") > 0 and state(page) == before


def test_what_is_pressed_beside_a_handle_is_pressed(touched):
    page, finger = touched(sample("checkpoint_ranking"), above=900)
    before = state(page)
    finger(middle(page, ".vb-card:nth-of-type(4) .vb-lift button"))
    assert state(page) != before
