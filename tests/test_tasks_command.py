"""`vitbook tasks`: the rows that it leaves."""

import pytest
import torch

from vitbook import create_model, datasets, runs
from vitbook.__main__ import app, main
from vitbook.cli.frozen_readers import shuffled
from vitbook.training.transfer.few_shot import t_interval


@pytest.fixture
def small(monkeypatch):
    body = create_model("vit_mini_patch8_32").eval()
    loaded = body, datasets.normalize, {"weights": "w", "learned_from": "nothing"}
    monkeypatch.setattr("vitbook.cli.tasks.frozen_body", lambda name, size: loaded)


def test_a_row_for_each_kind_of_features(tmp_path, small, capsys):
    words = ["--images", 200, "--draws", 3, "--out", tmp_path, "--threads", 1, "--device", "cpu"]
    app(["tasks", "digit_place", *map(str, words)], standalone_mode=False)
    (row,) = runs.measurements("task", folder=tmp_path)
    assert row.subject == "vit_small_patch14_focus-digit_place"
    told = row.settings
    assert (told["group"], told["classes"], told["image_size"]) == ("structured", 16, 32)
    assert (told["training_images"], told["test_images"], told["draws"]) == (100, 100, 3)
    assert 1 / 16 < told["commonest"] < 0.2
    assert [each["features"] for each in row.rows] == ["pretrained", "fresh weights", "raw pixels"]
    for each in row.rows:
        assert each["accuracy"] == pytest.approx(t_interval(each["draws"]), abs=1e-3)
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["task", "group", "features", "accuracy"] and len(out) == 4


def test_each_patch_knows_a_place_that_the_mean_forgets(tmp_path, small):
    words = ["--images", 400, "--draws", 2, "--out", tmp_path, "--threads", 1, "--device", "cpu"]
    app(["tasks", "digit_place", "--each-patch", *map(str, words)], standalone_mode=False)
    (row,) = runs.measurements("task", folder=tmp_path)
    read = {each["features"]: each["accuracy"] for each in row.rows}
    assert list(read)[3:] == [
        "pretrained, each patch",
        "fresh weights, each patch",
        "pretrained, shuffled patches",
    ]
    null, _, _ = read.pop("pretrained, shuffled patches")
    assert null < read["pretrained, each patch"][0] - 0.1
    assert "side by side" in row.settings["each_patch"]
    for name in ("pretrained", "fresh weights"):
        mean, _, _ = read[name]
        assert read[f"{name}, each patch"][0] > mean + 0.1


def test_shuffled_patches_are_the_same_in_another_order():
    features = torch.arange(24.0).reshape(2, 12)
    found = shuffled(features, 4)
    for own, other in zip(features, found, strict=True):
        assert not torch.equal(own, other)
        assert torch.equal(other.reshape(4, 3).sort(dim=0).values, own.reshape(4, 3))
    assert torch.equal(found, shuffled(features, 4))


def test_a_file_without_the_usual_ending_leaves_its_row_in_the_folder(tmp_path, small):
    words = ["--images", 40, "--draws", 2, "--out", tmp_path, "--threads", 1, "--device", "cpu"]
    app(["tasks", "digit_place", "--model", "some/run.pt", *map(str, words)], standalone_mode=False)
    (row,) = runs.measurements("task", folder=tmp_path)
    assert row.subject == "run.pt-digit_place"


def test_a_task_that_is_not_there_is_refused_before_anything_is_loaded(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["vitbook", "tasks", "digit_plaze"])
    with pytest.raises(SystemExit):
        main()
    assert "digit_place" in capsys.readouterr().err
