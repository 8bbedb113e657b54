"""How long a run takes is told by a step of that run: here the clock counts operations."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from vitbook.measure import count_macs
from vitbook.models import create_model
from vitbook.runs import PlannedRun, get_recipe
from vitbook.training import pace
from vitbook.training.objectives.kept_answers import About
from vitbook.training.pace import Pace, told

CPU = torch.device("cpu")
IMAGES = 64  # of a run
LABELS = PlannedRun(
    "vit_micro_patch2_8", "digits", get_recipe("digits", epochs=1, epoch_images=IMAGES)
)


@pytest.fixture
def operations(monkeypatch):
    """What `Pace` says of a run, in multiply-adds of an image in the place of minutes."""

    def count(run):
        with FlopCounterMode(display=False) as counter:
            clock = SimpleNamespace(perf_counter=counter.get_total_flops)
            monkeypatch.setattr(pace, "time", clock)
            return Pace(CPU).minutes([run]) * 60 / IMAGES / 2

    return count


def of(teacher="", **changes):
    recipe = replace(LABELS.recipe, label_smoothing=0.0, **changes)
    return replace(LABELS, recipe=recipe, teacher=teacher)


def forward(name):
    return count_macs(create_model(name), torch.zeros(1, 1, 8, 8))


def test_labels_take_a_pass_and_its_gradient(operations):
    # The first layer has no gradient to hand on to the pixels.
    assert operations(LABELS) == pytest.approx(3 * forward(LABELS.model), rel=0.02)


@pytest.mark.parametrize("objective", ["simclr", "byol", "dino"])
def test_two_views_take_two_passes(operations, objective):
    views = operations(of(objective=objective))
    assert 1.9 < views / operations(LABELS) < 3.2  # slow weights look too, without a gradient


def test_a_masked_autoencoder_takes_what_its_visible_quarter_and_its_decoder_take(operations):
    found = operations(of(objective="mae"))
    learner = pace.make_learner(create_model(LABELS.model), of(objective="mae").recipe, 0)
    images = torch.rand(32, 1, 8, 8)
    with FlopCounterMode(display=False) as counter:
        learner(images, *learner.trial_inputs(images)).loss.backward()
    assert found == pytest.approx(counter.get_total_flops() / 32 / 2)
    assert found != pytest.approx(operations(LABELS), rel=0.05)


def test_a_teacher_answers_once_and_a_kept_answer_costs_nothing(operations, monkeypatch):
    taught = of("fresh:resnet8_digits", distillation="soft")
    plain, teacher = operations(LABELS), forward("resnet8_digits")
    assert operations(taught) == pytest.approx(plain + teacher, rel=0.02)
    shipped = replace(taught, teacher="digits-resnet8_digits-digits-seed0")
    assert operations(shipped) == pytest.approx(plain + teacher, rel=0.02)
    kept = pace.KeptAnswers(torch.zeros(1, 10), About("digits", "", ["0"], {}))
    monkeypatch.setattr(pace, "load_teacher", lambda *_: kept)
    assert operations(shipped) == plain


def test_a_step_that_looks_uphill_takes_two(operations):
    assert operations(of(sharpness_radius=0.1)) == pytest.approx(2 * operations(LABELS))


def test_runs_are_added_and_the_same_step_is_timed_once(monkeypatch):
    timed = []
    seconds = {"": 3.0, "simclr": 6.0}

    def fake(run, device):
        timed.append(run.recipe.objective)
        return seconds[run.recipe.objective]

    monkeypatch.setattr(pace, "_seconds_an_image", fake)
    here = Pace(CPU)
    assert here.minutes([LABELS, replace(LABELS, seed=1)]) == 2 * IMAGES * 3 / 60
    assert here.minutes([of(objective="simclr"), of(), LABELS]) == IMAGES * 12 / 60
    assert timed == ["", "simclr"]


def test_where_gradients_are_off_a_step_has_some_and_they_stay_off():
    with torch.no_grad():
        assert math.isfinite(Pace(CPU).minutes([of(objective="byol")]))
        assert not torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("minutes", "words"), [(0.2, "a minute"), (1.6, "2 minutes"), (150, "2.5 hours")]
)
def test_minutes_in_words(minutes, words):
    assert told(minutes) == words
