"""A model learns in the page: it reads digits, is kept, goes on, and is the library's."""

import json
import zlib
from base64 import b64decode

import pytest
import torch
from reading import computed, pick, put, said, state

import vitbook
from vitbook import datasets
from vitbook.datasets import Dataset
from vitbook.figures import learn

CHECKPOINT = "digits-vit_micro_patch2_8-digits-seed0"
WORKING = "document.querySelector('.vitbook-figure').runs.at(-1)"


def digits(split: str) -> Dataset:
    return datasets.load("digits", split)


def sample(steps: int = 2500):
    figure = learn(digits("train"), digits("test"))
    figure.data["steps"] = steps
    return figure


def until(page, condition: str) -> None:
    page.wait_for_function(condition, timeout=60_000)


def choose(page, control: str, value: str) -> None:
    page.select_option(f"[data-control={control}]", value)


def kept(page, tmp_path):
    with page.expect_download() as download:
        page.click(".vb-save")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_digits_are_packed_without_loss(js):
    figure, held = sample(), digits("test")
    raw = list(zlib.decompress(b64decode(figure.pieces[0])))[64 * 1442 :]
    packed = js("run", "unpacked(raw, counts, 64)", raw=raw, counts=figure.data["counts"][1])
    ink = torch.tensor(packed["ink"]).view(355, 64)
    theirs = (held.images.flatten(1).float() * 16 / 255).round().int()
    assert sorted(map(tuple, ink.tolist())) == sorted(map(tuple, theirs.tolist()))
    assert packed["labels"] == held.labels.sort().values.tolist()


@pytest.mark.browser
def test_it_learns_and_the_library_reads_what_was_learned(show, tmp_path):
    page = show(sample())
    assert "The model's 18,218 weights are drawn by chance" in said(page)
    page.click("[data-control=train]")
    until(page, f"{WORKING}?.told.at(-1)?.accuracy > 0.9")
    page.click("[data-control=train]")
    assert "phase=paused" in state(page)
    path = kept(page, tmp_path)
    checkpoint = vitbook.load_checkpoint(path)
    assert checkpoint.model.spec.name == "vit_nano_patch2_8"
    told = computed(page, "runs")[0]["told"]
    accuracy = next(t["accuracy"] for t in told if t["step"] == checkpoint.provenance["step"])
    held = digits("test")
    with torch.no_grad():
        logits = checkpoint.model(datasets.normalize(held.images))
    assert (logits.argmax(1) == held.labels).double().mean().item() == pytest.approx(accuracy)
    # The four that is shown is one of them, and read by the same logits.
    page.wait_for_function(f"{WORKING}.seen.step == {checkpoint.provenance['step']}")
    ours = torch.tensor(page.evaluate(f"[...{WORKING}.seen.logits]"))
    assert (logits[held.labels == 4] - ours).abs().amax(1).min() < 1e-4


@pytest.mark.browser
def test_the_same_first_weights_learn_the_same_and_a_closed_tab_loses_nothing(browser, tmp_path):
    def losses(page):
        return page.evaluate(f"{WORKING}.told.map(t => t.loss)")

    (tmp_path / "learn.html").write_text(sample(500)._repr_html_())
    context = browser.new_context()
    page = context.new_page()
    page.goto((tmp_path / "learn.html").as_uri())
    page.click("[data-control=train]")
    until(page, f"{WORKING}?.told.length > 5")
    once = losses(page)
    page.click("[data-control=reset]")
    page.evaluate("WebAssembly.validate = () => false")  # as in a browser without SIMD
    page.click("[data-control=train]")
    until(page, f"{WORKING}?.told.length > 6")
    page.click("[data-control=train]")
    again = losses(page)
    assert again[:5] == once[:5]
    page.wait_for_timeout(500)
    page.close()

    page = context.new_page()
    page.goto((tmp_path / "learn.html").as_uri())
    until(page, f"{WORKING}?.told.length > 6")
    assert "was kept" in said(page)
    assert losses(page)[:5] == again[:5]
    page.click("[data-control=train]")
    until(page, "document.querySelector('.vitbook-figure').dataset.phase == 'done'")
    page.wait_for_timeout(500)
    page.reload()
    until(page, "document.querySelector('.vitbook-figure').dataset.phase == 'done'")
    assert "was kept" in said(page) and "goes on" not in said(page)
    context.close()


@pytest.mark.browser
def test_without_positions_fewer_digits_are_read_and_the_guess_is_told(show, tmp_path):
    page = show(sample(700))
    choose(page, "change", "post")
    put(page, rate=4)
    choose(page, "change", "positions")
    assert "rate=0" in state(page)  # no rate that is not in sight
    assert not page.is_visible("[data-control=train]")
    page.click("[data-control=guess-fewer]")
    until(page, "document.querySelector('.vitbook-figure').dataset.phase == 'done'")
    plain, without = (run["told"][-1]["accuracy"] for run in computed(page, "runs"))
    assert plain > without + 0.1
    assert "You guessed right" in said(page)
    assert (
        vitbook.load_checkpoint(kept(page, tmp_path)).model.spec.name == "vit_nopos_nano_patch2_8"
    )


@pytest.mark.parametrize(
    ("kind", "read", "came"),
    [
        ("shuffle", 10, "no more than chance"),
        ("shuffle", 60, "fewer than the plain one"),
        ("shuffle", 90, "about as many"),
        ("positions", 10, "fewer than the plain one"),  # of it, chance is no guess
    ],
)
def test_what_came_is_one_of_the_guesses(js, kind, read, came):
    def run(name, right):
        answers = [0] * right + [1] * (100 - right)
        return {"kind": name, "told": [{"answers": answers, "accuracy": right / 100}]}

    told, guesses = (
        js("learn/words", expression, runs=[run("none", 92), run(kind, read)], labels=[0] * 100)
        for expression in (
            "verdict(runs, { labels }, 'more', 10)",
            f"guessesOf('{kind}').map((guess) => GUESSES[guess])",
        )
    )
    assert f"it is “{came}”" in told and came in guesses


@pytest.mark.browser
def test_a_resnet_learns_beside_it_and_is_the_librarys(show, tmp_path):
    page = show(sample(300))
    choose(page, "change", "convolution")
    page.click("[data-control=guess-more]")
    until(page, "document.querySelector('.vitbook-figure').dataset.phase == 'done'")
    page.wait_for_function(f"{WORKING}.seen")
    checkpoint = vitbook.load_checkpoint(kept(page, tmp_path))
    assert checkpoint.model.spec.name == "resnet8_digits"
    assert checkpoint.model.norm.num_batches_tracked == 300
    held = digits("test")
    with torch.no_grad():
        logits = checkpoint.model.eval()(datasets.normalize(held.images))
    accuracy = computed(page, "runs")[1]["told"][-1]["accuracy"]
    assert (logits.argmax(1) == held.labels).double().mean().item() == pytest.approx(accuracy)
    assert page.get_by_text("Where its class token looks").is_hidden()


@pytest.mark.browser
def test_a_checkpoint_of_the_book_learns_on(show):
    page = show(sample())
    file = vitbook.runs.data_folder() / "checkpoints" / f"{CHECKPOINT}.safetensors"
    page.set_input_files("input[type=file]", file)
    until(page, f"{WORKING}?.told.length > 0")
    accuracy = computed(page, "runs")[0]["told"][0]["accuracy"]
    assert accuracy == vitbook.load_checkpoint(CHECKPOINT).provenance["accuracy"]
    assert f"goes on from {CHECKPOINT}" in said(page)
    pick(page, "digit", 7)
    assert "digit=7" in state(page)


def stored(header: dict, values: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + values


def lying(**changed) -> bytes:
    """A checkpoint of the smallest size, of which one tensor is described otherwise."""
    torch.manual_seed(0)
    state, header, values = vitbook.create_model("vit_nano_patch2_8").state_dict(), {}, b""
    for name, tensor in state.items():
        raw = tensor.numpy().tobytes()
        offsets = [len(values), len(values) + len(raw)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        values += raw
    header["prefix"] |= changed
    return stored(header, values)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (lying(), "nano"),
        (b"", "no safetensors file"),
        ((2**63).to_bytes(8, "little"), "no safetensors file"),
        (stored({"__proto__": 1}), "no Vision Transformer"),
        (lying(shape=[1, 31]), "its prefix is 1 × 31, expected 1 × 32"),
        (lying(dtype="I8"), "its prefix is I8, expected F32 or F16"),
        (lying(data_offsets=[-128, 0]), "cut off"),
        (lying(data_offsets=[10**9, 10**9 + 128]), "cut off"),
        (lying()[:-400], "cut off"),
        (lying()[:-4] + b"\xff\xff\xff\x7f", "its head.classifier.bias holds NaN"),
    ],
)
def test_a_file_that_lies_is_refused_by_what_is_wrong_with_it(js, content, says):
    taken = "fromFile(Uint8Array.from(bytes).buffer, data).size"
    tried = f"(() => {{ try {{ return {taken}; }} catch (error) {{ return error.message; }} }})()"
    told = js("file", tried, bytes=list(content), data=sample().data)
    assert says in told


PUT = """(kept) => new Promise((resolve) => {
  const asked = indexedDB.open("vitbook-learn", 1);
  asked.onupgradeneeded = () => asked.result.createObjectStore("runs");
  asked.onsuccess = () => {
    const done = asked.result.transaction("runs", "readwrite");
    done.objectStore("runs").put(kept, `${location.pathname}#learn`);
    done.oncomplete = () => (asked.result.close(), resolve());
  };
})"""
TOLD = {"answers": [0], "step": 0, "accuracy": 0.1, "seconds": 0, "loss": None, "images": 0}
EMPTY = {"values": [], "moments": [[], []], "order": [], "next": 0, "step": 0, "every": 50}


@pytest.mark.browser
@pytest.mark.parametrize(
    "kept",
    [
        "words",
        {"size": "toString", "change": "none", "seed": 0, "rate": 0, "runs": []},
        {"size": "nano", "change": "none", "seed": 0, "rate": 0,
         "runs": [{"kind": "none", "told": [None]}]},
        {"size": "nano", "change": "none", "seed": 0, "rate": 0,
         "runs": [{"kind": "none", "ended": "", "told": [TOLD], "state": EMPTY}]},
    ],
)  # fmt: skip
def test_what_was_kept_and_is_no_run_is_left(browser, tmp_path, kept):
    (tmp_path / "learn.html").write_text(sample(100)._repr_html_(), encoding="utf-8")
    context, troubles = browser.new_context(), []
    page = context.new_page()
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto((tmp_path / "learn.html").as_uri())
    page.evaluate(PUT, kept)
    page.reload()
    page.wait_for_timeout(500)
    assert "phase=fresh" in state(page)
    page.click("[data-control=train]")
    until(page, "document.querySelector('.vitbook-figure').dataset.phase == 'done'")
    page.click("[data-control=train]")
    page.click("[data-control=train]")  # a pause, and at once a new beginning
    page.click("[data-control=reset]")
    assert "phase=fresh" in state(page) and troubles == []
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("words.txt", b"no model", "no safetensors file"),
        ("large.safetensors", bytes(5_000_000), "5.0 MB, and a page takes at most 4"),
    ],
)
def test_other_files_are_refused(show, tmp_path, name, content, says):
    page = show(sample())
    (tmp_path / name).write_bytes(content)
    page.set_input_files("input[type=file]", tmp_path / name)
    page.wait_for_function(
        "document.querySelector('.vb-readout').textContent.includes('could not')"
    )
    assert says in said(page)
