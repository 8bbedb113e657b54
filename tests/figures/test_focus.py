"""Whoever walks a figure by keyboard sees where they are, also on what is chosen; and by finger."""

import io

import numpy as np
import pytest
from PIL import Image

HERE = """() => {
  const e = document.activeElement, box = e.getBoundingClientRect();
  return e === document.body ? null : {
    name: e.closest('[data-control]')?.dataset.control ?? e.textContent,
    toggle: e.ariaPressed === 'false' && !e.closest('.vb-grid'),
    x: box.x, y: box.y, width: box.width, height: box.height,
  };
}"""
MARGIN = 8
# Pixels. What WCAG 2.2 calls enough is 2 (2.4.13); the thinnest ring has 2.02, of all 70 stops.
LINE = 1.9


def luminance(page, at):
    """Relative luminance (WCAG 2.2) of what is drawn within a margin of an element."""
    clip = {
        "x": max(at["x"] - MARGIN, 0), "y": max(at["y"] - MARGIN, 0),
        "width": at["width"] + 2 * MARGIN, "height": at["height"] + 2 * MARGIN,
    }  # fmt: skip
    shot = page.screenshot(clip=clip)
    c = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def thickness(page, at):
    """The area that the focus changes by a contrast of 3 to 1, as a line around the element."""
    focused = luminance(page, at)
    page.evaluate("window.was = document.activeElement; was.blur()")
    low, high = np.sort([focused, luminance(page, at)], axis=0)
    page.evaluate("was.focus({ focusVisible: true })")
    area = ((high + 0.05) / (low + 0.05) >= 3).sum()
    return area / (2 * (at["width"] + at["height"]))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_focus_is_seen_on_every_stop(show, figure, theme):
    page = show(figure, theme=theme)
    page.set_viewport_size({"width": 900, "height": 2000})
    page.add_style_tag(content="* { transition: none !important }")
    seen = {}
    for _ in range(40):
        page.keyboard.press("Tab")
        at = page.evaluate(HERE)
        if at is None:
            break
        seen[at["name"]] = thickness(page, at)
        if at["toggle"]:
            page.keyboard.press("Space")
            seen[at["name"] + ", pressed"] = thickness(page, page.evaluate(HERE))
    controls = page.locator("[data-control]").evaluate_all(
        "all => all.map((e) => e.dataset.control)"
    )
    assert len(seen) > 2 or set(seen) == set(controls)  # four quarters are one stop, and a reset
    assert {name: part for name, part in seen.items() if part < LINE} == {}


def test_a_second_tap_does_not_zoom_the_page(show, figure):
    """Two quick taps on neighbouring cells would: `touch-action` is not inherited."""
    ways = show(figure).evaluate(
        "[...document.querySelectorAll('.vb-live button')]"
        ".map((button) => getComputedStyle(button).touchAction)"
    )
    assert set(ways) == {"manipulation"}
