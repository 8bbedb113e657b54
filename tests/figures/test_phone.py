"""On a phone of 390 x 844 px a control and what it changes are on one screen."""

SCREEN = 844
ROOM = 700  # what the bars of the browser leave of it
DRAWINGS = (".vb-live :is(.vb-image, svg:not(svg svg), .vb-class, .vb-bar, .vb-logits, .vb-moves, "
            ".vb-answers, .vb-terms, .vb-atlas, .vb-along, .vb-scale, .vb-price, .vb-revealed, "
            ".vb-ranking li)")  # fmt: skip
# Each drawing: from where to where it reaches down the page, and what is drawn.
LOOK = """selector => [...document.querySelectorAll(selector)].map((e) => {
  const { top, bottom, width, height } = e.getBoundingClientRect();
  if (height < 6 || width < 20) return null;
  const canvases = e.matches("canvas") ? [e] : [...e.querySelectorAll("canvas")];
  const html = e.outerHTML.replace(/ (aria-[a-z]+|tabindex)="[^"]*"/g, "");
  return [top + scrollY, bottom + scrollY, html + canvases.map((c) => c.toDataURL()).join()];
})"""


def turn(page, control):
    """Put a control elsewhere by keyboard."""
    own = control.evaluate("e => e.matches('button, input, select, [tabindex]')")
    (control if own else control.locator("[tabindex='0']").first).focus()
    before = page.locator(".vitbook-figure").get_attribute("data-state")
    for key in ("ArrowDown", "ArrowRight", "Enter", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
        if page.locator(".vitbook-figure").get_attribute("data-state") != before:
            return


def test_a_control_and_its_drawing_are_on_one_screen(show, figure):
    page = show(figure, width=390)
    page.set_viewport_size({"width": 390, "height": SCREEN})
    for control in page.locator("[data-control]:not([data-control=reset])").all():
        if not control.is_visible():
            continue
        box = control.bounding_box()
        top = box["y"] + page.evaluate("scrollY")
        low = top + box["height"]
        before = page.evaluate(LOOK, DRAWINGS)
        turn(page, control)
        page.wait_for_timeout(250)
        after = page.evaluate(LOOK, DRAWINGS)
        spans = [
            max(one[1], low) - min(one[0], top)
            for one, other in zip(before, after, strict=False)
            if one and other and one[2] != other[2] and not (one[0] >= top and one[1] <= low)
        ]
        name = control.get_attribute("data-control")
        if spans:  # else it changes itself or words alone
            assert min(spans) <= ROOM, f"{name}: its nearest drawing needs {min(spans):.0f} px"
        page.click("[data-control=reset]")
