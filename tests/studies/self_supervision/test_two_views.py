"""SimCLR, BYOL and DINO: losses by hand, what they cannot lose, and when they collapse."""

import copy
import inspect
import math
from functools import partial

import pytest
import torch
from small_runs import micro

import vitbook
from vitbook import datasets
from vitbook.runs import Recipe, get_recipe
from vitbook.runs.recipe import TWO_VIEWS
from vitbook.studies.self_supervision import (
    BYOL,
    DINO,
    SimCLR,
    contrastive_loss,
    nearest_other,
    spread,
)
from vitbook.studies.self_supervision.slow_copy import prediction_loss
from vitbook.training import train
from vitbook.training.engine.augment import augment
from vitbook.training.engine.batch_random import BatchRandom
from vitbook.training.engine.batches import Batches
from vitbook.training.objectives.followers import distillation_targets, follow, slow_copies
from vitbook.training.objectives.questions import make_learner


def naive(first, second, temperature):
    """Equation 1 of SimCLR, view by view."""
    views = [v / v.norm() for v in torch.cat([first, second])]
    total, half = 0.0, len(first)
    for i, view in enumerate(views):
        partner = (i + half) % len(views)
        others = [math.exp(view @ other / temperature) for k, other in enumerate(views) if k != i]
        total -= math.log(math.exp(view @ views[partner] / temperature) / sum(others))
    return total / len(views)


@pytest.mark.parametrize("temperature", [0.1, 2.0])
def test_the_contrastive_loss_is_that_of_a_loop(temperature):
    first, second = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    found = contrastive_loss(first, second, temperature).item()
    assert found == pytest.approx(naive(first, second, temperature), rel=1e-4)


@pytest.mark.parametrize("count", [2, 16])
def test_what_the_contrastive_loss_is_at_its_ends(count):
    orthogonal, alike = torch.eye(32)[:count], torch.ones(count, 8)
    least = math.log(1 + (2 * count - 2) * math.exp(-2))
    assert contrastive_loss(orthogonal, orthogonal, 0.5).item() == pytest.approx(least, rel=1e-5)
    guess = math.log(2 * count - 1)
    assert contrastive_loss(alike, alike, 0.5).item() == pytest.approx(guess, rel=1e-5)


def test_the_prediction_loss_and_its_gradient():
    axis, other = torch.eye(2)
    pairs = ((axis, axis, 0.0), (axis, other, 2.0), (axis, -3 * axis, 4.0))
    for predicted, target, distance in pairs:
        predicted, target = predicted[None].requires_grad_(), target[None].requires_grad_()
        loss = prediction_loss(predicted, target)
        assert loss.item() == pytest.approx(distance, abs=1e-6)
        loss.backward()
        assert target.grad is None


def test_what_the_slow_copy_asks_for_by_hand():
    """Two prototypes; the scores of two images favour the first."""
    scores, center = torch.tensor([[3.0, 1.0], [2.0, 2.0]]), torch.tensor([2.5, 1.5])
    targets = distillation_targets(scores, center, 1 / math.log(3))
    assert torch.allclose(targets, torch.tensor([[0.75, 0.25], [0.25, 0.75]]))
    moved = torch.tensor([5.0, -2.0])  # what all images share says nothing
    assert torch.allclose(distillation_targets(scores + moved, center + moved, 0.5),
                          distillation_targets(scores, center, 0.5))  # fmt: skip
    without = distillation_targets(scores, torch.zeros(2), 0.5)
    assert (without[:, 0] >= without[:, 1]).all()
    first = [distillation_targets(scores, center, t)[0, 0].item() for t in (0.1, 1.0, 10.0)]
    assert first[0] > first[1] > first[2] > 0.5


def test_the_loss_of_self_distillation_is_that_of_a_loop():
    torch.manual_seed(0)
    learner = DINO(vitbook.create_model("vit_micro_patch2_8")).train()
    views = torch.rand(2, 4, 1, 8, 8)
    with torch.no_grad():
        loss = learner(*views).loss  # at first the copy is the body
        tokens = [learner.model.features(view)[:, 1:].mean(1) for view in views]
        first, second = (learner.projector(each) for each in tokens)
    total = 0.0
    for student, teacher in ((first, second), (second, first)):
        for s, g in zip(student, teacher, strict=True):
            wanted = (g / 0.04).softmax(0)
            total -= (wanted * (s / 0.1).softmax(0).log()).sum().item() / 8
    assert loss.item() == pytest.approx(total, rel=1e-4)
    mean = torch.cat([first, second]).mean(0)
    assert torch.allclose(learner.slow_center, 0.1 * mean, atol=1e-6)
    learner.eval()(*views)
    assert torch.allclose(learner.slow_center, 0.1 * mean, atol=1e-6)


@pytest.mark.parametrize("kind", [BYOL, DINO])
def test_the_slow_copy_learns_by_following_alone(kind):
    torch.manual_seed(0)
    learner = kind(vitbook.create_model("vit_micro_patch2_8"), momentum=0.9)
    views = torch.rand(2, 4, 1, 8, 8)
    learner.train()
    learner(*views).loss.backward()
    slow = learner.slow_model.tokenizer.projection.weight
    fast = learner.model.tokenizer.projection.weight
    assert slow.grad is None and fast.grad is not None
    assert torch.equal(slow, fast)
    before = slow.clone()
    with torch.no_grad():
        fast += 1
    learner(*views)
    assert torch.allclose(slow, before + 0.1, atol=1e-6)
    learner.eval()
    learner(*views)
    assert torch.allclose(slow, before + 0.1, atol=1e-6)


def learned(learner, steps):
    """The spread of the projections over a short training on digits."""
    digits, recipe = datasets.load("digits", "train"), get_recipe("digits")
    batches = Batches(digits, recipe, 0, torch.device("cpu"))
    weights = [weight for weight in learner.parameters() if weight.requires_grad]
    optimizer, spreads = torch.optim.AdamW(weights, lr=2e-3, weight_decay=0.05), []
    learner.train()
    for step in range(steps):
        shown = digits.images[batches.shown_at(step)]
        views = [augment(shown, recipe, BatchRandom(64, seed, step)) for seed in (0, 1)]
        found = learner(*views)
        optimizer.zero_grad()
        found.loss.backward()
        optimizer.step()
        spreads.append(spread(found.projections))
    return spreads


def test_without_its_predictor_byol_collapses_and_simclr_spreads_the_images():
    small = partial(micro, "vit_micro_d1_patch2_8")
    kept, spread_out = learned(BYOL(small()), 25), learned(SimCLR(small()), 25)
    lost = learned(BYOL(small(), predictor=False, momentum=0), 25)
    assert min(kept) > 0.3 > 0.05 > lost[-1] and spread_out[-1] > 0.9 > spread_out[0]


def test_self_distillation_collapses_without_a_center_and_without_sharp_targets():
    small = partial(micro, "vit_micro_d1_patch2_8")
    kept = learned(DINO(small()), 60)
    for lacking in (dict(centered=False), dict(sharp=False)):
        assert learned(DINO(small(), **lacking), 60)[-1] < 0.02 < 0.04 < kept[-1]


def test_the_spread_by_hand():
    axes = torch.eye(4)
    assert spread(axes) == pytest.approx(0.75)
    assert spread(torch.cat([axes, -3 * axes])) == pytest.approx(1)
    assert spread(axes[:1].expand(5, -1) * torch.arange(1, 6)[:, None]) == pytest.approx(0)
    assert spread(torch.zeros(3, 4)) == 0  # all are one, and of no direction


@pytest.mark.parametrize("objective", TWO_VIEWS)
def test_a_run_by_its_recipe(objective):
    digits = datasets.load("digits", "train")
    few = datasets.Dataset(digits.images[:256], digits.labels[:256], digits.class_names, {})
    recipe = Recipe("views", 2, 64, 1e-3, shift=0.5, objective=objective)
    outcomes = []
    for labels in (few.labels, few.labels.flip(0)):  # which are looked at in the scores alone
        model = micro()
        head = model.head.classifier.weight.clone()
        data = datasets.Dataset(few.images, labels, few.class_names, {})
        outcome = train(model, data, recipe, test=few, progress=False, device="cpu")
        assert torch.equal(head, model.head.classifier.weight)
        assert {"accuracy", "spread"} <= set(outcome.curve[-1])
        outcomes.append(outcome)
    assert outcomes[0].curve == outcomes[1].curve
    batches = Batches(few, recipe, 0, torch.device("cpu"))
    views = batches[3][0], batches.second_view(3)
    assert torch.equal(batches.second_view(3), views[1]) and not torch.equal(*views)


def test_the_nearest_other_image():
    features = torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.1, 3.0], [-1.0, 0.0]])
    assert nearest_other(features, torch.tensor([0, 0, 1, 1, 0])) == pytest.approx(0.8)
    assert nearest_other(6e4 * torch.eye(3).half(), torch.tensor([0, 0, 1])) <= 1  # no overflow
    with pytest.raises(ValueError, match="1 images: expected two at least"):
        nearest_other(features[:1], torch.tensor([0]))
    with pytest.raises(ValueError, match="hold NaN, or numbers too large to have a length"):
        nearest_other(1e30 * features, torch.tensor([0, 0, 1, 1, 0]))
    with pytest.raises(ValueError, match="features of length 0: expected 1e-12 at least"):
        nearest_other(features * torch.tensor([1, 1, 0, 1, 1.0])[:, None], torch.zeros(5).long())
    for labels in (torch.zeros(4), torch.zeros(10), torch.zeros(5, 1)):
        with pytest.raises(ValueError, match="labels .*: expected one for each of 5"):
            inspect.unwrap(nearest_other)(features, labels.long())
    with pytest.raises(ValueError, match="expected one image at least"):
        spread(features[:0])


def test_a_slow_copy_at_the_ends_of_its_momentum():
    ahead = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    (behind,) = slow_copies(ahead)
    before = behind[0].weight.clone()
    torch.nn.init.ones_(ahead[0].weight)
    follow(behind, ahead, 1)
    assert torch.equal(behind[0].weight, before)
    follow(behind, ahead, 0)
    assert torch.equal(behind[0].weight, ahead[0].weight)
    for momentum in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=f"momentum {momentum}: expected a share from 0 to 1"):
            follow(behind, ahead, momentum)
    for temperature in (0, -0.1, math.nan):
        with pytest.raises(ValueError, match="expected a number above 0"):
            distillation_targets(torch.ones(1, 2), torch.zeros(2), temperature)


def test_cosines_keep_their_digits_under_autocast():
    views = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0))
    plain = contrastive_loss(*views, 0.05)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(contrastive_loss(*views, 0.05), plain)


def test_dino_learns_under_autocast_and_keeps_the_digits_of_its_cosines():
    torch.manual_seed(0)
    learner = DINO(vitbook.create_model("vit_micro_patch2_8")).train()
    views = torch.rand(2, 8, 1, 8, 8)
    plain = copy.deepcopy(learner)(*views).loss
    with torch.autocast("cpu", torch.bfloat16):
        found = learner(*views).loss
        scores = learner.projector(torch.rand(8, 64))
    found.backward()
    assert found.item() == pytest.approx(plain.item(), rel=0.02)
    assert not torch.equal(scores, scores.bfloat16().float())


def byol_run(wrapped, **changes):
    digits = datasets.load("digits", "train")
    few = datasets.Dataset(digits.images[:128], digits.labels[:128], digits.class_names, {})
    recipe = Recipe("views", 2, 64, 1e-3, shift=0.5, objective="byol", **changes)
    model = micro()
    learner = make_learner(model, recipe, 0) if wrapped else model
    outcome = train(learner, few, recipe, progress=False, device="cpu")
    return outcome, learner


def test_the_slow_projector_sees_the_statistics_of_the_batch():
    _, learner = byol_run(wrapped=True)
    fast, slow = learner.projector[1], learner.slow_projector[1]
    assert slow.num_batches_tracked == fast.num_batches_tracked == 4
    assert torch.allclose(slow.running_var, fast.running_var, atol=0.02)
    assert (slow.running_var < 0.95).all()  # 1 is what it begins with


@pytest.mark.parametrize(
    "changes",
    [dict(adapter_rank=2), dict(drop_path=0.3)],
)
def test_a_learner_learns_as_the_model_inside_would(changes):
    (ours, _), (theirs, _) = byol_run(True, **changes), byol_run(False, **changes)
    assert ours.curve == theirs.curve


@pytest.mark.parametrize(
    ("kind", "dtype"), [(SimCLR, torch.float64), (BYOL, torch.bfloat16), (DINO, torch.float64)]
)
def test_a_body_of_another_precision_under_its_projector(kind, dtype):
    torch.manual_seed(0)
    learner = kind(vitbook.create_model("vit_micro_patch2_8").to(dtype))
    views = torch.rand(2, 6, 1, 8, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = learner(*views)
    found.loss.backward()
    assert found.loss.isfinite() and found.projections.dtype == torch.float32
    assert learner.model.tokenizer.projection.weight.grad.dtype == dtype
    again = learner.eval()(*views).loss.item()
    exact = learner.float()(*views.float()).loss.item()
    assert again == pytest.approx(exact, rel=0.05)
