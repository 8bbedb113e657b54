import pytest

from vitbook import datasets, load_checkpoint, training
from vitbook.studies.small_data_benchmark import sharpness

MICRO = "digits-vit_micro_patch2_8-digits-seed0"
OTHER = "digits-vit_micro_patch2_8-digits-seed1"


def test_the_row_says_what_the_library_measures(tmp_path, monkeypatch):
    loaded, load = [], datasets.load
    monkeypatch.setattr(datasets, "load", lambda *a, **k: loaded.append(a) or load(*a, **k))
    (row,) = sharpness(
        checkpoints=[MICRO, OTHER], split="test", radius=0.2, out=tmp_path, device="cpu"
    )
    assert loaded == [("digits", "test")]  # once for both
    assert row.subject == "digits" and [line["run"] for line in row.rows] == [MICRO, OTHER]
    assert row.settings["radius"] == 0.2 and row.settings["split"] == "test"
    model = load_checkpoint(OTHER).model
    found, line = training.sharpness(model, load("digits", "test"), 0.2), row.rows[1]
    assert line["loss"] == pytest.approx(found.loss, abs=1e-6)
    assert line["uphill"] == pytest.approx(found.uphill, abs=1e-6)
    squares = sum(weight.double().square().sum().item() for weight in model.parameters())
    assert line["length"] == pytest.approx(squares**0.5, rel=1e-4)
