"""What the measurement writes, what the chapter reads of it, and its drawings."""

import pytest
import torch

from vitbook import runs
from vitbook.studies import detection as study
from vitbook.studies.detection import measures, training
from vitbook.studies.detection.average_precision import Found, Judged
from vitbook.studies.detection.canvases import make_canvases
from vitbook.studies.detection.evidence import evidence
from vitbook.studies.detection.kept import FILE, load_detector
from vitbook.studies.detection.matching import match_from_left
from vitbook.studies.detection.training import ARMS, Arm, detect, learn, outcome

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(training, "BATCH", 8)


@pytest.fixture(scope="module")
def few():
    return make_canvases("train", 12), make_canvases("test", 6, seed=2)


def test_a_row_for_each_arm_and_the_detector_beside(monkeypatch, tmp_path):
    arms = {"set loss": Arm(), "left": Arm(match=match_from_left)}
    for module in (training, measures):
        monkeypatch.setattr(module, "ARMS", arms)
    (row,) = measures.detection(
        steps=2, canvases=8, held_out=4, seeds=2, device="cpu", out=tmp_path
    )
    assert [(each["arm"], each["seed"]) for each in row.rows] == [
        ("set loss", 0), ("left", 0), ("set loss", 1), ("left", 1)
    ]  # fmt: skip
    assert row.settings["steps"] == 2 and row.settings["held_out"] == 4
    for each in row.rows:
        assert [point["step"] for point in each["curve"]] == [1, 2]
        assert 0 <= each["ap"][1] <= each["ap50"][2] <= 1
    model, about = load_detector(tmp_path / "detection.safetensors")
    assert (about["arm"], about["seed"], about["commit"]) == ("set loss", 0, row.commit)
    assert model.num_queries == 10


def test_a_seed_decides_what_is_learned(few):
    curves = [learn(Arm(), *few, 3, seed, CPU)[1] for seed in (0, 0, 1)]
    assert curves[0] == curves[1] != curves[2]


def test_it_learns_what_it_is_shown(few):
    """Twelve canvases by heart: the loss falls far below what it begins with."""
    one = few[0].with_at_most(2)
    _, curve = learn(Arm(), one, few[1], 40, 0, CPU)
    assert curve[-1]["loss"] < 0.7 * curve[0]["loss"]


def test_few_queries_learn_from_few_objects_and_are_asked_of_all(few):
    model, _ = learn(ARMS["three queries"], *few, 1, 0, CPU)
    told = outcome(model, few[1])
    counts = [len(each) for each in few[1].objects]
    assert told["recall_at_most"] == pytest.approx(
        sum(min(count, 3) for count in counts) / sum(counts), abs=1e-4
    )
    assert told["recall_at_most"] < 1


def test_the_chapters_detector_does_what_the_ledger_says():
    (row,) = runs.measurements("detection")
    model, about = study.load_detector()
    assert (runs.data_folder() / FILE).stat().st_size < 1e6
    main = study.measured()["set loss"]
    assert study.CHANGED.keys() == study.measured().keys()
    assert [line["what is changed"] for line in study.changed()] == [*study.CHANGED.values()]
    assert about["ap50"] == main["ap50"] and about["commit"] == row.commit
    held_out = make_canvases("test", row.settings["held_out"], seed=2)
    now = Judged(detect(model, held_out), held_out.objects).precision()
    assert now.ap50 == pytest.approx(main["ap50"][0], abs=0.005)  # stored in half precision
    assert now.ap == pytest.approx(main["ap"][0], abs=0.005)


def test_the_evidence_and_the_curves_are_of_the_same_rows():
    arms, curves = evidence().tables
    assert [line["arm"] for line in arms.lines] == [line["arm"] for line in curves.lines]
    assert {line["arm"] for line in arms.lines} == set(ARMS)
    for arm, curve in study.learning_curves().items():
        assert curve[-1][1] == pytest.approx(study.measured()[arm]["ap50"][0], abs=1e-4)


def test_drawings_take_results(few):
    images, there = few[1].images[:3], few[1].objects[:3]
    found = [Found(torch.full((len(each),), 0.9), each.labels, each.boxes) for each in there]
    named = dict(zip("abc", images, strict=True))
    figure = study.boxes_on(named, found, "Answers", objects=there)
    boxes, words = zip(*((len(axis.patches), len(axis.texts)) for axis in figure.axes), strict=True)
    counts = [len(each) for each in there]
    assert list(boxes[:3]) == [2 * count for count in counts]
    assert list(words[:3]) == counts
    left = figure.axes[0].patches[0].get_x()
    box = there[0].boxes[0]
    assert left == pytest.approx(40 * float(box[0] - box[2] / 2) - 0.5, abs=1e-4)
    none = study.boxes_on(named, found, "Nobody is sure", least=0.95)
    assert not any(axis.patches for axis in none.axes)
    maps = {"query 0": torch.rand(8, 8), "query 1": torch.rand(8, 8)}
    points = [torch.rand(16, 2)] * 2
    drawn = study.query_attention(images[0], maps, torch.full((2, 4), 0.4), "Looks", points=points)
    assert [len(axis.images) for axis in drawn.axes] == [2, 2]
    assert all(len(axis.patches) == len(axis.collections) == 1 for axis in drawn.axes)


def test_drawings_ask_for_as_many_answers_as_images(few):
    images, there = few[1].images[:2], few[1].objects[:2]
    found = [Found(torch.full((len(each),), 0.9), each.labels, each.boxes) for each in there]
    named = dict(zip("ab", images, strict=True))
    with pytest.raises(ValueError, match="answers of 1 images for 2: expected as many"):
        study.boxes_on(named, found[:1], "Answers")
    with pytest.raises(ValueError, match="objects of 1 images for 2: expected as many"):
        study.boxes_on(named, found, "Answers", objects=there[:1])
    with pytest.raises(ValueError, match="no images came"):
        study.boxes_on({}, [], "Answers")
