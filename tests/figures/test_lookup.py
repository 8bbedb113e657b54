"""Attention as a soft lookup: numbers by hand, and the handle."""

import numpy as np
import pytest

from vitbook.figures import soft_lookup

SQUARE = [[1, 0], [0, 1], [-1, 0], [0, -1]]


def read(page):
    """The scores and weights of the table under the planes."""
    rows = page.locator(".vb-bar:not(.vb-head)").all()
    cells = [row.locator("span:not(.vb-track)").all_inner_texts() for row in rows]
    return np.array([[float(cell.replace("−", "-")) for cell in row] for row in cells]).T


def softmax(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def test_scores_and_weights_are_those_of_the_formula(show, lookup):
    scores, weights = read(show(lookup))
    expected = np.array(lookup.data["keys"]) @ lookup.data["query"] / np.sqrt(2)
    assert scores == pytest.approx(expected, abs=0.005)
    assert weights == pytest.approx(softmax(expected), abs=0.0005)


def test_at_sharpness_nought_it_looks_everywhere(show, lookup):
    page = show(lookup)
    page.locator("[data-control=sharpness]").fill("0")
    assert read(page)[1] == pytest.approx(np.full(4, 0.25))
    assert "(0.25, 0.00)" in page.locator(".vb-readout").inner_text()


def test_the_handle_follows_the_pointer_and_the_task_is_reached(show, lookup):
    page = show(lookup)
    figure = page.locator(".vitbook-figure")
    assert figure.get_attribute("data-reached") == "false"
    handle = page.locator(".vb-handle .vb-ring").bounding_box()
    plane = page.locator(".vb-square").first.bounding_box()
    page.mouse.move(handle["x"] + 5, handle["y"] + 5)
    page.mouse.down()
    page.mouse.move(plane["x"] + plane["width"] - 2, plane["y"] + plane["height"] * 0.3, steps=5)
    page.mouse.up()
    page.locator("[data-control=sharpness]").fill("3")
    assert figure.get_attribute("data-reached") == "true"
    assert "Reached" in page.locator(".vb-readout").inner_text()


def test_a_finger_moves_the_handle_and_taps_the_plane(browser, lookup, tmp_path):
    file = tmp_path / "touch.html"
    file.write_text(f"<!doctype html>{lookup._repr_html_()}", encoding="utf-8")
    context = browser.new_context(has_touch=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("[data-ready=true]")
    plane = page.locator(".vb-square").first.bounding_box()
    page.touchscreen.tap(plane["x"] + plane["width"] / 4, plane["y"] + plane["height"] / 4)
    assert "query=-1.3" in page.locator(".vitbook-figure").get_attribute("data-state")
    context.close()


@pytest.mark.parametrize("name", ["lookup", "board"])
def test_a_finger_drags_the_handle_and_not_the_page(browser, name, request, tmp_path):
    figure = request.getfixturevalue(name)
    file = tmp_path / "drag.html"
    tall = '<meta name="viewport" content="width=device-width"><div style="height: 3000px"></div>'
    html = figure._repr_html_()
    file.write_text(f"<!doctype html>{html}{tall}", encoding="utf-8")
    context = browser.new_context(has_touch=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("[data-ready=true]")
    page.locator(".vb-handle").scroll_into_view_if_needed()
    before, top = page.locator(".vitbook-figure").get_attribute("data-state"), scrolled(page)
    box = page.locator(".vb-handle").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = context.new_cdp_session(page)
    for kind, away in [("touchStart", 0), *[("touchMove", -8 * i) for i in range(1, 8)]]:
        point = [{"x": x, "y": y + away}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": point})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(300)
    assert scrolled(page) == top
    assert page.locator(".vitbook-figure").get_attribute("data-state") != before
    context.close()


def scrolled(page):
    return page.evaluate("scrollY")


def test_arrow_keys_move_the_query_and_stop_at_the_edge(show, lookup):
    page = show(lookup)
    handle = page.locator("[data-control=query]")
    handle.focus()
    for _ in range(60):
        page.keyboard.press("ArrowUp")
    reach = lookup.data["reach"][0]
    assert handle.get_attribute("aria-valuetext") == f"1.00 across, {0.97 * reach:.2f} up"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"keys": [[1, 2, 3]] * 4}, r"keys came with shape \(4, 3\), expected \(n, 2\)"),
        ({"values": [[1, 2]] * 3}, r"values came with shape \(3, 2\), expected \(4, 2\)"),
        ({"keys": [[float("nan"), 0]] * 4}, "keys hold NaN or infinity"),
        ({"query": [1, 2, 3]}, "the query came with shape"),
        ({"names": "AB"}, "4 keys came with 2 names"),
        ({"goal": "E"}, "goal 'E' is no token, expected one of A, B, C, D"),
    ],
)
def test_bad_input_gets_one_sentence(change, words):
    good = {"keys": SQUARE, "values": SQUARE, "query": [1, 0], "names": "ABCD"}
    with pytest.raises(ValueError, match=words):
        soft_lookup(**good | change)
