"""A finger on what can be dragged moves it and not the page, in every figure, any direction."""

import pytest

# The figure, what a finger takes hold of, and how far it moves that: across, then down.
HANDLES = [
    ("lookup", "[data-control=query]", (-50, 40)), ("board", "[data-control=square]", (60, 40)),
    ("budgets", "[data-control=budget]", (70, 45)), ("ladder", "[data-control=depth]", (20, -80)),
    ("ranking", "li.vb-card:nth-of-type(8) .vb-grip", (25, -120)),
    ("rounds", ".vb-knob", (-45, 40)), ("designs", "[data-control=network]", (-60, 50)),
    ("designs", "[data-control=near]", (-40, 60)),
    ("alike", "[data-control=patch]", (45, 50)), ("alike", "[data-control=token]", (-45, 50)),
    ("gallery", "[data-control=query] [aria-checked=true]", (60, 60)),
    ("masked", ".vb-mask-pad", (60, 60)), ("reader", ".vb-pad", (60, 60)),
    ("hearing", ".vb-mask-pad", (60, 50)),
]  # fmt: skip
SMALL = [handle for handle in HANDLES if handle[0] in ("alike", "rounds", "budgets")]


def middle(page, handle):
    page.locator(handle).first.evaluate("e => e.scrollIntoView({ block: 'center' })")
    box = page.locator(handle).first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def state(page):
    return page.locator(".vitbook-figure").get_attribute("data-state")


def steps(start, *corners, count=6):
    """Places on the way from a start over corners, which are relative to it."""
    ways, at = [start], start
    for across, down in corners:
        to = (start[0] + across, start[1] + down)
        ways += [(at[0] + (to[0] - at[0]) * t / count, at[1] + (to[1] - at[1]) * t / count)
                 for t in range(1, count + 1)]  # fmt: skip
        at = to
    return ways


@pytest.mark.parametrize("first", ["across", "down"])
@pytest.mark.parametrize(("name", "handle", "by"), HANDLES)
def test_a_finger_moves_the_handle_and_not_the_page(request, touched, name, handle, by, first):
    page, finger = touched(request.getfixturevalue(name), above=900)
    start, before = middle(page, handle), state(page)
    top = page.evaluate("scrollY")
    assert top > 0, "so that the page could scroll both ways"
    finger(*steps(start, (by[0], 0) if first == "across" else (0, by[1]), by))
    assert page.evaluate("scrollY") == top
    assert state(page) != before


@pytest.mark.parametrize(("name", "handle", "by"), SMALL)
def test_a_finger_takes_hold_a_little_beside_a_small_handle(request, touched, name, handle, by):
    page, finger = touched(request.getfixturevalue(name), above=900)
    (x, y), before = middle(page, handle), state(page)
    top = page.evaluate("scrollY")
    finger(*steps((x - 21, y), (0, by[1]), by))
    assert page.evaluate("scrollY") == top and state(page) != before


def test_what_is_pressed_beside_a_handle_is_pressed(touched, ranking):
    page, finger = touched(ranking, above=900)
    before = state(page)
    finger(middle(page, ".vb-card:nth-of-type(4) .vb-lift button"))
    assert state(page) != before
