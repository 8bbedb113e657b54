"""The pretrained model in the page: its answers against torch, strokes, downloads, cameras."""

import io
import json
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
import torch
from browser import serve
from PIL import Image

from vitbook import datasets
from vitbook.analysis import capture_attention, list_blocks
from vitbook.analysis.capture.outputs import capture_outputs
from vitbook.figures import data_flow

pytestmark = pytest.mark.browser

BUILT = Path(__file__).resolve().parents[2] / "_build" / "html" / "_model"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "photos"
# An output as text, since a list of millions of numbers takes a browser minutes to tell.
PACKED = """(root, name) => new Promise((done) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result.split(",")[1]);
  reader.readAsDataURL(new Blob([root.found.outputs[name].data]));
})"""
COMPUTED = "r => r.found && r.marks && r.found.key === r.marks.join('')"


@pytest.fixture(scope="module")
def torch_model():
    from vitbook.export.page_model import PageModel

    return PageModel(224).eval()


@pytest.fixture
def site(tmp_path, photo_figure, torch_model):
    """A folder as it is built: a page with the figure, and the model beside it."""
    manifest = BUILT / "manifest.json"
    if not manifest.exists() or "missing" in json.loads(manifest.read_text()):
        pytest.skip("the model is not beside the built book: run `make book`")
    with torch.no_grad():
        saliency = torch_model(torch_model.normalize(photo_figure.photographs[:1]))["saliency"][0]
    torch.manual_seed(0)
    flow = data_flow(
        photo_figure.photographs[0], torch.randn(13, 257, 384), torch.rand(12, 257, 257) / 257,
        saliency, grid_size=(16, 16), patch_size=14, start=(3, 4),
    )  # fmt: skip
    html = photo_figure(saliency)._repr_html_() + flow._repr_html_()
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">'
    (tmp_path / "page.html").write_text(f"{head}<title>photo</title><body>{html}")
    (tmp_path / "_model").symlink_to(BUILT)
    with serve(tmp_path) as address:
        yield address


@pytest.fixture
def visit(browser, site):
    """Open the page; what its console says of errors is kept in `troubles`."""
    contexts = []

    def open_page(prepare=None, **options):
        contexts.append(browser.new_context(viewport={"width": 900, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.troubles = []
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on(
            "request",
            lambda request: (
                page.troubles.append(request.url)
                if request.url.startswith("http") and not request.url.startswith(site)
                else None
            ),
        )
        if prepare:
            prepare(page)
        page.goto(f"{site}/page.html")
        page.wait_for_function("document.querySelector('.vitbook-figure').dataset.ready")
        return page

    yield open_page
    for context in contexts:
        context.close()


def figure(page):
    return page.locator(".vitbook-figure").first


def load(page):
    page.wait_for_selector("[data-press=load]:has-text('MB')")
    page.click("[data-press=load]")
    page.wait_for_selector(".vb-photo-results:not([hidden])", timeout=120_000)
    return page


def computed(page):
    page.wait_for_function(f"() => ({COMPUTED})(document.querySelector('.vitbook-figure'))",
                           timeout=60_000)  # fmt: skip


def png(image) -> dict:
    file = io.BytesIO()
    Image.fromarray(np.asarray(image)).save(file, "PNG")
    return {"name": "mine.png", "mimeType": "image/png", "buffer": file.getvalue()}


def give(page, **file):
    page.set_input_files("input[type=file]", file)


def outputs_of(model, images) -> dict[str, torch.Tensor]:
    """What torch computes, by the names of the page's outputs."""
    blocks, found = list_blocks(model), {}
    with (
        torch.no_grad(), capture_attention(model) as maps,
        capture_outputs(model, blocks, lambda path, output: output) as tokens,
    ):  # fmt: skip
        found |= {f"answer:{name}": each for name, each in model(model.normalize(images)).items()}
    found |= {f"tokens:{path}": each for path, each in tokens.items()}
    return found | {f"attention:{path}": each for path, each in maps.items()}


def test_photographs_against_torch_with_the_network_cut(visit, torch_model):
    files = sorted(SHARED.glob("kodim*.jpg"))[:3]
    if not files:
        pytest.skip("no photographs are here; the book's own nine are compared as it is built")
    page = load(visit())
    page.context.set_offline(True)
    apart: dict[str, float] = {}
    for file in files:
        with Image.open(file) as opened:
            square = datasets.resizing.from_photo(np.asarray(opened.convert("RGB")), 224)
        before = figure(page).evaluate("r => r.found.outputs['answer:saliency'].data[0]")
        give(page, **png(square.permute(1, 2, 0).numpy()))
        page.wait_for_function(
            "(was) => { const f = document.querySelector('.vitbook-figure').found;"
            " return f && f.outputs['answer:saliency'].data[0] !== was }", arg=before)  # fmt: skip
        wanted = outputs_of(torch_model, square[None])
        for name, each in wanted.items():
            data = np.frombuffer(b64decode(figure(page).evaluate(PACKED, name)), "<f4").copy()
            far = (torch.from_numpy(data) - each.flatten()).abs().max() / each.abs().max()
            kind = name if name.startswith("answer") else name.partition(":")[0]
            apart[kind] = max(apart.get(kind, 0), far.item())
    print({kind: round(far, 3) for kind, far in apart.items()})
    assert apart["answer:saliency"] < 0.1 and apart["tokens"] < 0.15 and apart["attention"] < 0.3
    assert page.troubles == []


def test_a_stroke_changes_the_answer_and_is_taken_back(visit):
    page = load(visit())
    first = figure(page).evaluate("r => r.clean.outputs['answer:tiny_imagenet'].data[0]")
    page.select_option("[data-control=tool]", "blank")
    box = page.locator(".vb-photo-pad").bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.3 * box["height"], steps=3)
    page.mouse.up()
    computed(page)
    state = figure(page).evaluate(
        "r => [[...r.marks], r.found.outputs['answer:tiny_imagenet'].data[0]]"
    )
    marks = np.reshape(state[0], (16, 16))
    assert marks.sum() == 6 and marks[4, 4:10].all(), "each patch on the way, once"
    assert state[1] != first
    assert "With 6 of 256 patches" in page.inner_text(".vb-readout") or page.locator(
        ".vb-readout strong").count()  # fmt: skip
    page.click("[data-control=clear]")
    computed(page)
    assert figure(page).evaluate("r => r.found.outputs['answer:tiny_imagenet'].data[0]") == first
    assert not page.locator("[data-control=clear]").is_visible() and page.troubles == []


def test_strokes_made_before_the_model_came_are_told_beside_a_run_without_them(visit):
    page = visit()
    page.select_option("[data-control=tool]", "blank")
    page.locator(".vb-photo-pad").click()
    load(page)
    page.wait_for_selector(".vb-readout:has-text('1 of 256 patches'), .vb-readout strong")
    keys = figure(page).evaluate("r => [r.clean.key, r.found.key].map((key) => Number(key) > 0)")
    assert keys == [False, True]
    assert page.locator("text=The same before the brush").is_visible() and page.troubles == []


def test_a_patch_is_followed_through_the_reader_s_photograph(visit, photo_figure, torch_model):
    page = load(visit())
    page.select_option("[data-control=size]", "112")
    computed(page)
    page.click("[data-press=follow]")
    flow = page.locator(".vitbook-figure").nth(1)
    flow.get_by_role("button", name="Layers").or_(flow.get_by_role("radio", name="Layers")).click()
    assert flow.locator(".vb-live").count() == 1
    looks = flow.evaluate("r => r.looks")
    patch = int(figure(page).get_attribute("data-state").split("patch=")[1].split()[0])
    maps = figure(page).evaluate(
        """(r) => { const [, map] = Object.entries(r.found.outputs).find(([k]) => k.startsWith(
             "attention:")); return { dims: map.dims, data: Array.from(map.data) }; }"""
    )
    row = np.reshape(maps["data"], maps["dims"])[0, :, 1 + patch].mean(0)
    assert [token for token, _ in looks] == np.argsort(-row, kind="stable")[: len(looks)].tolist()
    assert looks[0][1] == pytest.approx(row.max(), rel=1e-5)
    assert "Layer 1 of 12" in flow.inner_text() and page.troubles == []


def test_by_keyboard_and_the_smaller_size(visit):
    page = load(visit())
    page.select_option("[data-control=size]", "112")
    computed(page)
    assert figure(page).evaluate("r => r.found.outputs['answer:saliency'].dims") == [1, 112, 112]
    page.select_option("[data-control=tool]", "blur")
    handle = page.locator("[data-control=patch]").first
    where = figure(page).get_attribute("data-state")
    handle.press("ArrowRight")
    assert figure(page).get_attribute("data-state") != where
    handle.press("Space")
    computed(page)
    marks = page.evaluate("[...document.querySelector('.vitbook-figure').marks]")
    assert len(marks) == 64 and sorted(marks)[-2:] == [0, 2]
    layer = page.locator("[data-control=layer]").first
    layer.press("Home")
    assert "Layer 1," in page.inner_text(".vb-readout")
    page.select_option("[data-control=head]", "3")
    assert "head 4" in page.inner_text(".vb-readout") and page.troubles == []


def test_a_finger_paints_and_the_page_stays(visit):
    page = visit(has_touch=True)
    page.evaluate("document.body.style.paddingBottom = '2000px'")
    page.select_option("[data-control=tool]", "blank")
    page.locator(".vb-photo-pad").scroll_into_view_if_needed()
    top = page.evaluate("scrollY")
    box = page.locator(".vb-photo-pad").bounding_box()
    finger = page.context.new_cdp_session(page)
    x, y = box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"]
    for kind, at in (("touchStart", [(x, y)]), ("touchMove", [(x, y + 60)]),
                     ("touchMove", [(x, y + 120)]), ("touchEnd", [])):  # fmt: skip
        finger.send("Input.dispatchTouchEvent",
                    {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in at]})  # fmt: skip
    page.wait_for_timeout(100)
    marks = np.reshape(
        page.evaluate("[...document.querySelector('.vitbook-figure').marks]"), (16, 16)
    )
    assert marks[:, 4].sum() == marks.sum() >= 4 and page.evaluate("scrollY") == top


def test_a_download_that_is_cut_goes_on(visit):
    asked = []

    def cut(route):
        asked.append(route.request.url.rsplit("/", 1)[1])
        # The third piece fails four times, until the reader is told; then it comes.
        if asked[-1] == "weights-02.bin" and asked.count("weights-02.bin") <= 4:
            return route.abort()
        return route.continue_()

    page = visit(prepare=lambda page: page.route("**/_model/weights-*", cut))
    page.wait_for_selector("[data-press=load]:has-text('MB')")
    page.click("[data-press=load]")
    page.wait_for_selector("[data-press=load]:has-text('Load again')", timeout=30_000)
    words = page.inner_text(".vb-load")
    assert "The download stopped at" in words and "weights-02.bin" in words
    page.click("[data-press=load]")
    page.wait_for_selector(".vb-photo-results:not([hidden])", timeout=120_000)
    assert asked.count("weights-00.bin") == 1 and asked.count("weights-02.bin") == 5
    # Another visit finds all of it in the browser's own store.
    asked.clear()
    page.reload()
    load(page)
    assert asked == []


def test_a_full_disk_and_a_damaged_piece(visit):
    full = (
        "Cache.prototype.put = () => Promise.reject(new DOMException('full', 'QuotaExceededError'))"
    )
    page = load(visit(prepare=lambda page: page.add_init_script(full)))
    assert "no room to keep the model" in page.inner_text(".vb-load") and page.troubles == []
    damaged = (BUILT / "weights-01.bin").read_bytes()[:-1] + b"\x55"
    page = visit(prepare=lambda page: page.route(
        "**/_model/weights-01.bin", lambda route: route.fulfill(body=damaged)))  # fmt: skip
    page.wait_for_selector("[data-press=load]:has-text('MB')")
    page.click("[data-press=load]")
    page.wait_for_selector("[data-press=load]:has-text('Load again')", timeout=30_000)
    assert "not those that were written" in page.inner_text(".vb-load")


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        ("delete window.WebAssembly", "no WebAssembly"),
        ("delete window.Worker", "no WebAssembly"),
    ],
)
def test_a_browser_that_cannot_compute_is_told(visit, prepare, told):
    page = visit(prepare=lambda page: page.add_init_script(prepare))
    page.wait_for_selector(f".vb-load:has-text('{told}')")
    assert not page.locator("[data-press=load]").is_visible() and page.troubles == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("NotAllowedError", "The camera was refused"),
        ("NotFoundError", "No camera was found"),
        ("StrangeError", "could not start"),
        (None, "may not use a camera"),
    ],
)
def test_no_camera_is_told(visit, error, told):
    fails = f"() => Promise.reject(new DOMException('words', '{error}'))" if error else "undefined"
    devices = f"{{ value: {{ getUserMedia: {fails} }} }}"
    script = f"Object.defineProperty(navigator, 'mediaDevices', {devices})"
    page = visit(prepare=lambda page: page.add_init_script(script))
    page.click("[data-press=camera]")
    page.wait_for_selector(f".vb-note[role=status]:has-text('{told}')")
