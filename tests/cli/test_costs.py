import re

import numpy as np
import pytest
import torch

from vitbook import measure, runs
from vitbook.measure import count_macs, count_parameters
from vitbook.models import create_model

NAMES = ["vit_micro_patch2_8", "sl_vit_micro_patch2_8"]
QUICK = [
    "measure",
    "costs",
    "--subject",
    "micro",
    "--batch",
    "3",
    "--rounds",
    "2",
    "--threads",
    "1",
    "--device",
    "cpu",
]


@pytest.fixture
def costs(told, tmp_path):
    """What the command says, and the row that it writes."""

    def run(*words):
        said = told(*QUICK, *words, "--out", tmp_path)
        (found,) = runs.measurements("costs", "micro", tmp_path)
        return said, found

    return run


def test_a_row_for_each_model_and_times_over_the_first(costs):
    said, found = costs(*NAMES, "--shared")
    assert [row["model"] for row in found.rows] == NAMES
    for row in found.rows:
        model = create_model(row["model"]).eval()
        assert row["parameters"] == count_parameters(model)
        assert row["macs"] == count_macs(model, torch.zeros(1, 1, 8, 8))
        middle, low, high = row["time"]
        assert 0 < low <= middle <= high and row["seconds"] > 0
        assert f"{row['parameters']:,}" in said
    assert found.rows[0]["time"] == [1, 1, 1] != found.rows[1]["time"]
    settings = found.settings
    assert [row["image_size"] for row in found.rows] == [8, 8]
    assert (settings["image_size"], settings["batch"], settings["rounds"]) == (8, 3, 2)
    assert settings["threads"] == 1 and settings["clock"].startswith("processor time; the machine")
    assert settings["weights"] == "random" and "over that of vit_micro" in settings["time"]


def test_each_model_runs_at_each_size(costs):
    names = ["vit_mini_patch4_32", "timm:test_resnet", "timm:test_vit"]
    _, found = costs(*names, "--size", "32", "--size", "64")
    assert [(row["model"], row["image_size"]) for row in found.rows] == [
        (name, size) for size in (32, 64) for name in names
    ]
    assert found.settings["image_size"] == [32, 64]
    assert "over that of vit_mini_patch4_32 (32 px)" in found.settings["time"]
    small, _, _, large, *_ = found.rows
    model = create_model("vit_mini_patch4_32", image_size=64).eval()
    assert large["macs"] == count_macs(model, torch.zeros(1, 3, 64, 64)) > 4 * small["macs"]
    assert large["memory_bytes"] > 3 * small["memory_bytes"] > 0
    resnets = [row for row in found.rows if row["model"] == "timm:test_resnet"]
    assert resnets[1]["macs"] > 3.5 * resnets[0]["macs"]
    assert resnets[0]["parameters"] == resnets[1]["parameters"]


def test_a_device_that_counts_no_memory_says_so(costs, monkeypatch):
    monkeypatch.setattr("vitbook.cli.measurements.costs._memory", lambda *_: None)
    checkpoint = "digits-vit_micro_patch2_8-digits-seed0"
    said, found = costs(checkpoint)
    assert "not counted" in said
    assert found.rows[0]["memory_bytes"] is None
    assert [row["time"] for row in found.rows] == [[1, 1, 1]]  # alone it is beside itself
    # Weights that have learned are named.
    assert [*found.settings["weights"]] == [checkpoint]
    assert found.settings["clock"] == "wall time"


def test_each_model_runs_beside_the_first(costs, monkeypatch):
    names = [*NAMES, "spt_vit_micro_patch2_8"]
    seconds = np.array([[2, 4], [1, 4], [1, 2], [3, 6]])  # first, second, first, third
    monkeypatch.setattr(measure, "interleaved_seconds", lambda *_, **__: seconds.astype(float))
    _, found = costs(*names)
    assert [row["time"][0] for row in found.rows] == [1, 0.75, 3]
    assert [row["time"][1:] for row in found.rows[1:]] == [[0.5, 1], [3, 3]]
    assert [row["seconds"] for row in found.rows] == [round(each / 3, 6) for each in (2, 2.5, 4.5)]


def test_a_shared_machine_asks_for_one_thread(tmp_path, monkeypatch, refused):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    said = refused(*QUICK, *NAMES, "--shared", "--out", tmp_path)
    assert re.search(r"2 threads: only the time of one thread .* --threads 1", said)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["vit_micro_patch2_8", "resnet8_digits", "vit_mini_patch4_32"],
         r"vit_micro_patch2_8 takes images of 1 x 8 px, not: vit_mini_patch4_32 \(3 x 32"),
        (["vit_micro_patch2_8"] * 2, "vit_micro_patch2_8 stands there 2 times: name it once"),
        (["vit_micro_patch2_9"], "did you mean vit_micro_patch2_8"),
        (["timm:test_vit", "--size", "60"], r"expected a multiple of its patches"),
        (["timm:cait_xxs24_224", "--size", "64"], "cait_xxs24_224 takes no images of 64 px"),
        ([*NAMES, "--size", "8", "--size", "8"], "--size 8 stands there 2 times: name it once"),
        (["digits-vit_micro_patch2_8-digits-seed0", "--size", "16"], "size is for random weights"),
        (["vit_micro_patch2_8", "timm:test_resnet", "--size", "32"],
         r"takes images of 1 x 32 px, not: timm:test_resnet \(3 x 32 px\)"),
    ],
)  # fmt: skip
def test_bad_input(tmp_path, names, words, refused):
    assert re.search(words, refused(*QUICK, *names, "--out", tmp_path))
    assert not list(tmp_path.iterdir())
