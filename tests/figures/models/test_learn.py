"""A model learns in the page: it reads digits, is kept, goes on, and is the library's."""

import zlib
from base64 import b64decode

import pytest
import torch
from reading import computed, pick, said, state

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
    assert "Its 18,218 weights are drawn by chance" in said(page)
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
    context.close()


@pytest.mark.browser
def test_without_positions_fewer_digits_are_read_and_the_guess_is_told(show, tmp_path):
    page = show(sample(700))
    choose(page, "change", "positions")
    assert not page.is_visible("[data-control=train]")
    page.click("[data-control=guess-fewer]")
    until(page, "document.querySelector('.vitbook-figure').dataset.phase == 'done'")
    plain, without = (run["told"][-1]["accuracy"] for run in computed(page, "runs"))
    assert plain > without + 0.1
    assert "You guessed right" in said(page)
    assert (
        vitbook.load_checkpoint(kept(page, tmp_path)).model.spec.name == "vit_nopos_nano_patch2_8"
    )


@pytest.mark.browser
def test_a_checkpoint_of_the_book_learns_on(show):
    page = show(sample())
    file = vitbook.runs.data_folder() / "checkpoints" / f"{CHECKPOINT}.safetensors"
    page.set_input_files("input[type=file]", file)
    until(page, f"{WORKING}?.told.length > 0")
    accuracy = computed(page, "runs")[0]["told"][0]["accuracy"]
    assert accuracy == vitbook.load_checkpoint(CHECKPOINT).provenance["accuracy"]
    assert f"learns on from {CHECKPOINT}" in said(page)
    pick(page, "digit", 7)
    assert "digit=7" in state(page)


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
