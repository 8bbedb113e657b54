"""The gallery: its data, its numbers, and its three ways to be used."""

import json
from importlib import import_module

import numpy as np
import pytest
import timm
import torch
import vitbook_pages
from browser import serve

from vitbook.analysis import attention_distance, capture_attention
from vitbook.figures import Figure, attention_gallery
from vitbook.figures.attention_gallery.looks import lay_out
from vitbook.figures.parts.packing import distances, pack, pack_tokens, quantize_rows

GRID = (4, 4)


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def state(page, nth=0):
    said = page.locator(".vitbook-figure").nth(nth).get_attribute("data-state")
    return dict(pair.split("=") for pair in said.split())


def wait(page):
    page.wait_for_function("!document.querySelector('.vitbook-figure').waits")


def terms(page):
    return page.locator(".vb-terms b").all_inner_texts()


@pytest.fixture
def looked(model, images):
    """What the library says: maps "images layers heads queries keys", and the tokens."""
    with torch.no_grad(), capture_attention(model) as maps:
        tokens = model.features(images / 127.5 - 1)
    return torch.stack(list(maps.values()), 1), tokens


@pytest.fixture
def rows():
    """Rows as heads have them: near even, peaked, and on the class token but for a little."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 13, 13)) * np.array([0.3, 3, 2])[:, None, None]
    scores[2, :, 0] += 9
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


def stored(js, raw, shape, expression):
    values = {"raw": list(raw), "shape": shape}
    return js("pieces", f"(({expression})(unpack(Uint8Array.from(raw), shape)))", **values)


SHAPE = {"heads": 3, "queries": 13, "patches": 12, "columns": 4, "prefix": 1, "unit": 0.1,
         "share": 1 / 2000, "octave": 512}  # fmt: skip
EVERY = "Array.from({ length: 39 }, (_, i) => [Math.floor(i / 13), i % 13])"


def test_a_stored_weight_is_within_two_percent_of_its_rows_largest(rows):
    rows[0, 3, 1:] = 0
    words, codes = quantize_rows(rows, 1)
    error = np.abs(codes * 2.0 ** (-words / 512)[..., None] - rows[..., 1:])
    assert (error <= 0.02 * rows.max(-1, keepdims=True)).all()
    on_patches = rows[..., 1:].max(-1, keepdims=True)
    assert (error <= 0.08 * on_patches + 1e-9).all(), "also where the class token takes it all"
    assert error.max() > 0.015 * rows.max(), "a null: the bound is not idle"


def test_the_page_reads_what_python_stored(js, rows):
    far = distances(rows, (3, 4), (2.0, 5.0), 1)
    raw = pack(rows, far, 1, 4, 0.1)
    words, codes = quantize_rows(rows, 1)
    found = stored(js, raw, SHAPE, f"(p) => {EVERY}.map((a) => [...p.row(...a)])")
    assert np.array_equal(np.reshape(found, codes.shape), codes)
    for name, expected, within in (("step", 2.0 ** (-words / 512), 1e-12), ("far", far, 0.0501),
                                   ("first", rows[..., 0], 0.000251)):  # fmt: skip
        found = stored(js, raw, SHAPE, f"(p) => {EVERY}.map((a) => p.{name}(...a))")
        assert np.abs(np.reshape(found, (3, 13)) - expected).max() <= within, name


def test_distances_are_those_of_the_library(rows):
    far = distances(rows, (3, 4), (2.0, 5.0), 1)
    assert (far[:, 0] == 0).all()
    expected = attention_distance(torch.tensor(rows)[None], (3, 4), (2, 5), 1)[0]
    assert far[:, 1:].mean(-1) == pytest.approx(expected.tolist())


def test_cosines_are_those_of_torch(js):
    tokens = np.random.default_rng(1).normal(size=(9, 40))
    packed = pack_tokens(tokens)
    assert packed.shape == (40, 9) and packed.dtype == np.int8
    found = js("pieces", "(() => { const all = turned(Uint8Array.from(raw), 9); "
               "return cosines(all.subarray(80, 120), all); })()",
               raw=packed.view(np.uint8).ravel())  # fmt: skip
    tokens = torch.tensor(tokens)
    expected = torch.nn.functional.cosine_similarity(tokens[2:3], tokens)
    assert found == pytest.approx(expected.tolist(), abs=0.01)


def test_heads_are_ordered_by_layer_or_by_distance(js):
    far = [5, 2, 2, 9, 1, 4]  # 3 layers of 2 heads
    assert js("atlas", "order(far, 3, 2, false)", far=far) == [0, 2, 4, 1, 3, 5]
    assert js("atlas", "order(far, 3, 2, true)", far=far) == [4, 1, 2, 5, 0, 3]


def test_a_link_gives_only_what_the_figure_has(js):
    limits = {"photos": 3, "queries": 17, "layers": 4, "heads": 3, "alike": True}
    parse = "parse(text, limits)"
    text = "photo=2&query=16&layer=3&head=0&nearest=1&alike=0"
    expected = {"photo": 2, "query": 16, "layer": 3, "head": 0, "nearest": True, "alike": False}
    assert js("address", parse, text=text, limits=limits) == expected
    text = "photo=3&query=-1&layer=1.5&head=x&nearest=2&alike=1"
    assert js("address", parse, text=text, limits=limits) == {"alike": True}


def test_all_pieces_hold_the_models_maps(gallery, looked):
    maps, _ = looked
    assert len(gallery.pieces) == 3 * (4 + 1)
    for photo, image in zip(gallery.data["photos"], maps, strict=True):
        assert len(photo["layers"]) == 4
        far = torch.cat([attention_distance(layer[None], GRID, 2, 1)[0] for layer in image])
        assert photo["far"] == pytest.approx(far.tolist(), abs=0.006)


@pytest.mark.parametrize(("photo", "query"), [(0, 9), (0, 14), (1, 0), (2, 5)])
def test_the_page_shows_what_capture_attention_saw(show, gallery, looked, photo, query):
    maps, _ = looked
    page = show(gallery)
    page.locator("[data-control=photo] button").nth(photo).click()
    if query:
        page.locator("[data-control=query] button").nth(query - 1).click()
    else:
        page.click("[data-control=prefix]")
    for cell in (0, 7, 11):
        page.locator("[data-control=head] button").nth(cell).click()
        wait(page)
        layer, head = cell % 4, cell // 4
        row = maps[photo, layer, head, query]
        assert computed(page, "row") == pytest.approx(row[1:].tolist(), abs=0.02 * float(row.max()))
        here, everywhere, on_class = terms(page)
        far = attention_distance(maps[photo, layer][None], GRID, 2, 1)[0, head]
        assert float(everywhere.split()[0]) == pytest.approx(float(far), abs=0.06)
        assert float(on_class.split()[0]) == pytest.approx(100 * float(row[0]), abs=0.08)
        if query:
            own = distances(maps[photo, layer].numpy(), GRID, (2.0, 2.0), 1)[head, query]
            assert float(here.split()[0]) == pytest.approx(own, abs=0.11)
        else:
            assert here == "no place"


def test_nearest_first_puts_the_task_at_the_start(show, gallery):
    page = show(gallery)
    page.click("[data-control=nearest]")
    page.locator("[data-control=head] button").first.click()
    number = int(state(page)["layer"]) * 4 + int(state(page)["head"])
    assert number == int(np.argmin(gallery.data["photos"][0]["far"]))
    reached = page.locator(".vitbook-figure").get_attribute("data-reached") == "true"
    assert reached == (min(gallery.data["photos"][0]["far"]) < gallery.data["goal"])


def test_patches_alike_are_those_of_the_tokens(show, gallery, looked):
    _, tokens = looked
    page = show(gallery)
    page.locator("[data-control=query] button").nth(6).click()
    page.click("[data-control=alike]")
    wait(page)
    alike = torch.nn.functional.cosine_similarity(tokens[0, 7], tokens[:, 1:], dim=-1)
    assert computed(page, "seen.here.all") == pytest.approx(alike[0].tolist(), abs=0.01)
    assert computed(page, "seen.best.cosine") == pytest.approx(float(alike[1:].max()), abs=0.01)
    assert computed(page, "seen.mean") == pytest.approx(float(alike[1:].mean()), abs=0.01)
    tiles = page.locator(".vb-tile:visible")
    assert tiles.count() == 2
    tiles.last.click()
    assert state(page)["photo"] == "2"
    chosen = alike[2, int(state(page)["query"]) - 1]
    assert float(chosen) == pytest.approx(float(alike[2].max()), abs=0.02)


def test_a_drag_asks_from_every_patch_on_its_way(show, gallery):
    page = show(gallery)
    box = page.locator(".vb-gallery .vb-image").first.bounding_box()
    at = [(box["x"] + box["width"] * (i + 0.5) / 4, box["y"] + box["height"] * 0.1) for i in (0, 3)]
    page.mouse.move(*at[0])
    page.mouse.down()
    assert state(page)["query"] == "1"
    seen = set()
    for step in np.linspace(0, 1, 12):
        page.mouse.move(at[0][0] + step * (at[1][0] - at[0][0]), at[0][1])
        seen.add(state(page)["query"])
    page.mouse.up()
    page.mouse.move(*at[0])
    assert seen == {"1", "2", "3", "4"} and state(page)["query"] == "4"


def test_arrow_keys_walk_over_the_patches_and_over_the_heads(show, gallery):
    page = show(gallery)
    page.locator("[data-control=query] [tabindex='0']").focus()
    query = int(state(page)["query"])
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    assert int(state(page)["query"]) == query - 5
    page.locator("[data-control=head] button").first.click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert (state(page)["layer"], state(page)["head"]) == ("1", "1")


def test_a_finger_taps_anywhere_and_drags_what_asks(browser, gallery, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(f'<meta name="viewport" content="width=device-width">{gallery._repr_html_()}')
    context = browser.new_context(
        viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector(".vitbook-figure[data-ready=true]")
    box = page.locator(".vb-gallery .vb-image").first.bounding_box()
    points = [{"x": box["x"] + box["width"] * (i + 0.5) / 4, "y": box["y"] + box["height"] / 8}
              for i in range(4)]  # fmt: skip
    page.touchscreen.tap(points[0]["x"], points[0]["y"])
    assert state(page)["query"] == "1"
    send = context.new_cdp_session(page).send

    def drag(*points):
        send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": points[:1]})
        for point in points[1:]:
            send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
        send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    drag(*points)
    assert state(page)["query"] == "4" and page.evaluate("scrollY") == 0
    far = [{"x": points[0]["x"], "y": points[0]["y"] + box["height"] * part} for part in (0.7, 0.1)]
    drag(far[0], {**far[0], "y": far[0]["y"] - 60}, far[1])
    page.wait_for_timeout(200)
    assert state(page)["query"] == "4" and page.evaluate("scrollY") > 0, "elsewhere it scrolls"
    context.close()


def test_a_link_restores_what_was_chosen(show, gallery):
    page = show(gallery)
    page.locator("[data-control=photo] button").nth(2).click()
    page.locator("[data-control=query] button").nth(3).click()
    page.locator("[data-control=head] button").nth(5).click()
    page.click("[data-control=nearest]")
    chosen, link = state(page), page.locator(".vb-link").get_attribute("href")
    page.click("[data-control=reset]")
    assert state(page) != chosen
    page.evaluate("(link) => (location.hash = link)", link)
    page.wait_for_function("document.querySelector('.vitbook-figure').dataset.state.includes("
                           "'photo=2')")  # fmt: skip
    assert state(page) == chosen
    page.reload()
    page.wait_for_selector(".vitbook-figure[data-ready=true]")
    assert state(page) == chosen


def test_two_on_a_page_have_links_of_their_own(show, gallery):
    page = show(gallery, gallery)
    links = [link.get_attribute("href") for link in page.locator(".vb-link").all()]
    assert [link.split("?")[0] for link in links] == ["#attention", "#attention2"]
    page.evaluate("location.hash = '#attention2?photo=1'")
    page.wait_for_function(
        "document.querySelectorAll('.vitbook-figure')[1].dataset.state.startsWith('photo=1')"
    )
    assert state(page, 0)["photo"] == "0"


@pytest.fixture
def built(monkeypatch, tmp_path, gallery):
    """A page as the book builds it: the figure's data and each piece in files of their own."""
    monkeypatch.setattr(vitbook_pages, "INLINE_BYTES", 0)
    page = vitbook_pages.move_data(gallery._repr_html_(), tmp_path / "_figures", "_figures")
    (tmp_path / "page.html").write_text(f'<!doctype html><meta charset="utf-8">{page}')
    assert len(list(tmp_path.glob("_figures/*.js"))) == 1 + len(set(gallery.pieces))
    return tmp_path


@pytest.mark.parametrize("way", ["server", "file"])
def test_pieces_come_when_they_are_asked_for_and_once(browser, built, gallery, way):
    with serve(built) as site:
        page = browser.new_page()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{site}/page.html" if way == "server" else (built / "page.html").as_uri())
        page.wait_for_selector(".vitbook-figure[data-ready=true]")
        keys = lambda: [url[-19:-3] for url in asked if url.endswith(".js")]  # noqa: E731
        assert keys() == [gallery.key]
        page.locator("[data-control=head] button").nth(3).click()
        page.locator("[data-control=photo] button").nth(1).click()
        assert keys() == [gallery.key], "the starting patch of every photograph comes with the page"
        page.locator("[data-control=query] button").nth(3).click()
        wait(page)
        page.locator("[data-control=query] button").nth(4).click()
        assert sorted(keys()[1:]) == sorted(gallery.data["photos"][1]["layers"])
        assert "Fetching" not in page.locator(".vb-readout").inner_text()
        assert all(url.startswith((site, "file:", "data:")) for url in asked)
        page.close()


@pytest.mark.parametrize("why", ["missing", "old browser"])
def test_what_cannot_be_fetched_is_said_in_one_sentence(browser, built, gallery, why):
    page = browser.new_page()
    if why == "missing":
        for key in gallery.data["photos"][0]["layers"]:
            (built / "_figures" / f"{key}.js").unlink()
    else:
        page.add_init_script("delete window.DecompressionStream")
    page.goto((built / "page.html").as_uri())
    page.wait_for_selector(".vitbook-figure[data-ready=true]")
    page.locator("[data-control=query] button").first.click()
    words = "make serve" if why == "missing" else "cannot unpack the maps"
    page.wait_for_function(
        "(words) => document.querySelector('.vb-readout').innerText.includes(words)", arg=words
    )
    page.close()


def test_where_a_kernel_runs_python_reads_the_choice(monkeypatch, browser, model, images, tmp_path):
    pytest.importorskip("ipywidgets")
    monkeypatch.delenv("VITBOOK_STATIC", raising=False)
    panel = attention_gallery(model, images, names=["a", "b", "c"], head=(1, 2))
    assert panel.choice == {"photo": 0, "name": "a", "token": (2, 2), "layer": 1, "head": 2,
                            "fusion": None, "nearest": False, "alike": False}  # fmt: skip
    shown, heard = panel.children
    file = tmp_path / "page.html"
    # As the widget's frontend draws it: the output, and the field that it sends to Python.
    listening = (
        "<script>sent = []; document.querySelector('input').addEventListener("
        "'change', (event) => sent.push(event.target.value))</script>"
    )
    output = shown.outputs[0]["data"]["text/html"]
    field = '<input type="text">'
    file.write_text(f'<div class="vitbook-choice">{output}{field}</div>{listening}')
    page = browser.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector(".vitbook-figure[data-ready=true]")
    page.locator("[data-control=photo] button").nth(1).click()
    page.click("[data-control=prefix]")
    heard.value = page.evaluate("sent.at(-1)")
    assert panel.choice["name"] == "b" and panel.choice["token"] == "class token"
    page.close()


def test_without_ipywidgets_it_is_the_figure(monkeypatch, model, images):
    monkeypatch.delenv("VITBOOK_STATIC", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "ipywidgets", None)
    assert isinstance(attention_gallery(model, images), Figure)


def test_one_photograph_alone_has_nothing_to_choose_from(monkeypatch, show, model, images):
    monkeypatch.setenv("VITBOOK_STATIC", "1")
    page = show(attention_gallery(model, images[:1]))
    assert page.locator("[data-control=photo]").count() == 0
    page.click("[data-control=alike]")
    wait(page)
    assert page.locator(".vb-tile:visible").count() == 0


def test_a_model_without_tokens_has_no_patches_alike(monkeypatch, show, model, images):
    monkeypatch.setenv("VITBOOK_STATIC", "1")

    class Foreign(torch.nn.Module):
        grid_size, num_prefix_tokens = GRID, 1

        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return self.inner(x)

    page = show(attention_gallery(Foreign(), images))
    assert page.locator("[data-control=alike]").count() == 0
    page.locator("[data-control=query] button").first.click()
    wait(page)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"images": torch.full((1, 1, 8, 8), torch.nan)}, "images came as float32 .*, expected u"),
        ({"images": torch.zeros(1, 8, 8).byte()}, r"images came as uint8 of shape \(1, 8, 8\)"),
        ({"images": torch.zeros(0, 1, 8, 8).byte()}, "images came empty"),
        ({"images": torch.zeros(1, 1, 1, 1).byte()}, "images of 1x1 are smaller than a patch of 2"),
        ({"images": torch.zeros(1, 1, 12, 12).byte()}, "images of 12x12 do not fit .* at 8x8"),
        ({"names": ["one"]}, "1 names came for 3 images, expected one for each"),
        ({"credits": ["one", "two"]}, "2 credits came for 3 images, expected one for each"),
        ({"grid_size": (50, 50)}, "50x50 patches came, expected at most 1600"),
        ({"grid_size": (4, -4)}, r"grid_size came as \(4, -4\) .* expected \(rows, columns\)"),
        ({"num_prefix_tokens": -1}, "num_prefix_tokens as -1, expected .* whole numbers"),
        ({"goal": torch.nan}, "goal came as nan, expected pixels: a finite number above 0"),
        ({"goal": torch.inf, "task": "find it"}, "goal came as inf, expected pixels"),
        ({"goal": 0}, "goal came as 0, expected pixels"),
        ({"fuse": "mean"}, r"fuse came as the text 'mean', expected a list: pass \['mean'\]"),
        ({"start": (4, 0)}, r"start came as \(4, 0\), expected a row and column of 4x4"),
        ({"head": (4, 0)}, r"head came as \(4, 0\), expected a layer under 4 and a head under 4"),
        ({"model": torch.nn.Identity()}, "Identity does not say its grid_size: pass grid_size="),
        ({"normalize": lambda x: x * torch.nan}, "hold negative or non-finite numbers"),
    ],
)
def test_bad_input_gets_one_sentence(monkeypatch, model, images, change, words):
    arguments = {"model": model, "images": images} | change
    with pytest.raises(ValueError, match=words):
        attention_gallery(arguments.pop("model"), arguments.pop("images"), **arguments)


def test_patches_and_tokens_are_the_models_own():
    """A model that pads has no patches of a fourth of the image, and a register is no class."""
    make = dict(img_size=64, depth=2, num_classes=3, dynamic_img_size=True, dynamic_img_pad=True)
    model = timm.create_model("vit_tiny_patch16_224", **make).eval()
    with pytest.raises(ValueError, match="images of 56x56, .*16x16 pixels, 64x64 in all"):
        attention_gallery(model, torch.zeros(1, 3, 56, 56).byte())
    registers = dict(class_token=False, reg_tokens=2, global_pool="avg")
    for changes, first in (({}, "class token"), (registers, "first register")):
        model = timm.create_model("vit_tiny_patch16_224", **make | changes).eval()
        layout = lay_out(model, np.zeros((1, 3, 64, 64), "uint8"), None, None)
        assert layout.prefix[0] == first


@pytest.mark.parametrize("name", ["linformer_vit_micro_patch2_8", "resnet8_digits"])
def test_maps_that_are_not_tokens_by_tokens_are_refused(images, name):
    from vitbook import create_model

    with pytest.raises(ValueError, match=r"maps of .*tokens|no maps of tokens by tokens came"):
        attention_gallery(create_model(name), images)


def test_too_much_for_a_page_is_refused(monkeypatch, model, images):
    monkeypatch.setattr(import_module("vitbook.figures.attention_gallery"), "_MOST_WEIGHTS", 1000)
    with pytest.raises(ValueError, match="3 images make 0 million .* pass fewer images"):
        attention_gallery(model, images)


def test_the_model_is_left_as_it_was(monkeypatch, model, images):
    monkeypatch.setenv("VITBOOK_STATIC", "1")
    model.train()
    attention_gallery(model, images[:1])
    assert model.training and json.dumps(attention_gallery(model, images[:1]).data)
