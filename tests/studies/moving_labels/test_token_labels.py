import math

import pytest
import torch
import torch.nn.functional as F
from small_runs import micro

from vitbook.studies.moving_labels import (
    CenteredLabels,
    FixedLabels,
    SlowLabels,
    StoppedLabels,
    TokenLabels,
    TokensApart,
    found,
)
from vitbook.training.objectives.followers import distillation_targets

KINDS = (TokenLabels, StoppedLabels, FixedLabels, SlowLabels, CenteredLabels, TokensApart)


def images(batch=6, seed=0):
    return torch.randn(batch, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def places(learner, batch=6):
    return learner.choose(batch, torch.Generator().manual_seed(1)).places


def learner_of(kind, seed=0):
    torch.manual_seed(seed)
    return kind(micro())


def test_found_by_hand():
    labels = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    assert found(labels, labels) == 1
    assert found(labels[[1, 1, 2]], labels) == pytest.approx(2 / 3)
    assert found(torch.ones(3, 2), torch.ones(3, 2)) == 0  # all alike: none is the largest


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_hidden_reaches_no_answer(kind):
    learner = learner_of(kind).eval()
    hidden = places(learner)
    dark = torch.zeros(6, 16, dtype=torch.bool).scatter(1, hidden, True).view(6, 1, 4, 4)
    dark = dark.repeat_interleave(2, 2).repeat_interleave(2, 3)
    other = images().where(~dark, images(seed=9))
    with torch.no_grad():
        both = [learner(given, hidden) for given in (images(), other)]
    assert torch.equal(both[0].predicted, both[1].predicted)
    assert not torch.equal(both[0].labels, both[1].labels)  # these see the whole image


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_a_loop(kind):
    learner = learner_of(kind).eval()
    seen = learner(images(), places(learner))
    assert seen.predicted.shape == seen.labels.shape == (6, 8, 16)
    p, t = (each.flatten(0, 1).double() for each in (seen.predicted, seen.labels))
    assert torch.allclose(p.norm(dim=1), torch.ones(48).double(), atol=1e-6)
    if kind is CenteredLabels:
        targets = distillation_targets(t, torch.zeros(16), 0.04)
        terms = [-(q * (a / 0.1).log_softmax(0)).sum() for q, a in zip(targets, p, strict=True)]
    elif kind is TokensApart:
        terms = [-(a @ t.T / 0.1).log_softmax(0)[i] for i, a in enumerate(p)]
    else:
        terms = [1 - a @ b for a, b in zip(p, t, strict=True)]
    assert seen.loss.item() == pytest.approx(torch.stack(terms).mean().item(), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_get_a_gradient_only_where_the_body_makes_them(kind):
    learner = learner_of(kind).train()
    learner(images(), places(learner)).loss.backward()
    assert (learner.projector.weight.grad is not None) == (kind in (TokenLabels, TokensApart))
    assert learner.predictor[0].weight.grad.abs().sum() > 0
    copies = [w for name, w in learner.named_parameters() if name.startswith("slow_")]
    assert not any(weight.requires_grad for weight in copies)


def test_stopped_labels_differ_in_the_gradient_alone():
    free, stopped = (learner_of(kind).eval() for kind in (TokenLabels, StoppedLabels))
    both = [each(images(), places(each)) for each in (free, stopped)]
    assert torch.equal(both[0].loss, both[1].loss)
    for seen in both:
        seen.loss.backward()
    weights = [each.model.encoder.norm.weight.grad for each in (free, stopped)]
    assert not torch.allclose(*weights) and weights[1].abs().sum() > 0


@pytest.mark.parametrize(("kind", "moved"), [(FixedLabels, 0.0), (SlowLabels, 0.01)])
def test_how_far_a_copy_goes_in_a_step(kind, moved):
    learner = learner_of(kind).train()
    before = learner.slow_projector.weight.clone()
    with torch.no_grad():
        learner.projector.weight += 1
    learner(images(), places(learner))
    assert torch.allclose(learner.slow_projector.weight, before + moved, atol=1e-6)


def test_the_center_goes_a_tenth_toward_the_mean_label():
    learner = learner_of(CenteredLabels).train()
    seen = learner(images(), places(learner))
    mean = seen.labels.flatten(0, 1).mean(0)
    assert torch.allclose(learner.slow_center, 0.1 * mean, atol=1e-6)


def test_one_label_for_all_solves_the_first_task_and_not_the_last():
    same = F.normalize(torch.ones(5, 16), dim=1)
    assert learner_of(TokenLabels).loss(same, same).item() == pytest.approx(0, abs=1e-6)
    assert learner_of(TokensApart).loss(same, same).item() == pytest.approx(math.log(5), abs=1e-5)


def test_a_score_tells_labels_of_the_place_alone(monkeypatch):
    from small_runs import few_digits

    learner = learner_of(TokenLabels)
    assert learner.score(few_digits("test", 60))["spread"] > 0.1
    table = torch.eye(16)
    monkeypatch.setattr(learner, "label", lambda given: table.expand(len(given), -1, -1))
    assert learner.score(few_digits("test", 60))["spread"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "told"),
    [("sl_vit_micro_patch2_8", "labels of hidden tokens of a model with .* see one patch each"),
     ("vit_patchdropout_micro_patch2_8", "gives fewer tokens than it takes")],
)  # fmt: skip
def test_what_cannot_learn_them_is_refused(name, told):
    with pytest.raises(ValueError, match=told):
        TokenLabels(micro(name))
