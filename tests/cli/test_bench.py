import re

import pytest
import torch

from vitbook import measure, runs
from vitbook.measure import count_macs
from vitbook.measure.utilisation import SIDES
from vitbook.models import create_model, list_models

QUICK = ["measure", "bench", "--batch", "2", "--rounds", "2", "--device", "cpu"]


@pytest.fixture(autouse=True)
def small_matrices(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(SIDES, "cpu", (64, 128))


def test_two_models_side_by_side(told):
    names = ["vit_micro_patch2_8", "digits-sl_vit_micro_patch2_8-digits-seed0"]
    said = told(*QUICK, *names, "--fine-tuning", "3600x2", "--answers", "1000")
    (row,) = runs.measurements("bench", "-".join(names), "runs")
    passes = [(line["model"], line["pass"]) for line in row.rows]
    assert passes == [(name, kind) for kind in ("forward", "training step") for name in names]
    assert row.settings["batch"] == 2 and row.device.startswith(runs.device_name("cpu")[:3])
    forward, step = row.rows[0], row.rows[2]
    model = create_model("vit_micro_patch2_8").eval()
    assert forward["macs_per_image"] == count_macs(model, torch.zeros(1, 1, 8, 8))
    assert 2.5 < step["macs_per_image"] / forward["macs_per_image"] < 3
    assert forward["speed_over_first"] == [1, 1, 1] != row.rows[1]["speed_over_first"]
    weights = 4 * forward["parameters"]
    assert forward["memory_bytes"] > weights and step["memory_bytes"] > 3 * weights
    # The costs are those of the table: 7200 images at a training step's multiply-adds.
    practitioner = f"{7200 * step['macs_per_image']:.3g} MACs"
    assert practitioner in said and "deployment, 1,000 answers" in said
    assert "nothing was trained" in said


def test_many_models_are_kept_under_a_name_that_a_file_can_have(told, tmp_path):
    models = [name for name in list_models() if "micro" in name][:12]
    told(*QUICK, *models, "--no-training")
    (path,) = (tmp_path / "runs").iterdir()
    assert path.stem.startswith(f"bench-{models[0]}") and "-and-11-more-" in path.stem
    (row,) = runs.measurements("bench", folder="runs")
    assert [line["model"] for line in row.rows] == models


def test_forward_alone_of_timms_in_half_precision(told):
    said = told(*QUICK, "timm:test_vit", "--no-training", "--precision", "bf16")
    assert "training step" not in said and "pre-training" not in said
    assert re.search(r"timm:test_vit +forward", said)


def test_a_distilled_model_has_two_heads_to_train_on_one_image_too(told):
    assert "training step" in told(*QUICK, "deit_micro_distilled_patch2_8", "--batch", "1")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("vit_micro_patch2_9", "vit_micro_patch2_8"),
        ("vit_micro_patch2_8 --precision fp8", "fp8"),
        ("vit_micro_patch2_8 --fine-tuning many", "--fine-tuning many: expected images"),
        ("vit_micro_patch2_8 --pre-training 5xnan", "--pre-training 5xnan: expected"),
    ],
)
def test_bad_input(words, sentence, refused):
    assert sentence in refused(*QUICK, *words.split())


def test_a_batch_that_does_not_fit(monkeypatch, refused):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(measure, "peak_memory", full)
    said = refused(*QUICK, "vit_micro_patch2_8")
    assert "a forward pass of vit_micro_patch2_8 with 2 images does not fit" in said
