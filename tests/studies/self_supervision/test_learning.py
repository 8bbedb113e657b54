from dataclasses import replace

import pytest
import torch
from small_runs import PulledPlugError, bits, few_digits, micro, same

import vitbook
from vitbook import datasets, runs
from vitbook.datasets import normalize
from vitbook.models.papers.vit import MICRO_BODY, vit
from vitbook.runs import Recipe, get_recipe
from vitbook.runs.recipe import OBJECTIVES, TWO_VIEWS
from vitbook.studies.self_supervision import (
    MaskedAutoencoder,
    MaskedPatches,
    SimCLR,
    color_classes,
    load_learner,
    mean_colors,
)
from vitbook.training import (
    BatchTooLargeError,
    TeacherError,
    UnfinishedRunError,
    load_checkpoint,
    load_teacher,
    run,
    start_from,
    train,
)
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.memory import largest_fitting_batch
from vitbook.training.engine.optimization import parameter_groups
from vitbook.training.objectives.questions import learners

LEARNERS = learners()  # of all chapters

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
    objective = next(name for name, kind in LEARNERS.items() if type(learner) is kind)
    mixed = UNMIXED if objective in TWO_VIEWS else RECIPE  # two views show one image
    if objective == "simclr":  # which takes no image twice in a batch: two passes an epoch instead
        mixed = replace(mixed, repeats=1, epoch_images=128)
    recipe, data = replace(mixed, objective=objective), few_digits(n=64)
    return learn(recipe, learner, data=data, state=path, save_every_s=0, seed=3)


@pytest.mark.parametrize("objective", LEARNERS)
def test_a_run_goes_on_to_the_same_bits(objective, tmp_path):
    def fresh():
        torch.manual_seed(0)
        return LEARNERS[objective](micro(BODIES[objective]))

    whole, learner = learn_until(10**9, tmp_path / "whole", fresh())
    path = tmp_path / "cut"
    for step in (1, 4):  # the run has 8 steps; each count starts anew
        with pytest.raises(PulledPlugError):
            learn_until(step, path, fresh())
    parts, again = learn_until(10**9, path, fresh())
    assert same(bits(again), bits(learner))  # the mask and the predictor with the body
    assert whole.curve == parts.curve
    kept = again.own_parts()  # what travels with the body
    left = {name.split(".")[0] for name in again.state_dict().keys() - kept.keys()}
    followers = {
        "byol": {"slow_model", "slow_projector"},
        "dino": {"slow_model", "slow_projector", "slow_center"},
        **{key: {"slow_model", "slow_projector"} for key in ("token_fixed", "token_slow")},
        "token_centered": {"slow_model", "slow_projector", "slow_center"},
        "ijepa": {"slow_model"},
    }.get(objective, set())
    assert left == {"model"} | followers and kept


def test_each_objective_of_a_recipe_has_its_learner():
    assert set(LEARNERS) == set(OBJECTIVES)


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


@pytest.mark.parametrize(("objective", "ema"), [("masked_patches", 0.9), ("next_pixels", 0.0)])
def test_who_gives_the_learner_keeps_what_predicts(objective, ema):
    learner = LEARNERS[objective](micro(BODIES[objective]))
    outcome, _ = learn(replace(PLAIN, objective=objective, ema=ema, epochs=1), learner)
    last = {key: outcome.curve[-1][key] for key in ("accuracy", "held_out_loss")}
    assert learner.score(few_digits("test", 40)) == last


def test_who_always_says_one_colour_is_right_as_often_as_it_is_asked_for():
    data, learner = few_digits("test", 300), MaskedPatches(micro())
    torch.nn.init.zeros_(learner.predictor.weight)
    learner.predictor.bias.data[0] = 5.0
    share = (color_classes(mean_colors(data.images, 2)) == 0).double().mean().item()
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


@pytest.mark.parametrize("objective", ["masked_patches", "mae"])
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


@pytest.mark.parametrize("objective", ["masked_patches", "mae"])
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


def one_patch():
    return vit(patch_size=8, body=MICRO_BODY, image_size=8, channels=1, num_classes=2)


REFUSED = [
    ("masked_patches", "sl_vit_micro_patch2_8", "prediction of a model with .* tokens see one"),
    ("masked_patches", "resnet8_digits", "whose tokens see one patch each"),
    ("masked_patches", "shrinking_vit_mean_micro_patch1_8", "keeps a token for each patch"),
    ("masked_patches", lambda: SimCLR(micro()), "a SimCLR and recipe plain, which learns objec"),
    ("", lambda: MaskedPatches(micro()), "a MaskedPatches and recipe plain, which learns labels"),
    ("byol", "resnet8_digits", "two views for a ResNet: expected a Vision Transformer"),
    ("next_pixels", "vit_micro_patch1_8", "expected a causal Vision Transformer, one token for e"),
    ("mae", "sl_vit_micro_patch2_8", "a masked autoencoder of a model with .*: expected a Vision"),
    ("mae", "linformer_vit_micro_patch2_8", "encoder that does not take 5 of its tokens"),
    ("mae", "vit_relpos_micro_patch2_8", "encoder that does not take 5 of its tokens"),
    ("mae", "vit_patchdropout_micro_patch2_8", "encoder that does not take 5 of its tokens"),
    ("masked_patches", "vit_patchdropout_micro_patch2_8", "gives fewer tokens than it takes"),
    ("mae", "vit_micro_patch1_8", "normalized patches of one number.*: set normalized=False"),
    ("mae", one_patch, "a share of 0.75 of 1 patches is 1: expected some .* smaller patches"),
]


@pytest.mark.parametrize(("objective", "make", "told"), REFUSED)
def test_what_cannot_learn_without_labels_is_refused(objective, make, told):
    with pytest.raises(ValueError, match=told):
        learn(replace(PLAIN, objective=objective), micro(make) if isinstance(make, str) else make())


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_guesses_that_are_no_numbers(bad):
    learner = MaskedPatches(micro())
    learner.model.encoder.norm.weight.data[0] = bad
    with pytest.raises(ValueError, match="MaskedPatches guesses with a loss of nan: expected fini"):
        learner.score(few_digits())


@pytest.mark.parametrize("objective", LEARNERS)
def test_what_learned_beside_the_body_comes_back(objective, tmp_path):
    recipe = replace(PLAIN, objective=objective, epochs=1, epoch_images=64)
    name = BODIES[objective]
    row = run(name, "digits", recipe, folder=tmp_path, device="cpu", progress=False)
    path = tmp_path / f"{row.name}.safetensors"
    learner, body = load_learner(path), load_checkpoint(path).model
    assert type(learner) is LEARNERS[objective] and not learner.training
    assert all(torch.equal(learner.model.state_dict()[n], w) for n, w in bits(body).items())
    scored = learner.score(datasets.load("digits", "test"))
    assert scored.pop("accuracy") == row.accuracy
    if objective in ("token_fixed", "token_slow", "token_centered", "ijepa"):
        return  # the rest is told of labels of a copy, which begins again
    assert {key: row.curve[-1][key] for key in scored} == pytest.approx(scored, rel=1e-5)
    if objective == "byol":  # the slow copy begins as the body again
        images = torch.rand(2, 1, 8, 8)
        assert torch.equal(learner.slow_model(images), body(images))


SHIPPED = {
    row.name: row.accuracy
    for row in runs.read(unlabeled=True)
    if row.recipe.get("objective") and row.dataset == "digits"
    if (runs.data_folder() / "checkpoints" / f"{row.name}.safetensors").is_file()
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_learner_does_what_the_ledger_says(name):
    found = load_learner(name).score(datasets.load("digits", "test"))["accuracy"]
    assert found == pytest.approx(SHIPPED[name], abs=0.003)  # stored in half precision


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


def test_what_is_added_to_tokens_does_not_decay():
    groups = parameter_groups(
        learner := MaskedAutoencoder(micro()), replace(PLAIN, weight_decay=1.0)
    )
    decays = {id(weight): group["weight_decay"] for group in groups for weight in group["params"]}
    assert decays[id(learner.places)] == 0 and decays[id(learner.enter.weight)] == 1
