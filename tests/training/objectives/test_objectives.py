from dataclasses import replace

import pytest
import torch
from small_runs import PulledPlugError, bits, few_digits, micro, same

import vitbook
from vitbook import runs
from vitbook.datasets import normalize
from vitbook.errors import UnknownNameError
from vitbook.runs import Recipe, get_recipe
from vitbook.runs.recipe import TWO_VIEWS
from vitbook.training import (
    BatchTooLargeError,
    CheckpointError,
    MaskedAutoencoder,
    MaskedPatches,
    SimCLR,
    TeacherError,
    UnfinishedRunError,
    load_teacher,
    run,
    save_checkpoint,
    start_from,
    train,
)
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.memory import largest_fitting_batch
from vitbook.training.objectives.patch_colors import patch_classes
from vitbook.training.objectives.questions import LEARNERS

# A run with everything that could remember something.
RECIPE = Recipe(
    name="colors", epochs=2, batch_size=32, learning_rate=1e-3, warmup_epochs=1.0, ema=0.9,
    drop_path=0.2, shift=0.5, mixup=0.5, cutmix=0.5, repeats=2, erasing=0.5,
    policy="trivialaugment", objective="masked_patches",
)  # fmt: skip
UNMIXED = replace(RECIPE, mixup=0.0, cutmix=0.0)
PLAIN = Recipe(
    name="plain", epochs=2, batch_size=32, learning_rate=2e-3, objective="masked_patches"
)


BODIES = dict.fromkeys(LEARNERS, "vit_micro_patch2_8") | {"next_pixels": "igpt_micro_patch1_8"}


def learn(recipe=PLAIN, model=None, **options):
    model = model or micro()
    options = dict(test=few_digits("test", 40), device="cpu", progress=False) | options
    return train(model, options.pop("data", few_digits()), recipe, **options), model


def learn_until(step, path, learner):
    """Stop dead in a step, when the one before has been written."""
    steps = 0

    def stop(module, _):
        nonlocal steps
        steps += module.training
        if steps > step:
            raise PulledPlugError

    learner.model.tokenizer.register_forward_pre_hook(stop)
    objective = next(name for name, kind in LEARNERS.items() if isinstance(learner, kind))
    mixed = UNMIXED if objective in TWO_VIEWS else RECIPE  # two views show one image
    if objective == "simclr":  # which takes no image twice in a batch: two passes an epoch instead
        mixed = replace(mixed, repeats=1, epoch_images=256)
    return learn(replace(mixed, objective=objective), learner, state=path, save_every_s=0, seed=3)


@pytest.mark.parametrize("objective", LEARNERS)
def test_a_run_goes_on_to_the_same_bits(objective, tmp_path):
    def fresh():
        torch.manual_seed(0)
        return LEARNERS[objective](micro(BODIES[objective]))

    whole, learner = learn_until(10**9, tmp_path / "whole", fresh())
    path = tmp_path / "cut"
    for step in (1, 9):  # the run has 16 steps; each count starts anew
        with pytest.raises(PulledPlugError):
            learn_until(step, path, fresh())
    parts, again = learn_until(10**9, path, fresh())
    assert same(bits(again), bits(learner))  # the mask and the predictor with the body
    assert whole.curve == parts.curve
    kept = again.own_parts()  # what travels with the body
    left = {name.split(".")[0] for name in again.state_dict().keys() - kept.keys()}
    followers = {"slow_model", "slow_projector"} if objective == "byol" else set()
    assert left == {"model"} | followers and kept


def test_a_run_that_learns_labels_does_not_go_on_as_one_without(tmp_path):
    learner = MaskedPatches(micro())
    with pytest.raises(PulledPlugError):
        learn_until(3, tmp_path / "state", learner)
    with pytest.raises(UnfinishedRunError, match="is of another run: its objective|its recipe"):
        learn(replace(RECIPE, objective=""), state=tmp_path / "state", seed=3)


@pytest.mark.parametrize("objective", ["masked_patches", "next_pixels", "mae"])
def test_the_body_learns_without_labels_and_the_head_does_not(objective):
    before, data = bits(micro(BODIES[objective])), few_digits()
    recipe, other = replace(PLAIN, objective=objective), replace(data, labels=data.labels.flip(0))
    outcome, model = learn(recipe, micro(BODIES[objective]))
    _, theirs = learn(recipe, micro(BODIES[objective]), data=other)
    assert same(bits(model), bits(theirs))
    changed = {
        name.split(".")[0] for name, now in bits(model).items() if (now != before[name]).any()
    }
    assert changed == {"tokenizer", "prefix", "position", "encoder"}
    assert all(weight.requires_grad for weight in model.parameters())
    assert outcome.curve[1]["loss"] < outcome.curve[0]["loss"]
    assert set(outcome.curve[0]) == {
        "epoch", "loss", "learning_rate", "accuracy", "held_out_loss"
    }  # fmt: skip
    assert outcome.accuracy == outcome.curve[-1]["accuracy"]


@pytest.mark.parametrize("objective", ["masked_patches", "next_pixels"])
@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_who_gives_the_learner_keeps_what_predicts(objective, ema):
    learner = LEARNERS[objective](micro(BODIES[objective]))
    outcome, _ = learn(replace(PLAIN, objective=objective, ema=ema, epochs=1), learner)
    last = {key: outcome.curve[-1][key] for key in ("accuracy", "held_out_loss")}
    assert learner.score(few_digits("test", 40)) == last


def test_who_always_says_one_colour_is_right_as_often_as_it_is_asked_for():
    data, learner = few_digits("test", 300), MaskedPatches(micro())
    torch.nn.init.zeros_(learner.predictor.weight)
    learner.predictor.bias.data[0] = 5.0
    share = (patch_classes(data.images, 2) == 0).double().mean().item()
    assert learner.score(data)["accuracy"] == pytest.approx(share, abs=0.03)


def test_a_probe_is_shown_the_body():
    seen = []

    def look(model):
        learns = {name.split(".")[0] for name, w in model.named_parameters() if w.requires_grad}
        seen.append((type(model).__name__, "head" in learns))
        return {}

    learn(probe=look, probe_epochs=(0, 2))
    assert seen == [("VisionTransformer", False)] * 2


def test_two_processes_share_the_masks_of_one():
    learner, data = MaskedPatches(micro()), few_digits()
    alone, *parts = (
        Batches(data, PLAIN, 3, torch.device("cpu"), rank, count)
        for rank, count in ((0, 1), (0, 2), (1, 2))
    )

    def masks(batches, step=5):
        return learner.inputs(batches, step)[0]

    for whole, first, second in zip(masks(alone), *map(masks, parts), strict=True):
        assert torch.equal(whole[0::2], first) and torch.equal(whole[1::2], second)
    assert not torch.equal(masks(alone).kinds, masks(alone, 6).kinds)


@pytest.mark.parametrize("objective", ["masked_patches", "next_pixels", "mae"])
def test_a_checkpoint_from_which_a_run_on_labels_starts(objective, tmp_path):
    recipe = replace(PLAIN, epochs=1, epoch_images=128, objective=objective)
    name = BODIES[objective]
    row = run(name, "digits", recipe, folder=tmp_path, device="cpu", progress=False)
    path = tmp_path / f"{row.name}.safetensors"
    body = vitbook.load_checkpoint(path)
    assert body.class_names == () and body.provenance["recipe"]["objective"] == objective
    assert body.model.tokenizer.projection.weight.abs().max() > 0
    started = start_from(path, name, image_size=8, num_classes=10, channels=1)
    images = normalize(few_digits().images)
    assert torch.equal(started.eval().features(images), body.model.features(images))
    assert not started(images).any()
    # A score of colours does not stand among the scores of classes.
    assert runs.read(tmp_path) == []
    assert [kept.accuracy for kept in runs.read(tmp_path, unlabeled=True)] == [row.accuracy]
    assert objective in runs.table([row])[0]["model"]
    with pytest.raises(TeacherError, match="has learned no classes"):
        load_teacher(path, few_digits(), "digits")
    tuned = run(
        name, "digits", get_recipe("digits", epochs=1, epoch_images=128, warmup_epochs=0.5),
        folder=tmp_path / "tuned", start=path, device="cpu", progress=False,
    )  # fmt: skip
    assert tuned.start.startswith(f"{row.name}@")


@pytest.mark.parametrize("objective", ["masked_patches", "next_pixels", "mae"])
def test_what_fits_is_tried_with_what_the_learner_takes(objective, monkeypatch):
    kind, tried = LEARNERS[objective], []
    forward = kind.forward

    def small(self, images, *inputs):
        tried.append(len(images))
        if len(images) > 4:
            raise torch.OutOfMemoryError("no more")
        return forward(self, images, *inputs)

    monkeypatch.setattr(kind, "forward", small)
    with pytest.raises(BatchTooLargeError, match="batch_size 32 does not fit .*; 4 does"):
        learn(replace(PLAIN, objective=objective), kind(micro(BODIES[objective])))
    assert tried == [32, 1, 2, 4, 8]


def test_who_gives_a_share_is_trained_with_it():
    learner, hidden = MaskedAutoencoder(micro(), share=0.5), []
    learner.register_forward_pre_hook(lambda _, args: hidden.append(args[1].shape[1]))
    learn(replace(PLAIN, objective="mae", epochs=1), learner)
    assert set(hidden) == {8}


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        (dict(label_smoothing=0.1), ValueError, "label_smoothing with objective 'masked_patches'"),
        (dict(head_learning_rate=1e-3, pool="mean"), ValueError, "head_learning_rate and pool wit"),
        (dict(train_from="head.classifier"), ValueError, "knows no head: nothing of the model wo"),
        (dict(objective="masked_patch"), UnknownNameError, "did you mean masked_patches"),
        (dict(objective="simclr", mixup=0.5), ValueError, "mixed images with objective 'simclr'"),
        (dict(objective="simclr", repeats=2), ValueError, "with objective 'simclr', .* repeats to"),
    ],
)
def test_a_recipe_whose_numbers_would_change_nothing_is_refused(changes, error, told):
    with pytest.raises(error, match=told):
        replace(PLAIN, **changes)


@pytest.mark.parametrize(
    ("objective", "make", "told"),
    [
        ("masked_patches", lambda: micro("sl_vit_micro_patch2_8"), "whose tokens see one"),
        ("", lambda: MaskedPatches(micro()), "a MaskedPatches and recipe plain, which learns lab"),
        ("masked_patches", lambda: SimCLR(micro()), "a SimCLR and recipe plain, which learns obj"),
        ("byol", lambda: micro("resnet8_digits"), "two views for a ResNet: expected a Vision Tr"),
        ("next_pixels", lambda: micro("vit_micro_patch1_8"), "expected a causal Vision Transform"),
        ("mae", lambda: micro("linformer_vit_micro_patch2_8"), "encoder that does not take 5 of"),
    ],
)
def test_what_cannot_learn_without_labels_is_refused(objective, make, told):
    with pytest.raises(ValueError, match=told):
        learn(replace(PLAIN, objective=objective), make())


@pytest.mark.parametrize("objective", LEARNERS)
def test_what_fits_is_tried_with_copies(objective):
    learner = LEARNERS[objective](micro(BODIES[objective])).train()
    with torch.no_grad():
        for weight in learner.model.parameters():
            weight += 0.01  # from which a slow copy is away
    before = bits(learner)
    assert largest_fitting_batch(learner, torch.zeros(1, 8, 8), 8) == 4
    assert same(bits(learner), before)


def test_stochastic_depth_is_of_the_body_alone():
    learner = MaskedAutoencoder(micro())
    learn(replace(PLAIN, objective="mae", epochs=1, drop_path=0.3), learner)
    rates = [block.drop_path.rate for block in learner.model.encoder.blocks]
    assert rates == pytest.approx([0, 0.1, 0.2, 0.3])
    assert not any(block.drop_path.rate for block in learner.decoder.blocks)


def test_a_part_that_would_come_back_as_one_beside_the_model(tmp_path):
    model = micro()
    model.register_buffer("beside:x", torch.zeros(2))
    with pytest.raises(CheckpointError, match="beside:x is a part of the model"):
        save_checkpoint(tmp_path / "own.safetensors", model)
    assert not list(tmp_path.iterdir())
