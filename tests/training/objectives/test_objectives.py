from dataclasses import replace

import pytest
import torch

import vitbook
from vitbook import datasets, results
from vitbook.datasets import Dataset, normalize
from vitbook.errors import UnknownNameError
from vitbook.training import (
    BatchTooLargeError,
    CheckpointError,
    MaskedAutoencoder,
    MaskedPatches,
    NextPixels,
    Recipe,
    SimCLR,
    TeacherError,
    UnfinishedRunError,
    evaluate,
    evaluate_colors,
    evaluate_pixels,
    get_recipe,
    load_checkpoint,
    load_learner,
    load_teacher,
    run,
    save_checkpoint,
    start_from,
    train,
)
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.memory import largest_fitting_batch
from vitbook.training.objectives.patch_colors import patch_classes
from vitbook.training.objectives.questions import LEARNERS, score
from vitbook.training.recipe import TWO_VIEWS

# A run with everything that could remember something.
RECIPE = Recipe(
    name="colors", epochs=3, batch_size=32, learning_rate=1e-3, warmup_epochs=1.0, ema=0.9,
    drop_path=0.2, shift=0.5, mixup=0.5, cutmix=0.5, repeats=2, erasing=0.5,
    policy="trivialaugment", objective="masked_patches",
)  # fmt: skip
UNMIXED = replace(RECIPE, mixup=0.0, cutmix=0.0)
PLAIN = Recipe(
    name="plain", epochs=2, batch_size=32, learning_rate=2e-3, objective="masked_patches"
)


def few_digits(split="train", n=128):
    whole = datasets.load("digits", split)
    return Dataset(whole.images[:n], whole.labels[:n], whole.class_names, whole.provenance)


BODIES = dict.fromkeys(LEARNERS, "vit_micro_patch2_8") | {"next_pixels": "igpt_micro_patch1_8"}


def micro(name="vit_micro_patch2_8"):
    torch.manual_seed(0)
    return vitbook.create_model(name)


def bits(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(ours, theirs):
    return ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours)


def learn(recipe=PLAIN, model=None, **options):
    model = model or micro()
    options = dict(test=few_digits("test", 40), device="cpu", progress=False) | options
    return train(model, options.pop("data", few_digits()), recipe, **options), model


class PulledPlugError(Exception):
    pass


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
    for step in (1, 4, 8, 9):  # the run has 24 steps; each count starts anew
        with pytest.raises(PulledPlugError):
            learn_until(step, path, fresh())
    parts, again = learn_until(10**9, path, fresh())
    assert same(bits(again), bits(learner))  # the mask and the predictor with the body
    assert whole.curve == parts.curve
    assert any("predictor" in name or "projector" in name for name in bits(again))


def test_a_run_that_learns_labels_does_not_go_on_as_one_without(tmp_path):
    learner = MaskedPatches(micro())
    with pytest.raises(PulledPlugError):
        learn_until(3, tmp_path / "state", learner)
    with pytest.raises(UnfinishedRunError, match="is of another run: its objective|its recipe"):
        learn(replace(RECIPE, objective=""), state=tmp_path / "state", seed=3)


@pytest.mark.parametrize("objective", ["masked_patches", "next_pixels", "mae"])
def test_no_label_is_looked_at(objective):
    data, recipe = few_digits(), replace(PLAIN, objective=objective)
    other = replace(data, labels=data.labels.flip(0))
    (_, ours), (_, theirs) = (
        learn(recipe, micro(BODIES[objective]), data=labeled) for labeled in (data, other)
    )
    assert same(bits(ours), bits(theirs))


@pytest.mark.parametrize("objective", ["masked_patches", "next_pixels", "mae"])
def test_the_body_learns_and_the_head_does_not(objective):
    before = bits(micro(BODIES[objective]))
    outcome, model = learn(replace(PLAIN, objective=objective), micro(BODIES[objective]))
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


def test_the_seed_decides_the_run():
    (_, one), (_, again), (_, other) = learn(seed=1), learn(seed=1), learn(seed=2)
    assert same(bits(one), bits(again))
    assert not same(bits(one), bits(other))


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_who_gives_the_learner_keeps_what_predicts(ema):
    learner = MaskedPatches(micro())
    outcome, _ = learn(replace(PLAIN, ema=ema), learner)
    accuracy, loss = evaluate_colors(learner, few_digits("test", 40))
    assert (accuracy, loss) == (outcome.accuracy, outcome.curve[-1]["held_out_loss"])
    assert learner.mask.abs().max() > 0


def test_a_learner_of_next_pixels_keeps_what_predicts():
    learner = NextPixels(micro(BODIES["next_pixels"]))
    outcome, _ = learn(replace(PLAIN, objective="next_pixels"), learner)
    accuracy, loss = evaluate_pixels(learner, few_digits("test", 40))
    assert (accuracy, loss) == (outcome.accuracy, outcome.curve[-1]["held_out_loss"])


def test_a_probe_is_shown_the_body():
    seen = []

    def look(model):
        learns = {name.split(".")[0] for name, w in model.named_parameters() if w.requires_grad}
        seen.append((type(model).__name__, "head" in learns))
        return {}

    learn(probe=look, probe_epochs=(0, 2))
    assert seen == [("VisionTransformer", False)] * 2


def test_the_evaluation_is_of_every_held_out_image_and_of_the_same_patches():
    data, learner = few_digits("test", 70), MaskedPatches(micro())
    whole = evaluate_colors(learner, data, batch_size=70)
    assert evaluate_colors(learner, data, batch_size=70) == whole
    in_parts = evaluate_colors(learner, data, batch_size=16)
    assert in_parts[0] == whole[0]
    assert in_parts[1] == pytest.approx(whole[1], rel=1e-5)
    assert evaluate_colors(learner, data, seed=1) != whole
    # Who always says one colour is right as often as it is asked for.
    torch.nn.init.zeros_(learner.predictor.weight)
    learner.predictor.bias.data[0] = 5.0
    share = (patch_classes(data.images, 2) == 0).double().mean().item()
    assert evaluate_colors(learner, data)[0] == pytest.approx(share, abs=0.1)
    scores = [evaluate_colors(learner, data, seed=seed)[0] for seed in range(30)]
    assert sum(scores) / 30 == pytest.approx(share, abs=0.01)


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
    recipe = get_recipe(
        "digits", epochs=1, warmup_epochs=0.5, label_smoothing=0.0, objective=objective
    )
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
    assert results.read(tmp_path) == []
    assert [kept.accuracy for kept in results.read(tmp_path, unlabeled=True)] == [row.accuracy]
    assert objective in results.table([row])[0]["model"]
    with pytest.raises(TeacherError, match="has learned no classes"):
        load_teacher(path, few_digits(), "digits")
    tuned = run(
        name, "digits", get_recipe("digits", epochs=1, warmup_epochs=0.5),
        folder=tmp_path / "tuned", start=path, device="cpu", progress=False,
    )  # fmt: skip
    assert tuned.start.startswith(f"{row.name}@")


@pytest.mark.parametrize("objective", LEARNERS)
def test_what_learned_beside_the_body_comes_back(objective, tmp_path):
    recipe = replace(PLAIN, objective=objective, epochs=1, epoch_images=64)
    row = run(BODIES[objective], "digits", recipe, folder=tmp_path, device="cpu", progress=False)
    path = tmp_path / f"{row.name}.safetensors"
    learner = load_learner(path)
    assert type(learner) is LEARNERS[objective] and not learner.training
    assert same(bits(learner.model), bits(load_checkpoint(path).model))
    test = datasets.load("digits", "test")
    scored = score(learner, test)  # of the body with what was beside it
    assert scored.pop("accuracy") == row.accuracy
    assert {key: row.curve[-1][key] for key in scored} == pytest.approx(scored, rel=1e-5)
    if objective == "byol":
        assert same(bits(learner.slow_model), bits(learner.model))
        assert same(bits(learner.slow_projector), bits(learner.projector))
    save_checkpoint(path, learner.model, provenance=load_checkpoint(path).provenance)
    with pytest.raises(CheckpointError, match="holds nothing beside its body: expected "):
        load_learner(path)
    with pytest.raises(CheckpointError, match="learned labels: expected a run with an objective"):
        load_learner("digits-vit_micro_patch2_8-digits-seed0")


def test_what_fits_is_tried_with_the_patches(monkeypatch):
    learner, tried = MaskedPatches(micro()), []
    forward = MaskedPatches.forward

    def small(self, images, chosen):
        tried.append(len(images))
        if len(images) > 4:
            raise torch.OutOfMemoryError("no more")
        return forward(self, images, chosen)

    monkeypatch.setattr(MaskedPatches, "forward", small)
    assert largest_fitting_batch(learner, torch.zeros(1, 8, 8), 32) == 4
    assert tried == [1, 2, 4, 8]
    with pytest.raises(BatchTooLargeError, match="batch_size 32 does not fit .*; 4 does"):
        learn(PLAIN, learner)


def test_what_fits_is_tried_with_the_pixels(monkeypatch):
    learner, tried = NextPixels(micro(BODIES["next_pixels"])), []
    forward = NextPixels.forward

    def small(self, images):
        tried.append(len(images))
        if len(images) > 4:
            raise torch.OutOfMemoryError("no more")
        return forward(self, images)

    monkeypatch.setattr(NextPixels, "forward", small)
    with pytest.raises(BatchTooLargeError, match="batch_size 32 does not fit .*; 4 does"):
        learn(replace(PLAIN, objective="next_pixels"), learner)
    assert tried == [32, 1, 2, 4, 8]


def test_what_fits_is_tried_with_the_hidden_patches(monkeypatch):
    learner, tried = MaskedAutoencoder(micro()), []
    forward = MaskedAutoencoder.forward

    def small(self, images, hidden):
        tried.append((len(images), hidden.shape[1]))
        if len(images) > 4:
            raise torch.OutOfMemoryError("no more")
        return forward(self, images, hidden)

    monkeypatch.setattr(MaskedAutoencoder, "forward", small)
    with pytest.raises(BatchTooLargeError, match="batch_size 32 does not fit .*; 4 does"):
        learn(replace(PLAIN, objective="mae"), learner)
    assert tried == [(size, 12) for size in (32, 1, 2, 4, 8)]


def test_who_gives_a_share_is_trained_with_it():
    learner, hidden = MaskedAutoencoder(micro(), share=0.5), []
    learner.register_forward_pre_hook(lambda _, args: hidden.append(args[1].shape[1]))
    learn(replace(PLAIN, objective="mae", epochs=1), learner)
    assert set(hidden) == {8}


@pytest.mark.parametrize(
    "changes, told",
    [
        (dict(label_smoothing=0.1), "label_smoothing with objective 'masked_patches'"),
        (dict(head_learning_rate=1e-3, pool="mean"), "head_learning_rate and pool with"),
        (dict(layer_decay=0.9), "set layer_decay=1"),
        (dict(distillation="hard"), "set distillation=''"),
        (dict(train_from="head.classifier"), "knows no head: nothing of the model would learn"),
    ],
)
def test_a_recipe_whose_numbers_would_change_nothing_is_refused(changes, told):
    with pytest.raises(ValueError, match=told):
        replace(PLAIN, **changes)


def test_what_cannot_learn_without_labels_is_refused():
    with pytest.raises(UnknownNameError, match="did you mean masked_patches"):
        replace(PLAIN, objective="masked_patch")
    with pytest.raises(ValueError, match="expected a Vision Transformer whose tokens see one"):
        learn(model=micro("sl_vit_micro_patch2_8"))
    with pytest.raises(ValueError, match="a MaskedPatches and recipe plain, which learns labels"):
        learn(replace(PLAIN, objective=""), MaskedPatches(micro()))
    with pytest.raises(ValueError, match="a SimCLR and recipe plain, which learns objective 'mask"):
        learn(PLAIN, SimCLR(micro()))
    with pytest.raises(ValueError, match="two views for a ResNet: expected a Vision Transformer"):
        learn(replace(PLAIN, objective="byol"), micro("resnet8_digits"))
    with pytest.raises(ValueError, match="expected a causal Vision Transformer, one token for"):
        learn(replace(PLAIN, objective="next_pixels"), micro("vit_micro_patch1_8"))
    with pytest.raises(ValueError, match="masked autoencoder of an encoder that does not take 5"):
        learn(replace(PLAIN, objective="mae"), micro("linformer_vit_micro_patch2_8"))
    with pytest.raises(ValueError, match="mixed images with objective 'simclr'"):
        replace(PLAIN, objective="simclr", mixup=0.5)
    with pytest.raises(ValueError, match="repeats 2 with objective 'simclr', .* set repeats to 1"):
        replace(PLAIN, objective="simclr", repeats=2)
    teacher = vitbook.load_checkpoint("digits-resnet8_digits-digits-seed0").model
    with pytest.raises(TeacherError, match="no distillation"):
        learn(teacher=teacher)


def test_a_plain_model_is_evaluated_as_ever():
    outcome, model = learn(replace(PLAIN, objective=""))
    assert set(outcome.curve[0]) == {"epoch", "loss", "learning_rate", "accuracy"}
    assert outcome.accuracy == evaluate(model, few_digits("test", 40))


@pytest.mark.parametrize("objective", LEARNERS)
def test_what_fits_is_tried_with_copies(objective):
    learner = LEARNERS[objective](micro(BODIES[objective])).train()
    with torch.no_grad():
        for weight in learner.model.parameters():
            weight += 0.01  # from which a slow copy is away
    before = bits(learner)
    assert largest_fitting_batch(learner, torch.zeros(1, 8, 8), 8) == 4
    assert same(bits(learner), before)


@pytest.mark.parametrize("objective", LEARNERS)
def test_what_is_and_what_is_not_kept_beside_the_body(objective):
    learner = LEARNERS[objective](micro(BODIES[objective]))
    kept = learner.own_parts()
    left = {name.split(".")[0] for name in learner.state_dict().keys() - kept.keys()}
    followers = {"slow_model", "slow_projector"} if objective == "byol" else set()
    assert left == {"model"} | followers and kept


def test_stochastic_depth_is_of_the_body_alone():
    learner = MaskedAutoencoder(micro())
    learn(replace(PLAIN, objective="mae", epochs=1, drop_path=0.3), learner)
    rates = [block.drop_path.rate for block in learner.model.encoder.blocks]
    assert rates == pytest.approx([0, 0.1, 0.2, 0.3])
    assert not any(block.drop_path.rate for block in learner.decoder.blocks)


@pytest.mark.parametrize("recipe", [None, "x", [], {"objective": ["mae"]}, {"objective": {}}])
def test_a_file_whose_recipe_is_none(recipe, tmp_path):
    path = save_checkpoint(tmp_path / "own.safetensors", micro(), provenance={"recipe": recipe})
    with pytest.raises(CheckpointError, match="expected a run with an objective"):
        load_learner(path)


def test_a_part_that_would_come_back_as_one_beside_the_model(tmp_path):
    model = micro()
    model.register_buffer("beside:x", torch.zeros(2))
    with pytest.raises(CheckpointError, match="beside:x is a part of the model"):
        save_checkpoint(tmp_path / "own.safetensors", model)
    assert not list(tmp_path.iterdir())
