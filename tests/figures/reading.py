"""A figure opened in a page, and what a test reads of it and does to it."""

FIGURE = ".vitbook-figure"
KEYS = ("ArrowDown", "ArrowRight", "Enter", "ArrowUp", "ArrowLeft")
READY = f"[...document.querySelectorAll('{FIGURE}')].every(f => f.dataset.ready)"
# Of a photograph's model: whether what is shown is computed, and an output as text, since a list of
# millions of numbers takes a browser minutes to tell.
PACKED = """(root, name) => new Promise((done) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result.split(",")[1]);
  reader.readAsDataURL(new Blob([root.found.outputs[name].data]));
})"""
COMPUTED = "r => r.found && r.marks && r.found.key === r.marks.join('')"


class Opened:
    """HTML opened as plain files, what the console says of errors, and what is asked for."""

    def __init__(self, browser, folder):
        self.browser, self.folder, self.contexts = browser, folder, []
        self.troubles, self.asked = [], []

    def __call__(self, *figures, width=900, wait=True, **options):
        html = "".join(f if isinstance(f, str) else f._repr_html_() for f in figures)
        file = self.folder / f"page{len(self.contexts)}.html"
        head = '<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">'
        file.write_text(f"{head}<title>figures</title><body>{html}", encoding="utf-8")
        size = {"width": width, "height": 900}
        self.contexts.append(self.browser.new_context(viewport=size, **options))
        page = self.contexts[-1].new_page()
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self.troubles.append(said.text))
        page.goto(file.as_uri())
        if wait:
            page.wait_for_function(READY)
        return page

    def close(self):
        for context in self.contexts:
            context.close()


def computed(page, name):
    """What a figure computed, as its script keeps it for the console."""
    return page.evaluate(f"document.querySelector('{FIGURE}').{name}")


def state(page, nth=0):
    return page.locator(FIGURE).nth(nth).get_attribute("data-state")


def parts(page):
    """The state by its parts."""
    return dict(pair.split("=") for pair in state(page).split())


def reached(page):
    return page.locator(FIGURE).get_attribute("data-reached") == "true"


def said(page):
    """What stands under the figure, with plain spaces."""
    return page.locator(".vb-readout").inner_text().replace("\xa0", " ")


def pick(page, control, nth):
    page.locator(f"[data-control={control}] button").nth(nth).click()


def put(page, **sliders):
    for control, value in sliders.items():
        page.locator(f"[data-control={control}]").fill(str(value))


def press(page, control, *keys):
    """Keys on a control, or on what is chosen of it."""
    target = page.locator(f"[data-control={control}]")
    inner = target.locator("[tabindex='0']")
    (inner.first if inner.count() else target).focus()
    for key in keys:
        page.keyboard.press(key)


def turn(page, control):
    """Put a control of a page or a frame elsewhere by keyboard: the key that did it."""
    own = control.evaluate("e => e.matches('button, input, select, [tabindex]')")
    (control if own else control.locator("[tabindex='0']").first).focus()
    before, window = state(page), getattr(page, "page", page)
    for key in KEYS:
        window.keyboard.press(key)
        window.wait_for_timeout(30)
        if state(page) != before:
            return key
    return None


def terms(page):
    """The large numbers."""
    return page.locator(".vb-terms b").all_inner_texts()


def middle(page, handle, nth=0):
    """The middle of an element on the screen."""
    box = page.locator(handle).nth(nth).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
