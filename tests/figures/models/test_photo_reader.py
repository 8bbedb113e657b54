"""Photographs of the reader's own: what is drawn on them, the model's answers, bad pictures."""

import copy
import io
import json
from base64 import b64decode
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from browser import serve
from page_graphs import PageModel, shown_blocks
from PIL import Image
from reading import COMPUTED, PACKED
from scipy.ndimage import uniform_filter1d

from vitbook import datasets
from vitbook.analysis import capture_attention
from vitbook.analysis.capture.outputs import capture_outputs
from vitbook.export.page_model import offered_sizes
from vitbook.figures import data_flow, photo_reader
from vitbook.measure import count_macs
from vitbook.models import change_input

BUILT = Path(__file__).resolve().parents[3] / "_build" / "html" / "_model"


@cache
def photographs():
    return datasets.load("photos", "all").images[[2, 0, 7]]


def made(saliency=None, **changed):
    """The figure of three photographs and of the first one's saliency."""
    looks = torch.full((6, 257, 257), 1 / 257)
    looks[:, 1 + 16 * 3 + 4, 9] = 0.5
    ramp = torch.linspace(0, 1, 224 * 224).reshape(224, 224)
    given = {"photographs": photographs(), "attention": looks, "start": (3, 4),
             "saliency": ramp if saliency is None else saliency,
             "names": ["coffee", "astronaut", "temple"]}  # fmt: skip
    return photo_reader(**given | changed, patch_size=14, num_prefix_tokens=1)


# Its mathematics.


def test_the_blur_is_three_means_along_both_axes(js):
    plane = torch.randint(0, 256, (9, 14), generator=torch.Generator().manual_seed(0)).numpy()
    wanted = plane.astype(float)
    for _ in range(3):
        for axis in (0, 1):
            wanted = uniform_filter1d(wanted, 5, axis=axis, mode="nearest")
    given = js("photo_brush", "[...blurred(plane, [9, 14], 2)]", plane=plane.ravel())
    np.testing.assert_allclose(np.reshape(given, (9, 14)), wanted, rtol=1e-5)


def test_a_mark_changes_its_patch_alone(js):
    planes = np.arange(3 * 24) % 251  # 4 x 6 pixels, 2 x 2 patches
    given = js(
        "photo_brush",
        "[...marked(Uint8Array.from(planes), [4, 6], [0, 1, 2, 0], [2, 2], "
        "planes.map((x) => x + 100))]",
        planes=planes,
    )
    given, was = np.reshape(given, (3, 4, 6)), planes.reshape(3, 4, 6)
    assert (given[:, :2, :3] == was[:, :2, :3]).all() and (given[:, 2:, 3:] == was[:, 2:, 3:]).all()
    assert (given[:, :2, 3:] == np.array([124, 116, 104])[:, None, None]).all()
    assert (given[:, 2:, :3] == was[:, 2:, :3] + 100).all()


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


def test_strokes_stay_where_they_are_on_a_coarser_and_a_finer_grid(js):
    marks = np.zeros((4, 4), int)
    marks[0, 1], marks[3, 3] = 1, 2
    call = "[...rescaled(Uint8Array.from(m), {}, {})]"
    coarse = js("photo_brush", call.format([4, 4], [2, 2]), m=marks.ravel())
    assert coarse == [1, 0, 0, 2]
    fine = js("photo_brush", call.format([2, 2], [4, 4]), m=coarse)
    assert np.reshape(fine, (4, 4)).tolist() == [[1, 1, 0, 0]] * 2 + [[0, 0, 2, 2]] * 2
    assert js("photo_brush", call.format([2, 2], [2, 4]), m=coarse) == [1, 1, 0, 0, 0, 0, 2, 2]


@pytest.mark.parametrize("side", [2, 4, 5, 6, 9, 16])
def test_each_level_has_one_square_and_rectangles_of_about_as_many_pixels(js, side):
    sizes = {f"{h}x{w}": {} for h, w in offered_sizes((14 * side, 14 * side), (14, 14))}
    levels = js("photo_manifest", "levelsOf({ sizes })", sizes=sizes)
    assert sorted(size for level in levels for size in level) == sorted(sizes)
    for level in levels:
        assert sum(len({*size.split("x")}) == 1 for size in level) == 1
    assert side < 16 or [len(level) for level in levels] == [7, 7, 7]
    assert js("photo_manifest", "levelsOf({ sizes: { '8x6': 1, '4x6': 1 } })") == [["4x6", "8x6"]]


def test_of_a_picture_a_size_shows_a_part(js):
    # Twice as wide as high: a square shows half of its width.
    for size, shown in (("224x224", [1, 0.5]), ("10x20", [1, 1]), ("10x40", [0.5, 1])):
        assert js("photo_manifest", f"partShown('{size}', 2)") == shown


def test_a_twin_has_the_largest_cosine_less_the_mean_of_both_photographs(js):
    torch.manual_seed(0)
    own, others = torch.randn(9, 5) + 3, torch.randn(16, 5) + 3
    mean = torch.cat([own, others]).mean(0)
    wanted = torch.cosine_similarity((own - mean)[4], others - mean)
    live = js("photo_twins", "[...twinCosines({ width: 5, rows: Float32Array.from(own) }, 4, "
              "{ width: 5, rows: Float32Array.from(others) })]",
              own=own.ravel(), others=others.ravel())  # fmt: skip
    torch.testing.assert_close(torch.tensor(live), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("tokens", "twin"), [(0.1, None), (float("nan"), None), ("different", 1)])
def test_tokens_that_are_all_one_or_none_have_no_twin(js, tokens, twin):
    rows = [1, 0, 0, 1] if tokens == "different" else [str(tokens)] * 6
    live = js("photo_twins", "twinOf(twinCosines({ width: 2, rows: Float32Array.from(r, Number) }, "
              "1, { width: 2, rows: Float32Array.from(r, Number) }))", r=rows)  # fmt: skip
    assert live == twin


# What Python is given.


def test_the_still_shows_what_torch_computed():
    figure = made()
    assert "row 4, column 5 looks most" in figure.description
    assert figure.still.count("<image") == 5
    assert all(face.startswith("data:image/jpeg") for _, face in figure.data["photos"])


def test_photographs_of_another_size_are_refused():
    for shape in ((3, 112, 112), (3, 300, 400), (1, 224, 224)):
        with pytest.raises(ValueError, match="a photograph came as .* expected 3 channels with a"):
            made(photographs=torch.zeros(1, *shape, dtype=torch.uint8))


# Pictures, good and bad.


def test_from_a_file_and_without_a_model_it_says_so(show, browser, tmp_path):
    show(made()).wait_for_selector(".vb-load:has-text('make serve')")
    (tmp_path / "alone.html").write_text(f"<!doctype html><body>{made()._repr_html_()}")
    with serve(tmp_path) as site, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{site}/alone.html")
        page.wait_for_selector(".vb-load:has-text('make book')")
        (tmp_path / "_model").mkdir()
        (tmp_path / "_model" / "manifest.json").write_text('{"missing": "no registry"}')
        page.reload()
        page.wait_for_selector(".vb-load:has-text('no registry')")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("words.txt", b"no picture", "words.txt is no picture that this browser can read"),
        ("empty.jpg", b"", "empty.jpg is empty"),
        ("apple.heic", b"\0\0\0\x18ftypheic" + bytes(80), "apple.heic is a HEIC"),
        ("<img src=x onerror=alert(1)>.png", b"x", "is no picture"),
    ],
    ids=["words", "empty", "heic", "markup"],
)
def test_what_is_no_picture_is_told_in_a_sentence(show, name, content, told):
    page = show(made())
    page.set_input_files("input[type=file]", {"name": name, "mimeType": "", "buffer": content})
    page.wait_for_selector(f".vb-note[role=status]:has-text('{told}')")
    assert page.locator(".vitbook-figure").evaluate("r => r.dataset.state").startswith("photo=0")


def test_a_picture_is_dropped_and_pasted(show):
    page = show(made())
    for event, part in (("drop", "dataTransfer"), ("paste", "clipboardData")):
        page.locator(".vitbook-figure").evaluate(
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


def test_what_is_pasted_into_a_field_is_left_alone(show):
    page = show(made(), '<input id="search">')
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["x"], "table.png", { type: "image/png" }));
          document.querySelector("#search").dispatchEvent(
            new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }"""
    )
    page.wait_for_timeout(100)
    assert page.locator(".vb-note[role=status]").first.inner_text() == ""


def test_a_drawing_is_read_and_what_is_chosen_later_wins(show):
    page = show(made())
    svg = b"""<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="1000"/>"""
    drawing = {"name": "green.svg", "mimeType": "image/svg+xml", "buffer": svg}
    page.set_input_files("input[type=file]", drawing)
    page.wait_for_selector(".vb-note[role=status]:has-text('green.svg: it stays in this page')")
    file = io.BytesIO()
    Image.new("RGB", (6000, 6000), (200, 60, 20)).save(file, "JPEG")
    page.set_input_files("input[type=file]", {"name": "late.jpg", "mimeType": "image/jpeg",
                                              "buffer": file.getvalue()})  # fmt: skip
    page.locator("[data-control=photo] button").nth(1).click()
    page.wait_for_timeout(1500)
    assert page.get_attribute(".vitbook-figure", "data-state").startswith("photo=1")
    assert page.locator(".vb-note[role=status]").first.inner_text() == ""


# The pretrained model, where the built book has it.


@pytest.fixture(scope="module")
def torch_model():
    return PageModel().eval()


@pytest.fixture(scope="module")
def site(tmp_path_factory, torch_model):
    """A folder as it is built: a page with the figure, and the model beside it."""
    tmp_path = tmp_path_factory.mktemp("site")
    manifest = BUILT / "manifest.json"
    if not manifest.exists() or "missing" in json.loads(manifest.read_text()):
        pytest.skip("the model is not beside the built book: run `make book`")
    with torch.no_grad():
        saliency = torch_model(photographs()[:1])["saliency"][0]
    torch.manual_seed(0)
    flow = data_flow(
        photographs()[0], torch.randn(13, 257, 384), torch.rand(12, 257, 257) / 257,
        saliency, grid_size=(16, 16), patch_size=14, start=(3, 4),
    )  # fmt: skip
    html = made(saliency)._repr_html_() + flow._repr_html_()
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

        def watch(request):
            if request.url.startswith("http") and not request.url.startswith(site):
                page.troubles.append(request.url)

        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on("request", watch)
        if prepare:
            prepare(page)
        page.goto(f"{site}/page.html")
        page.wait_for_function("document.querySelector('.vitbook-figure').dataset.ready")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def loaded(browser, site):
    """A page whose model has come, for all that only ask it."""
    with browser.new_context(viewport={"width": 900, "height": 900}) as context:
        page = context.new_page()
        page.troubles = []
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.goto(f"{site}/page.html")
        yield load(page)


@pytest.fixture
def page(loaded):
    computed(loaded)
    loaded.locator(".vb-photo-pad").scroll_into_view_if_needed()
    yield loaded
    loaded.click("[data-control=reset] >> nth=0")
    assert loaded.troubles == []


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
    blocks, found = tuple(shown_blocks(model)), {}
    with (
        torch.no_grad(), capture_attention(model) as maps,
        capture_outputs(model, blocks, lambda path, output: output) as tokens,
    ):  # fmt: skip
        found |= {f"answer:{name}": each for name, each in model(images).items()}
    found |= {f"tokens:{path}": each for path, each in tokens.items()}
    return found | {f"attention:{path}": each for path, each in maps.items()}


def test_photographs_against_torch_with_the_network_cut(page, torch_model):
    apart: dict[str, float] = {}
    page.context.set_offline(True)
    for image in photographs()[1:]:
        before = figure(page).evaluate("r => r.found.outputs['answer:saliency'].data[0]")
        give(page, **png(image.permute(1, 2, 0).numpy()))
        page.wait_for_function(
            "(was) => { const f = document.querySelector('.vitbook-figure').found;"
            " return f && f.outputs['answer:saliency'].data[0] !== was }", arg=before)  # fmt: skip
        for name, each in outputs_of(torch_model, image[None]).items():
            data = np.frombuffer(b64decode(figure(page).evaluate(PACKED, name)), "<f4").copy()
            far = (torch.from_numpy(data) - each.flatten()).abs().max() / each.abs().max()
            kind = name if name.startswith("answer") else name.partition(":")[0]
            apart[kind] = max(apart.get(kind, 0), far.item())
    page.context.set_offline(False)
    assert apart["answer:saliency"] < 0.1 and apart["tokens"] < 0.15 and apart["attention"] < 0.3


def test_a_stroke_changes_the_answer_and_is_taken_back(page):
    first = figure(page).evaluate("r => r.clean.outputs['answer:imagenet'].data[0]")
    page.select_option("[data-control=tool]", "blank")
    box = page.locator(".vb-photo-pad").bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.3 * box["height"], steps=3)
    page.mouse.up()
    computed(page)
    state = figure(page).evaluate("r => [[...r.marks], r.found.outputs['answer:imagenet'].data[0]]")
    marks = np.reshape(state[0], (16, 16))
    assert marks.sum() == 6 and marks[4, 4:10].all(), "each patch on the way, once"
    assert state[1] != first
    assert "With 6 of 256 patches" in page.inner_text(".vb-readout") or page.locator(
        ".vb-readout strong").count()  # fmt: skip
    page.click("[data-control=clear]")
    computed(page)
    assert figure(page).evaluate("r => r.found.outputs['answer:imagenet'].data[0]") == first
    assert not page.locator("[data-control=clear]").is_visible() and page.troubles == []


def test_strokes_made_before_the_model_came_are_told_beside_a_run_without_them(visit):
    page = visit()
    page.locator("[data-control=photo] button").nth(1).click()  # in the place of the still
    page.select_option("[data-control=tool]", "blank")
    page.locator(".vb-photo-pad").click()
    load(page)
    page.wait_for_selector(".vb-readout:has-text('1 of 256 patches'), .vb-readout strong")
    keys = figure(page).evaluate("r => [r.clean.key, r.found.key].map((key) => Number(key) > 0)")
    assert keys == [False, True]
    assert page.locator("text=The same before the brush").is_visible() and page.troubles == []


def test_a_patch_finds_its_twin_in_the_photograph_that_was_kept(page):
    page.click("[data-press=keep]")
    assert "choose another photograph" in page.inner_text(".vb-readout")
    layer = int(page.locator("[data-control=layer]").first.input_value())
    name = figure(page).evaluate(
        "(r, at) => Object.keys(r.found.outputs).filter((k) => k.startsWith('tokens:'))[at]",
        layer - 1)  # fmt: skip

    def tokens():
        held = np.frombuffer(b64decode(figure(page).evaluate(PACKED, name)), "<f4")
        return torch.from_numpy(held.reshape(257, -1)[1:].copy())

    kept, key = tokens(), figure(page).evaluate("r => r.found.outputs['answer:saliency'].data[0]")
    give(page, **png(photographs()[0].flip(2).permute(1, 2, 0).numpy()))
    page.wait_for_function(
        "(was) => { const f = document.querySelector('.vitbook-figure').found;"
        " return f && f.outputs['answer:saliency'].data[0] !== was }", arg=key)  # fmt: skip
    own = tokens()
    mean = torch.cat([own, kept]).mean(0)
    patch = int(figure(page).get_attribute("data-state").split("patch=")[1].split()[0])
    wanted = torch.cosine_similarity((own - mean)[patch], kept - mean)
    twin = figure(page).evaluate("r => r.twin")
    assert twin["best"] == wanted.argmax() and not twin["same"]
    assert twin["cosine"] == pytest.approx(wanted.max().item(), abs=1e-4)
    row, column = divmod(twin["best"], 16)
    assert f"twin in the photograph that you kept: row {row + 1}, column {column + 1}" in (
        page.inner_text(".vb-readout"))  # fmt: skip
    assert page.locator("text=Its twin in the photograph").first.is_visible()
    page.click("[data-press=keep]")
    assert figure(page).evaluate("r => r.twin.same"), "the newest is kept in the place of the old"


def test_a_patch_is_followed_through_the_reader_s_photograph(page):
    page.press("[data-control=cost]", "Home")
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
    assert "Layer 1 mixes" in flow.inner_text() and page.troubles == []


def test_a_rectangle_is_shown_whole_against_torch_and_costs_what_is_said(page, torch_model):
    page.press("[data-control=cost]", "End")
    computed(page)
    give(page, **png(datasets.whole_photo("coffee", 182)[:, :, :273].permute(1, 2, 0).numpy()))
    page.wait_for_function("document.querySelector('.vitbook-figure').clean?.outputs["
                           "'answer:saliency'].dims.join() === '1,182,280'")  # fmt: skip
    state = figure(page).get_attribute("data-state")
    assert "size=182x280 part=whole" in state and "hold 98 % of" in figure(page).inner_text()
    for size, cells in (((182, 280), 260), ((98, 140), 70)):
        computed(page)
        planes = torch.tensor(figure(page).evaluate("r => Array.from(r.planes)"), dtype=torch.uint8)
        model = copy.deepcopy(torch_model)
        change_input(model.body, size)
        wanted = outputs_of(model, planes.view(1, 3, *size))
        for name in ("answer:saliency", "answer:imagenet", "answer:cifar10"):
            data = np.frombuffer(b64decode(figure(page).evaluate(PACKED, name)), "<f4").copy()
            far = (torch.from_numpy(data) - wanted[name].flatten()).abs().max()
            assert far < 0.15 * wanted[name].abs().max(), name
        macs = count_macs(model, planes.view(1, 3, *size))
        for told in (f"{cells} patches hold", f"takes {macs / 1e9:.1f} billion multiply-adds"):
            assert told in figure(page).inner_text()
        box = page.locator(".vb-photo-pad").bounding_box()
        assert box["width"] / box["height"] == pytest.approx(size[1] / size[0], rel=0.01)
        page.press("[data-control=cost]", "Home")
    give(page, **png(np.zeros((40, 1600, 3), np.uint8)))  # a panorama, whose ends no size shows
    page.wait_for_selector(".vb-note:has-text('hold 5 % of the photograph')")
    computed(page)
    # The frame comes back to its place of the photograph, and a stroke is of the part that is seen.
    page.select_option("[data-control=tool]", "blank")
    page.locator("[data-control=patch]").first.press("Space")
    page.select_option("[data-control=part]", "square")
    computed(page)
    assert sum(page.evaluate("[...document.querySelector('.vitbook-figure').marks]")) == 0
    assert "size=112x112 part=square" in figure(page).get_attribute("data-state")
    page.select_option("[data-control=tool]", "ask")
    page.press("[data-control=cost]", "End")
    computed(page)
    page.locator("[data-control=patch]").first.press("ArrowLeft")
    framed = figure(page).get_attribute("data-state").split("patch=")[1].split()[0]
    for key in ("Home", "ArrowRight", "End"):
        page.press("[data-control=cost]", key)
    assert f"patch={framed} " in figure(page).get_attribute("data-state")
    computed(page)


def test_by_keyboard_and_the_smaller_size(page):
    page.press("[data-control=cost]", "Home")
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
    page.locator("[data-control=photo] button").nth(1).click()  # in the place of the still
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
        asked.append(route.request.url.rsplit("/", 1)[1].removesuffix(".packed"))
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
    damaged = (BUILT / "weights-01.bin.packed").read_bytes()[:-1] + b"\x55"
    page = visit(prepare=lambda page: page.route(
        "**/_model/weights-01.bin.packed", lambda route: route.fulfill(body=damaged)))  # fmt: skip
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
