"""`vitbook few-shot`: the row that it leaves, and what it refuses before anything is computed."""

import pytest
import torch

import vitbook
from vitbook import datasets, runs
from vitbook.__main__ import app, main
from vitbook.model_utilities import digest
from vitbook.models.weights.pretrained import Pretrained
from vitbook.training import save_checkpoint
from vitbook.training.transfer import few_shot
from vitbook.training.transfer.few_shot import t_interval
from vitbook.training.transfer.ridge import PENALTIES

MICRO = "digits-vit_micro_patch2_8-digits-seed0"
QUICK = ["--shots", "5,1", "--draws", "3", "--share", "0.2", "--threads", "1", "--device", "cpu"]


def run(*words):
    app(["few-shot", "digits", *map(str, words)], standalone_mode=False)


def test_the_command_writes_a_row(tmp_path, capsys):
    run("--model", MICRO, "--out", tmp_path, *QUICK)
    (row,) = runs.measurements("few_shot", folder=tmp_path)
    assert row.subject == f"{MICRO}-digits-0.2"
    model = vitbook.load_checkpoint(MICRO).model
    assert row.settings["weights"] == digest(
        {key: value.contiguous() for key, value in model.state_dict().items()}
    )
    assert row.settings["learned_from"] == "digits" and row.settings["image_size"] == 8
    assert (row.settings["training_images"], row.settings["test_images"]) == (288, 355)
    assert [(line["features"], line["reader"], line["shots"]) for line in row.rows] == [
        (features, reader, shots)
        for features in ("pretrained", "fresh weights", "raw pixels")
        for shots in (1, 5)
        for reader in ("ridge", "neighbours")
    ]
    learned, fresh, raw = (row.rows[place]["accuracy"][0] for place in (2, 6, 10))
    assert learned > 0.95 > 0.9 > raw > fresh
    for line in row.rows:
        assert line["accuracy"] == pytest.approx(t_interval(line["draws"]), abs=1e-3)
        assert len(line["penalties"]) == (3 if line["reader"] == "ridge" else 0)
        assert set(line["penalties"]) <= {*PENALTIES}
    told = capsys.readouterr().out.splitlines()
    assert told[0].split() == ["features", "reader", "1", "5"] and len(told) == 8
    assert told[1].startswith("pretrained") and "%" in told[1] and "±" in told[1]


def test_what_linear_probe_computed_is_read(tmp_path, monkeypatch):
    small = vitbook.load_checkpoint(MICRO).model
    loaded = Pretrained(MICRO, small, (), {"digest": "d", "learned": "w"}, (0.5,), (0.5,))
    for module in ("frozen_readers", "linear_probe"):
        name = f"vitbook.cli.{module}.load_pretrained"
        monkeypatch.setattr(name, lambda *given, **named: loaded)
    app(
        ["linear-probe", "digits", "--share", "0.4", "--out", str(tmp_path), "--device", "cpu"],
        standalone_mode=False,
    )
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "features").iterdir()}
    run("--shots", 2, "--draws", 2, "--share", 0.4, "--out", tmp_path, "--device", "cpu")
    after = {file: file.stat().st_mtime_ns for file in (tmp_path / "features").iterdir()}
    assert before == after and len(before) == 6  # two bodies, 577 and 355 images
    (row,) = runs.measurements("few_shot", folder=tmp_path)
    assert row.subject == "vit_small_patch14_focus-digits-0.4" and row.settings["weights"] == "d"


def test_a_checkpoint_of_another_ending_in_another_folder(tmp_path):
    file = tmp_path / "elsewhere" / "own weights.v2"
    save_checkpoint(file, vitbook.load_checkpoint(MICRO).model)
    run("--model", file, "--out", tmp_path / "out", *QUICK)
    assert [each.name for each in (tmp_path / "out").glob("*.json")] == [
        "few_shot-own weights.v2-digits-0.2.json"
    ]


def test_a_row_that_has_no_place_is_refused_first(tmp_path):
    (tmp_path / f"few_shot-{MICRO}-digits-0.2.json").mkdir()
    with pytest.raises(OSError, match="no plain file"):
        run("--model", MICRO, "--out", tmp_path, *QUICK)
    assert not (tmp_path / "features").exists()


def test_some_test_images_are_drawn_and_the_same_again(tmp_path, monkeypatch):
    seen = []

    def curve(train_features, train_labels, test_features, test_labels, *rest):
        seen.append((test_features, test_labels))
        return few_shot.few_shot_curve(
            train_features, train_labels, test_features, test_labels, *rest
        )

    monkeypatch.setattr("vitbook.cli.few_shot.few_shot_curve", curve)
    given = "--model", MICRO, "--test-images", 50, "--out", tmp_path, *QUICK
    run(*given)
    run(*given)
    (row,) = runs.measurements("few_shot", folder=tmp_path)
    assert row.settings["test_images"] == 50 and row.settings["drawn_test_images"] is True
    assert torch.equal(seen[2][0], seen[5][0]) and torch.equal(seen[2][1], seen[5][1])
    # Pixels of 50 digits, each beside its own label.
    test = datasets.load("digits", "test")
    known = datasets.resizing.resize(test.images, 32).flatten(1) / 255
    for pixels, label in zip(*seen[2], strict=True):
        places = (known == pixels).all(1).nonzero().flatten()
        assert len(places) and (test.labels[places] == label).all()
    assert len(seen[2][1].unique()) == 10


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["digits", "--model", MICRO, "--shots", "1,many"], "--shots 1,many: expected numbers"),
        (["digits", "--model", MICRO, "--shots", ""], "shots []: expected whole numbers"),
        (["digits", "--model", MICRO, "--shots", "0,1"], "shots [0, 1]: expected whole numbers"),
        (
            ["digits", "--model", MICRO, "--shots", "1,150"],
            "150 images of each class, but class 0 has 143",
        ),
        (["digits", "--model", MICRO, "--draws", "1"], "--draws"),
        (["digits", "--model", MICRO, "--share", "0"], "share 0.0: expected more than 0"),
        (["digits", "--model", MICRO, "--test-images", "400"], "digits has 355 held out"),
        (["digits", "--model", MICRO, "--image-size", "9"], "9"),
        (["digits", "--model", "vit_nano_focus"], "vit_nano_focus"),
        (["digits", "--model", "gone.safetensors"], "gone.safetensors"),
        (["digits", "--model", "poster-vit_mini_patch4_32-seed0-20290c65"], "of 1 channels"),
        (["digit", "--model", MICRO], "digit"),
        (["digits", "--model", MICRO, "--out", "/proc/x"], "/proc"),
    ],
)
def test_bad_words_are_refused_at_once(words, said, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["vitbook", "few-shot", *words])
    monkeypatch.setattr("vitbook.cli.few_shot.few_shot_curve", None)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert said in capsys.readouterr().err
