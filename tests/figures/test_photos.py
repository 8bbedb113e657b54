"""Photographs of the reader's own: the page's mathematics, what Python is given, bad pictures."""

import io

import numpy as np
import pytest
import torch
from browser import serve
from PIL import Image
from scipy.ndimage import uniform_filter1d

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


def test_strokes_stay_where_they_are_on_a_coarser_and_a_finer_grid(js):
    marks = np.zeros((4, 4), int)
    marks[0, 1], marks[3, 3] = 1, 2
    coarse = js("photo_brush", "[...rescaled(Uint8Array.from(m), 2)]", m=marks.ravel())
    assert coarse == [1, 0, 0, 2]
    fine = js("photo_brush", "[...rescaled(Uint8Array.from(m), 4)]", m=coarse)
    assert np.reshape(fine, (4, 4)).tolist() == [[1, 1, 0, 0]] * 2 + [[0, 0, 2, 2]] * 2


# What Python is given.


def test_the_still_shows_what_torch_computed(photo_figure):
    made = photo_figure()
    assert "row 4, column 5 looks most" in made.description
    assert made.still.count("<image") == 5 and made.data["check"][0] < made.data["check"][-1]
    assert made.data["photos"][0][1].startswith("data:image/png")
    assert made.data["photos"][1][1].startswith("data:image/jpeg")


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
def test_bad_input_is_refused(photo_figure, change, told):
    with pytest.raises(ValueError, match=told):
        photo_figure(**change)


# Pictures, good and bad.


@pytest.mark.browser
def test_from_a_file_and_without_a_model_it_says_so(show, photo_figure, browser, tmp_path):
    show(photo_figure()).wait_for_selector(".vb-load:has-text('make serve')")
    (tmp_path / "alone.html").write_text(f"<!doctype html><body>{photo_figure()._repr_html_()}")
    with serve(tmp_path) as site, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{site}/alone.html")
        page.wait_for_selector(".vb-load:has-text('make book')")
        (tmp_path / "_model").mkdir()
        (tmp_path / "_model" / "manifest.json").write_text('{"missing": "no registry"}')
        page.reload()
        page.wait_for_selector(".vb-load:has-text('no registry')")


@pytest.mark.browser
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
def test_what_is_no_picture_is_told_in_a_sentence(show, photo_figure, name, content, told):
    page = show(photo_figure())
    page.set_input_files("input[type=file]", {"name": name, "mimeType": "", "buffer": content})
    page.wait_for_selector(f".vb-note[role=status]:has-text('{told}')")
    assert page.locator(".vitbook-figure").evaluate("r => r.dataset.state").startswith("photo=0")


@pytest.mark.browser
def test_a_huge_picture_is_scaled_and_the_page_goes_on(show, photo_figure):
    page = show(photo_figure())
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


@pytest.mark.browser
def test_a_picture_is_dropped_and_pasted(show, photo_figure):
    page = show(photo_figure())
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


@pytest.mark.browser
def test_what_is_pasted_into_a_field_is_left_alone(show, photo_figure):
    page = show(photo_figure(), '<input id="search">')
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


@pytest.mark.browser
def test_a_drawing_is_read_and_what_is_chosen_later_wins(show, photo_figure):
    page = show(photo_figure())
    svg = b"""<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="1000"/>"""
    drawing = {"name": "green.svg", "mimeType": "image/svg+xml", "buffer": svg}
    page.set_input_files("input[type=file]", drawing)
    page.wait_for_selector(".vb-note[role=status]:has-text('green.svg: its middle square')")
    file = io.BytesIO()
    Image.new("RGB", (6000, 6000), (200, 60, 20)).save(file, "JPEG")
    page.set_input_files("input[type=file]", {"name": "late.jpg", "mimeType": "image/jpeg",
                                              "buffer": file.getvalue()})  # fmt: skip
    page.locator("[data-control=photo] button").nth(1).click()
    page.wait_for_timeout(1500)
    assert page.get_attribute(".vitbook-figure", "data-state").startswith("photo=1")
    assert page.locator(".vb-note[role=status]").first.inner_text() == ""
