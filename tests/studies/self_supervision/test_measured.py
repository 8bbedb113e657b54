"""What the chapter measures and claims, on small inputs and on the ledger."""

import pytest
import torch

from vitbook import datasets
from vitbook.studies.self_supervision import (
    DINO,
    distillation_targets,
    evidence,
    side_by_side,
)
from vitbook.studies.self_supervision.evidence import few
from vitbook.studies.self_supervision.measured import (
    TASKS,
    first_images,
    fresh,
    of_features,
    read_pixels,
    read_twice,
    trace,
    worth,
)
from vitbook.training import at_scale
from vitbook.training.objectives.readings import mean_token, mean_tokens


def test_features_that_are_the_label_and_features_that_say_nothing():
    digits, held_out = (datasets.load("digits", split) for split in ("train", "test"))
    labels = [torch.eye(10)[each.labels] for each in (digits, held_out)]
    noise = [torch.randn(len(each), 10, generator=torch.Generator().manual_seed(0))
             for each in (digits, held_out)]  # fmt: skip
    known, guessed = (of_features(*each, digits, held_out) for each in (labels, noise))
    assert known["ridge"][-1] == known["nearest"] == 1
    assert guessed["ridge"][-1] < 0.2 and guessed["nearest"] < 0.2


def test_a_body_is_read_behind_each_of_its_blocks():
    held_out = datasets.load("digits", "test")
    found = worth(fresh(0), held_out, held_out)
    assert len(found["blocks"]) == len(found["distance"]) == 4
    assert found["distance"] == pytest.approx([1] * 4, abs=0.1)  # fresh heads look evenly


def test_tokens_side_by_side_tell_where_something_is_and_their_mean_is_that_of_the_probe():
    images = datasets.load("digits", "test").images[:8]
    body = fresh(0)
    flat, mean = side_by_side(body, images), mean_tokens(body, images)
    assert flat.shape == (8, 16 * mean.shape[1])
    torch.testing.assert_close(flat.unflatten(1, (16, -1)).mean(1), mean)


def test_a_centre_at_zero_lets_few_prototypes_win_and_that_of_the_batch_many():
    digits, learner = datasets.load("digits", "train"), DINO(fresh(0))
    with torch.no_grad():
        scores = learner.projector(mean_token(learner.model, datasets.normalize(digits.images)))
    named = [distillation_targets(scores, center, learner.slow_temperature).argmax(1).unique()
             for center in (torch.zeros(64), scores.mean(0))]  # fmt: skip
    few, many = map(len, named)
    assert few < 8 < 32 < many


def test_a_trace_begins_as_the_learner_does_and_is_the_same_again():
    digits = datasets.load("digits", "train")
    found, again = (trace(DINO, 1, digits, steps=3) for _ in range(2))
    assert found == again and len(found["loss"]) == len(found["spread"]) == 1


def test_runs_with_few_labels_are_told_apart_by_what_their_start_learned():
    found = few()
    assert {"fresh, 60 epochs", "fresh, 600 epochs", "all labels"} < set(found)
    tuned = set(TASKS) & set(found)
    assert {"SimCLR", "BYOL", "masked colours", "masked pixels (MAE)"} <= tuned
    for rows in found.values():
        assert sorted(row.seed for row in rows) == [0, 1, 2]


def test_bodies_of_the_readers_own_are_read_as_the_measured_ones_were():
    found = at_scale("label_free")
    seen, new = first_images(found)
    measured = evidence.worth(found)
    assert measured.keys() >= found.planned.keys() and measured["SimCLR"][0]["seed"] == 0
    read = read_twice(found.model("SimCLR"), seen, new)
    for key in ("ridge", "nearest", "ridge_flat", "nearest_flat"):
        assert read[key] == pytest.approx(measured["SimCLR"][0][key], abs=0.01)
    assert read_pixels(seen, new)["ridge"] == pytest.approx(
        measured["pixels"][0]["ridge"], abs=0.01
    )
