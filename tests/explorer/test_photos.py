"""The pretrained model in the page: its mathematics, its answers against torch, bad input."""

import io
import json
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
import torch
from browser import serve
from PIL import Image
from scipy.ndimage import uniform_filter1d

from vitbook import datasets
from vitbook.analysis import capture_attention, list_blocks
from vitbook.analysis.outputs import capture_outputs
from vitbook.explorer import photo_reader

BUILT = Path(__file__).resolve().parents[2] / "_build" / "html" / "_model"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "photos"
# An output as text, since a list of millions of numbers takes a browser minutes to tell.
PACKED = """(root, name) => new Promise((done) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result.split(",")[1]);
  reader.readAsDataURL(new Blob([root.found.outputs[name].data]));
})"""
COMPUTED = "r => r.found && r.marks && r.found.key === r.marks.join('')"
browser_only = pytest.mark.browser


@pytest.fixture(scope="module")
def photographs():
    return datasets.load("photos", "all").images[[2, 0, 7]]


@pytest.fixture(scope="module")
def torch_model():
    from vitbook.export.page_model import PageModel

    return PageModel(224).eval()


def figure_of(photographs, saliency):
    maps = torch.full((6, 257, 257), 1 / 257)
    maps[:, 1 + 16 * 3 + 4, 9] = 0.5
    return photo_reader(photographs, maps, saliency, patch_size=14, num_prefix_tokens=1, depth=12,
                        start=(3, 4), names=["coffee", "astronaut", "temple"])  # fmt: skip


@pytest.fixture
def plain(photographs):
    return figure_of(photographs, torch.linspace(0, 1, 224 * 224).reshape(224, 224))


@pytest.fixture
def site(tmp_path, photographs, torch_model):
    """A folder as it is built: a page with the figure, and the model beside it."""
    manifest = BUILT / "manifest.json"
    if not manifest.exists() or "missing" in json.loads(manifest.read_text()):
        pytest.skip("the model is not beside the built book: run `make book`")
    with torch.no_grad():
        saliency = torch_model(torch_model.normalize(photographs[:1]))["saliency"][0]
    html = figure_of(photographs, saliency)._repr_html_()
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
    return page.locator(".vitbook-figure")


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


# Its mathematics.


def test_the_blur_is_three_means_along_both_axes(js):
    plane = torch.randint(0, 256, (12, 12), generator=torch.Generator().manual_seed(0)).numpy()
    wanted = plane.astype(float)
    for _ in range(3):
        for axis in (0, 1):
            wanted = uniform_filter1d(wanted, 5, axis=axis, mode="nearest")
    given = js("photo_brush", "[...blurred(plane, 12, 2)]", plane=plane.ravel())
    np.testing.assert_allclose(np.reshape(given, (12, 12)), wanted, rtol=1e-5)


def test_a_mark_changes_its_patch_alone(js):
    planes = np.arange(3 * 16) % 251
    given = js(
        "photo_brush",
        "[...marked(Uint8Array.from(planes), 4, [0, 1, 2, 0], 2, planes.map((x) => x + 100))]",
        planes=planes,
    )
    given, was = np.reshape(given, (3, 4, 4)), planes.reshape(3, 4, 4)
    assert (given[:, :2, :2] == was[:, :2, :2]).all() and (given[:, 2:, 2:] == was[:, 2:, 2:]).all()
    assert given[:, 0, 2].tolist() == [124, 116, 104]
    assert (given[:, 2:, :2] == was[:, 2:, :2] + 100).all()


def test_the_axes_are_the_principal_ones(js):
    torch.manual_seed(0)
    tokens = (torch.randn(40, 3) * torch.tensor([9.0, 4.0, 2.0])) @ torch.randn(3, 8)
    axes = js("token_colors", "colorAxes(Float32Array.from(t), 8, 3, 300).map((a) => [...a.axis])",
              t=tokens.ravel())  # fmt: skip
    _, _, principal = torch.linalg.svd(tokens - tokens.mean(0), full_matrices=False)
    for given, wanted in zip(torch.tensor(axes), principal, strict=False):
        assert (given.float() @ wanted).abs() > 0.999 and given[given.abs().argmax()] > 0
    alike = js(
        "token_colors", "tokenColor(colorAxes(new Float32Array(32), 8), new Float32Array(32), 8, 0)"
    )
    assert all(np.isfinite(alike)), "tokens that are all alike have a colour too"


# What Python is given.


def test_the_still_shows_what_torch_computed(plain):
    assert "row 4, column 5 looks most" in plain.description
    assert plain.still.count("<image") == 5 and plain.data["check"][0] < plain.data["check"][-1]
    assert plain.data["photos"][0][1].startswith("data:image/png")
    assert plain.data["photos"][1][1].startswith("data:image/jpeg")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"photographs": torch.zeros(1, 3, 112, 112, dtype=torch.uint8)}, "expected"),
        ({"attention": torch.zeros(6, 197, 197)}, "16 x 16 patches"),
        ({"saliency": torch.zeros(16, 16)}, "the saliency as"),
        ({"start": (16, 0)}, "below 16"),
        ({"names": ["one"]}, "names"),
    ],
)
def test_bad_input_is_refused(photographs, change, told):
    good = {"photographs": photographs, "attention": torch.zeros(6, 257, 257),
            "saliency": torch.zeros(224, 224), "start": (0, 0)}  # fmt: skip
    with pytest.raises(ValueError, match=told):
        photo_reader(**(good | change), patch_size=14, num_prefix_tokens=1, depth=12)


# In the browser.


@browser_only
def test_twelve_photographs_against_torch_with_the_network_cut(visit, torch_model, record_property):
    files = sorted(SHARED.glob("kodim*.jpg"))[:12]
    if len(files) < 12:
        pytest.skip(
            "twelve photographs are not here; the book's own nine are compared as it is built"
        )
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


@browser_only
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


@browser_only
def test_by_keyboard_and_the_smaller_size(visit):
    page = load(visit())
    page.select_option("[data-control=size]", "112")
    computed(page)
    assert figure(page).evaluate("r => r.found.outputs['answer:saliency'].dims") == [1, 112, 112]
    page.select_option("[data-control=tool]", "blur")
    handle = page.locator("[data-control=patch]")
    where = figure(page).get_attribute("data-state")
    handle.press("ArrowRight")
    assert figure(page).get_attribute("data-state") != where
    handle.press("Space")
    computed(page)
    marks = page.evaluate("[...document.querySelector('.vitbook-figure').marks]")
    assert len(marks) == 64 and sorted(marks)[-2:] == [0, 2]
    layer = page.locator("[data-control=layer]")
    layer.press("Home")
    assert "Layer 1," in page.inner_text(".vb-readout")
    page.select_option("[data-control=head]", "3")
    assert "head 4" in page.inner_text(".vb-readout") and page.troubles == []


@browser_only
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


@browser_only
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


@browser_only
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


@browser_only
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


@browser_only
def test_from_a_file_and_without_a_model_it_says_so(show, plain, browser, tmp_path):
    show(plain).wait_for_selector(".vb-load:has-text('make serve')")
    (tmp_path / "alone.html").write_text(f"<!doctype html><body>{plain._repr_html_()}")
    with serve(tmp_path) as site, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{site}/alone.html")
        page.wait_for_selector(".vb-load:has-text('make book')")
        (tmp_path / "_model").mkdir()
        (tmp_path / "_model" / "manifest.json").write_text('{"missing": "no registry"}')
        page.reload()
        page.wait_for_selector(".vb-load:has-text('no registry')")


@browser_only
@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("words.txt", b"no picture", "words.txt is no picture that this browser can read"),
        ("empty.jpg", b"", "empty.jpg is empty"),
        ("cut.jpg", b"\xff\xd8\xff\xe0" + bytes(50), "cut.jpg is no picture"),
        ("apple.heic", b"\0\0\0\x18ftypheic" + bytes(80), "apple.heic is a HEIC"),
        ("<img src=x onerror=alert(1)>.png", b"x", "is no picture"),
    ],
    ids=["words", "empty", "cut", "heic", "markup"],
)
def test_what_is_no_picture_is_told_in_a_sentence(show, plain, name, content, told):
    page = show(plain)
    page.set_input_files("input[type=file]", {"name": name, "mimeType": "", "buffer": content})
    page.wait_for_selector(f".vb-note[role=status]:has-text('{told}')")
    assert figure(page).evaluate("r => r.dataset.state").startswith("photo=0")


@browser_only
def test_a_huge_picture_is_scaled_and_the_page_goes_on(show, plain):
    page = show(plain)
    file = io.BytesIO()
    Image.new("RGB", (11_000, 9_200), (200, 60, 20)).save(file, "JPEG")
    page.evaluate("""() => { window.longest = 0; let last = performance.now();
      const tick = () => { const now = performance.now(); longest = Math.max(longest, now - last);
        last = now; setTimeout(tick, 5); }; tick(); }""")
    page.set_input_files("input[type=file]", {"name": "huge.jpg", "mimeType": "image/jpeg",
                                              "buffer": file.getvalue()})  # fmt: skip
    page.wait_for_selector(".vb-note[role=status]:has-text('its middle square')", timeout=60_000)
    print(f"longest pause {page.evaluate('longest'):.0f} ms")
    pad = "document.querySelector('.vb-photo-pad canvas').getContext('2d')"
    page.wait_for_function(f"() => {{ const [red, green] = {pad}.getImageData(9, 9, 1, 1).data;"
                           " return red > 190 && green < 70; }")  # fmt: skip


@browser_only
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


@browser_only
def test_a_picture_is_dropped_and_pasted(show, plain):
    page = show(plain)
    for event, part in (("drop", "dataTransfer"), ("paste", "clipboardData")):
        figure(page).evaluate(
            """async (root, [kind, part]) => {
              const canvas = Object.assign(document.createElement('canvas'), { height: 60 });
              const blob = await new Promise((done) => canvas.toBlob(done));
              const data = new DataTransfer();
              data.items.add(new File([blob], kind + '.png', { type: 'image/png' }));
              const Kind = kind === 'drop' ? DragEvent : ClipboardEvent;
              root.dispatchEvent(new Kind(kind, { [part]: data, bubbles: true, cancelable: true }));
            }""",
            [event, part],
        )
        page.wait_for_selector(f".vb-note[role=status]:has-text('{event}.png')")
    assert page.get_attribute(".vitbook-figure", "data-state").startswith("photo=-1")
