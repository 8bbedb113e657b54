"""The gallery: its data, its numbers, and its three ways to be used."""

from importlib import import_module

import numpy as np
import pytest
import timm
import torch
import vitbook_pages
from browser import serve
from reading import computed, parts, pick, reached, terms
from small_inputs import NAMES, digits, digits_model

from vitbook import create_model
from vitbook.analysis import attention_distance, capture_attention, layer_tokens
from vitbook.figures import attention_gallery
from vitbook.figures.attention_gallery.looks import fused, lay_out
from vitbook.figures.parts.packing import distances, pack, pack_tokens, quantize_rows

GRID = (4, 4)


def sample():
    return attention_gallery(digits_model(), digits(), names=NAMES, goal=2.6)


def wait(page):
    page.wait_for_function("!document.querySelector('.vitbook-figure').waits")


def alike(one, others):
    return torch.nn.functional.cosine_similarity(one, others, dim=-1)


@pytest.fixture(scope="module")
def looked():
    """What the library says: maps "images layers heads queries keys", and the tokens."""
    model = digits_model()
    with torch.no_grad(), capture_attention(model) as maps:
        tokens = layer_tokens(model, digits() / 127.5 - 1)
    return torch.stack(list(maps.values()), 1), tokens


# What is stored.


@pytest.fixture
def rows():
    """Rows as heads have them: near even, peaked, and on the class token but for a little."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 13, 13)) * np.array([0.3, 3, 2])[:, None, None]
    scores[2, :, 0] += 9
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


def test_a_stored_weight_is_within_two_percent_of_its_rows_largest(rows):
    rows[0, 3, 1:] = 0
    words, codes = quantize_rows(rows, 1)
    error = np.abs(codes * 2.0 ** (-words / 512)[..., None] - rows[..., 1:])
    assert (error <= 0.02 * rows.max(-1, keepdims=True)).all()
    on_patches = rows[..., 1:].max(-1, keepdims=True)
    assert (error <= 0.08 * on_patches + 1e-9).all(), "also where the class token takes it all"
    assert error.max() > 0.015 * rows.max(), "a null: the bound is not idle"


SHAPE = {"heads": 3, "queries": 13, "patches": 12, "columns": 4, "prefix": 1, "unit": 0.1,
         "share": 1 / 2000, "octave": 512}  # fmt: skip
EVERY = "Array.from({ length: 39 }, (_, i) => [Math.floor(i / 13), i % 13])"


def test_the_page_reads_what_python_stored(js, rows):
    def stored(expression):
        unpacked = f"(({expression})(unpack(Uint8Array.from(raw), shape)))"
        return js("pieces", unpacked, raw=list(raw), shape=SHAPE)

    far = distances(rows, (3, 4), (2.0, 5.0), 1)
    raw = pack(rows, far, 1, 4, 0.1)
    words, codes = quantize_rows(rows, 1)
    found = stored(f"(p) => {EVERY}.map((a) => [...p.row(...a)])")
    assert np.array_equal(np.reshape(found, codes.shape), codes)
    for name, expected, within in (("step", 2.0 ** (-words / 512), 1e-12), ("far", far, 0.0501),
                                   ("first", rows[..., 0], 0.000251)):  # fmt: skip
        found = stored(f"(p) => {EVERY}.map((a) => p.{name}(...a))")
        assert np.abs(np.reshape(found, (3, 13)) - expected).max() <= within, name


def test_cosines_are_those_of_torch(js):
    tokens = np.random.default_rng(1).normal(size=(9, 40))
    packed = pack_tokens(tokens)
    assert packed.shape == (40, 9) and packed.dtype == np.int8
    found = js("pieces", "(() => { const all = turned(Uint8Array.from(raw), 9); "
               "return cosines(all.subarray(80, 120), all); })()",
               raw=packed.view(np.uint8).ravel())  # fmt: skip
    tokens = torch.tensor(tokens)
    assert found == pytest.approx(alike(tokens[2:3], tokens).tolist(), abs=0.01)


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


def test_all_pieces_hold_the_models_maps(looked):
    gallery = sample()
    assert len(gallery.pieces) == 3 * (4 + 1)
    for photo, image in zip(gallery.data["photos"], looked[0], strict=True):
        far = torch.cat([attention_distance(layer[None], GRID, 2, 1)[0] for layer in image])
        assert photo["far"] == pytest.approx(far.tolist(), abs=0.006)


def test_two_layers_are_fused_as_on_paper():
    first = np.array([[[0.0, 1], [0, 1]], [[1, 0], [0, 1]]])  # heads queries keys
    layers = np.stack([first, first[::-1]])
    assert fused(layers, "mean")[0].tolist() == [[0.5, 0.5], [0, 1]]
    assert fused(layers, "max")[0].tolist() == [[1, 1], [0, 1]]
    assert fused(layers, "min")[0].tolist() == [[0, 0], [0, 1]]
    # (I + A) / 2 is [[3/4, 1/4], [0, 1]]; its square has 9/16 and 7/16.
    assert fused(layers, "rollout").tolist() == [[[0.75, 0.25], [0, 1]], [[0.5625, 0.4375], [0, 1]]]


# In the page.


@pytest.mark.parametrize(("photo", "query"), [(0, 9), (1, 0), (2, 5)])
def test_the_page_shows_what_capture_attention_saw(page, looked, photo, query):
    maps, _ = looked
    pick(page, "photo", photo)
    pick(page, "query", query - 1) if query else page.click("[data-control=prefix]")
    for cell in (0, 7, 11):
        pick(page, "head", cell)
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
            assert here == "no position"


def test_nearest_first_puts_the_task_at_the_start(page):
    data = sample().data
    page.click("[data-control=nearest]")
    pick(page, "head", 0)
    number = int(parts(page)["layer"]) * 4 + int(parts(page)["head"])
    assert number == int(np.argmin(data["photos"][0]["far"]))
    assert reached(page) == (min(data["photos"][0]["far"]) < data["goal"])


def test_patches_alike_are_those_of_the_tokens(page, looked):
    _, tokens = looked
    pick(page, "query", 6)
    page.click("[data-control=alike]")
    wait(page)
    cosines = alike(tokens[0, 7], tokens[:, 1:])
    assert computed(page, "seen.here.all") == pytest.approx(cosines[0].tolist(), abs=0.01)
    assert computed(page, "seen.best.cosine") == pytest.approx(float(cosines[1:].max()), abs=0.01)
    assert computed(page, "seen.mean") == pytest.approx(float(cosines[1:].mean()), abs=0.01)
    tiles = page.locator(".vb-tile:visible")
    assert tiles.count() == 2
    tiles.last.click()
    assert parts(page)["photo"] == "2"
    chosen = cosines[2, int(parts(page)["query"]) - 1]
    assert float(chosen) == pytest.approx(float(cosines[2].max()), abs=0.02)


def test_fused_maps_lie_below_the_heads_and_reach_no_task(show, looked):
    figure = attention_gallery(digits_model(), digits(), fuse=("mean", "rollout"), head=(2, 5),
                               start="class token", goal=100)  # fmt: skip
    assert figure.data["heads"] == 4 and figure.data["fused"] == ["mean", "rollout"]
    assert "the class token asks" in figure.description
    assert "and rollout through layer 3 is enlarged." in figure.description
    page = show(figure)
    assert page.locator("[data-control=head] button").count() == 4 * 6 and not reached(page)
    assert "Rollout through layer 3 looks here" in page.locator(".vb-live").inner_text()
    row = fused(looked[0][0].numpy(), "rollout")[2, 0]
    assert computed(page, "row") == pytest.approx(row[1:].tolist(), abs=0.02 * float(row.max()))
    pick(page, "query", 9)
    pick(page, "head", 4 * 4 + 1)  # second layer's mean
    wait(page)
    row = looked[0][0, 1].mean(0)[10]
    assert computed(page, "row") == pytest.approx(row[1:].tolist(), abs=0.02 * float(row.max()))
    text = page.locator(".vb-live").inner_text()
    assert "Layer 2, mean of heads looks here" in text and "asks 16 heads" in text
    pick(page, "head", 0)
    assert reached(page)


def test_patches_alike_at_the_start_come_with_the_page(show, looked):
    figure = attention_gallery(digits_model(), digits(), start=(2, 1), alike=True, task="Look.")
    assert figure.data["goal"] is None, "with a task of its own there is no goal"
    page = show(figure)
    assert computed(page, "waits") is False and page.locator(".vb-tile:visible").count() == 2
    expected = alike(looked[1][0, 10], looked[1][:, 1:])
    assert computed(page, "seen.here.all") == pytest.approx(expected[0].tolist(), abs=0.006)
    assert page.locator(".vb-task").inner_text() == "Look."
    page.click("[data-control=alike]")
    wait(page)
    assert "Layer" in page.locator(".vb-gallery").inner_text()


class Foreign(torch.nn.Module):
    """A model that does not give its tokens after the last norm."""

    grid_size, num_prefix_tokens = GRID, 1

    def __init__(self):
        super().__init__()
        self.inner = digits_model()

    def forward(self, x):
        return self.inner(x)


def test_one_photograph_or_a_model_without_tokens_has_less_to_choose_from(show):
    page = show(attention_gallery(digits_model(), digits()[:1]))
    assert page.locator("[data-control=photo]").count() == 0
    page.click("[data-control=alike]")
    wait(page)
    assert page.locator(".vb-tile:visible").count() == 0
    page = show(attention_gallery(Foreign(), digits(), layer="last"))
    assert page.locator("[data-control=alike]").count() == 0
    pick(page, "query", 0)
    wait(page)


@pytest.fixture
def built(monkeypatch, tmp_path):
    """A page as the book builds it: the figure's data and each piece in files of their own."""
    monkeypatch.setattr(vitbook_pages, "INLINE_BYTES", 0)
    gallery = sample()
    page = vitbook_pages.move_data(gallery._repr_html_(), tmp_path / "_figures", "_figures")
    (tmp_path / "page.html").write_text(f'<!doctype html><meta charset="utf-8">{page}')
    assert len(list(tmp_path.glob("_figures/*.js"))) == 1 + len(set(gallery.pieces))
    return tmp_path


def test_pieces_come_when_they_are_asked_for_and_once(browser, built):
    gallery = sample()
    with serve(built) as site:
        page = browser.new_page()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{site}/page.html")
        page.wait_for_selector(".vitbook-figure[data-ready=true]")
        keys = lambda: [url[-19:-3] for url in asked if url.endswith(".js")]  # noqa: E731
        pick(page, "head", 3)
        pick(page, "photo", 1)
        assert keys() == [gallery.key], "the starting patch of every photograph comes with the page"
        pick(page, "query", 3)
        wait(page)
        pick(page, "query", 4)
        assert sorted(keys()[1:]) == sorted(gallery.data["photos"][1]["layers"])
        assert "Fetching" not in page.locator(".vb-readout").inner_text()
        assert all(url.startswith((site, "data:")) for url in asked)
        page.close()


@pytest.mark.parametrize("why", ["missing", "old browser"])
def test_what_cannot_be_fetched_is_said_in_one_sentence(browser, built, why):
    page = browser.new_page()
    if why == "missing":
        for key in sample().data["photos"][0]["layers"]:
            (built / "_figures" / f"{key}.js").unlink()
    else:
        page.add_init_script("delete window.DecompressionStream")
    page.goto((built / "page.html").as_uri())
    page.wait_for_selector(".vitbook-figure[data-ready=true]")
    pick(page, "query", 0)
    words = "make serve" if why == "missing" else "cannot unpack the maps"
    page.wait_for_function(
        "(words) => document.querySelector('.vb-readout').innerText.includes(words)", arg=words
    )
    page.close()


# With a kernel.


def test_where_a_kernel_runs_python_reads_the_choice(monkeypatch, show):
    pytest.importorskip("ipywidgets")
    monkeypatch.delenv("VITBOOK_STATIC")
    panel = attention_gallery(digits_model(), digits(), names=["a", "b", "c"], head=(1, 2))
    assert panel.choice == {"photo": 0, "name": "a", "token": (2, 2), "layer": 1, "head": 2,
                            "fusion": None, "nearest": False, "alike": False}  # fmt: skip
    shown, heard = panel.children
    # As the widget's frontend draws it: the output, and the field that it sends to Python.
    listening = (
        "<script>sent = []; document.querySelector('input').addEventListener("
        "'change', (event) => sent.push(event.target.value))</script>"
    )
    output = shown.outputs[0]["data"]["text/html"]
    page = show(f'<div class="vitbook-choice">{output}<input type="text"></div>{listening}')
    pick(page, "photo", 1)
    page.click("[data-control=prefix]")
    heard.value = page.evaluate("sent.at(-1)")
    assert panel.choice["name"] == "b" and panel.choice["token"] == "class token"


# What is refused.


class Blind(torch.nn.Module):
    """A net of patches in which no token sees another."""

    grid_size, num_prefix_tokens = (4, 4), 0

    def forward(self, x):
        return x


def broken():
    model = digits_model()
    torch.nn.init.constant_(model.encoder.norm.bias, torch.nan)
    return model


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"images": torch.full((1, 1, 8, 8), torch.nan)}, "images came as float32 .*, expected u"),
        ({"images": torch.zeros(0, 1, 8, 8).byte()}, "images came empty"),
        ({"images": torch.zeros(1, 2, 8, 8).byte()}, r"expected uint8 \(n, 1 or 3, h, w\)"),
        ({"images": torch.zeros(1, 3, 8, 8).byte()}, r"on images of shape \(1, 3, 8, 8\): .*3 ch"),
        ({"images": torch.zeros(1, 1, 1, 1).byte()}, "images of 1x1 are smaller than a patch of 2"),
        ({"images": torch.zeros(1, 1, 12, 12).byte()}, "images of 12x12 do not fit .* at 8x8"),
        ({"names": ["one"]}, "1 names came for 3 images, expected one for each"),
        ({"names": "abc"}, r"names came as the text 'abc', expected a list: pass \['abc'\]"),
        ({"grid_size": (50, 50)}, "50x50 patches came, expected at most 1600"),
        ({"grid_size": (4, -4)}, r"grid_size came as \(4, -4\) .* expected \(rows, columns\)"),
        ({"fuse": ("median",)}, "fuse came with 'median', expected one of mean, max, min, rollout"),
        ({"start": (4, 0)}, r"start came as \(4, 0\), expected a row and column of 4x4, from 0, or "
                            "'class token'"),
        ({"head": (0, 5), "fuse": ("mean",)}, "expected a layer under 4 and a head under 5"),
        ({"model": torch.nn.Identity()}, "Identity does not say its grid_size: pass grid_size="),
        ({"model": Blind()}, "no maps of tokens by tokens came from Blind on images"),
        ({"model": Foreign(), "alike": True, "layer": "last"}, "alike .* Foreign gives no tokens"),
        ({"model": broken(), "layer": "last"}, "the tokens hold NaN or infinity"),
        ({"model": create_model("linformer_vit_micro_patch2_8")}, "maps of .*tokens"),
        ({"model": create_model("resnet8_digits")}, "no maps of tokens by tokens came"),
        ({"normalize": lambda x: x * torch.nan}, "hold negative or non-finite numbers"),
        ({"normalize": lambda x: x.numpy()}, "normalize gave a ndarray, expected a tensor"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(change, words):
    arguments = {"model": digits_model(), "images": digits()} | change
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


def test_too_much_for_a_page_is_refused(monkeypatch):
    monkeypatch.setattr(import_module("vitbook.figures.attention_gallery"), "_MOST_WEIGHTS", 1000)
    with pytest.raises(ValueError, match="3 images make 0 million .* pass fewer images"):
        attention_gallery(digits_model(), digits())
