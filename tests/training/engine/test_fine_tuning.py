import math
from dataclasses import replace

import pytest
import torch
from small_runs import bits, few_digits, same
from torch import nn

import vitbook
from vitbook.errors import UnknownNameError
from vitbook.layers import LowRankLinear
from vitbook.runs import Recipe
from vitbook.training import RunStoppedError, TrainingDivergedError, evaluate, learning_parts, train
from vitbook.training.engine.fine_tuning import training_mode
from vitbook.training.engine.optimization import learning_rate, make_optimizer, parameter_groups

RECIPE = Recipe(name="short", epochs=2, batch_size=32, learning_rate=1e-3)


def learned():
    return vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model


def weights(model):
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def changed(recipe, model=None):
    """Names of the weights that a run changes."""
    model = model or learned()
    before = weights(model)
    train(model, few_digits(), recipe, device="cpu", progress=False)
    after = weights(model)
    assert before.keys() == after.keys()
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_what_stands_before_a_part_keeps_its_weights():
    assert changed(replace(RECIPE, train_from="head")) == {
        "head.classifier.weight",
        "head.classifier.bias",
    }
    last = changed(replace(RECIPE, train_from="encoder.blocks.3"))
    parts = {".".join(name.split(".")[:3]) for name in last}
    assert parts == {
        "encoder.blocks.3", "encoder.norm.weight", "encoder.norm.bias",
        "head.classifier.weight", "head.classifier.bias",
    }  # fmt: skip
    assert changed(replace(RECIPE, train_from="prefix")) == set(weights(learned()))


def test_adapters_change_the_layers_beside_which_they_stand_and_the_head():
    found = changed(replace(RECIPE, adapter_rank=2))
    linear = {
        f"{name}.weight" for name, part in learned().named_modules() if isinstance(part, nn.Linear)
    }
    assert found == linear | {"head.classifier.bias"}
    later = changed(replace(RECIPE, adapter_rank=2, train_from="encoder.blocks.2"))
    assert {name.split(".")[2] for name in later if "blocks" in name} == {"2", "3"}


def test_an_adapter_s_change_has_its_rank():
    model, before = learned(), weights(learned())
    train(model, few_digits(), replace(RECIPE, adapter_rank=3), device="cpu", progress=False)
    name = "encoder.blocks.1.mlp.expand.weight"
    assert torch.linalg.matrix_rank(weights(model)[name] - before[name], rtol=1e-4) == 3


def test_rounded_weights_are_left_rounded_and_are_what_was_measured():
    model, seen = learned(), few_digits("test", 200)
    run = train(
        model, few_digits(), replace(RECIPE, weight_bits=2), test=seen, device="cpu", progress=False
    )
    assert run.accuracy == evaluate(model, seen)
    for part in model.encoder.modules():
        if isinstance(part, nn.Linear):
            assert type(part) is nn.Linear
            assert all(len(row.unique()) <= 3 for row in part.weight)
    assert len(model.head.classifier.weight[0].unique()) > 3


@pytest.mark.parametrize("changes", [{"adapter_rank": 2}, {"train_from": "encoder.blocks.2"}])
def test_what_may_learn_is_afterwards_as_it_was(changes):
    model = learned()
    model.prefix.requires_grad_(False)
    with pytest.raises(KeyError, match="stop"), learning_parts(model, replace(RECIPE, **changes)):
        raise KeyError("stop")
    assert not any(isinstance(part, LowRankLinear) for part in model.modules())
    still = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    assert still == {"prefix"}


@pytest.mark.parametrize(
    "changes",
    [
        {"adapter_rank": 2, "ema": 0.9},
        {"weight_bits": 2},
        {"pruned": 0.8, "ema": 0.9},
        {"train_from": "encoder.blocks.2", "optimizer": "sgd"},
        {"layer_decay": 0.7, "head_learning_rate": 1e-2},
    ],
)
def test_a_stopped_run_goes_on_to_the_same_bits(changes, tmp_path):
    recipe, data = replace(RECIPE, **changes), few_digits()
    whole = learned()
    train(whole, data, recipe, device="cpu", progress=False)
    path, steps = tmp_path / "run.unfinished", iter(range(100))
    with pytest.raises(RunStoppedError):
        train(
            learned(), data, recipe, device="cpu", progress=False, state=path,
            stop=lambda: next(steps) == 4,
        )  # fmt: skip
    resumed = learned()
    train(resumed, data, recipe, device="cpu", progress=False, state=path)
    assert same(bits(whole), bits(resumed))


def test_rates_fall_with_depth_and_the_head_has_its_own():
    recipe = replace(RECIPE, layer_decay=0.5, head_learning_rate=0.1)
    model = learned()
    rates = {
        id(weight): group["rate"]
        for group in parameter_groups(model, recipe)
        for weight in group["params"]
    }
    by_name = {name: rates[id(weight)] for name, weight in model.named_parameters()}
    assert by_name["prefix"] == by_name["position.table"] == 0.5**5
    assert by_name["tokenizer.projection.weight"] == 0.5**5
    for block in range(4):
        assert by_name[f"encoder.blocks.{block}.mlp.expand.weight"] == 0.5 ** (4 - block)
    assert by_name["encoder.norm.weight"] == 1
    assert by_name["head.classifier.weight"] == pytest.approx(100)


def test_a_part_warms_up_and_the_rest_begins_at_the_peak():
    parts = "encoder.blocks.0, encoder.blocks.1"
    recipe = replace(RECIPE, warmup_epochs=2.0, warmup_parts=parts)
    model = learned()
    begins = {
        id(weight): group["from_epoch"]
        for group in parameter_groups(model, recipe)
        for weight in group["params"]
    }
    for name, weight in model.named_parameters():
        warm = name.startswith(("encoder.blocks.0.", "encoder.blocks.1."))
        assert begins[id(weight)] == (0 if warm else 2), name
    assert learning_rate(2.0, recipe) == recipe.learning_rate  # where the rest begins
    whole = parameter_groups(model, replace(RECIPE, warmup_epochs=2.0))
    assert {group["from_epoch"] for group in whole} == {0}


def test_sgd_is_sgd_with_momentum():
    """Two steps by hand: v = m v + g, w = w - rate v."""
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    recipe = replace(RECIPE, optimizer="sgd", momentum=0.5, learning_rate=0.1, weight_decay=0.0)
    optimizer, by_hand = make_optimizer(model, recipe), model[0].weight.detach().clone()
    velocity = torch.zeros(1, 2)
    for gradient in (torch.tensor([[1.0, 2.0]]), torch.tensor([[-1.0, 0.5]])):
        model[0].weight.grad = gradient.clone()
        optimizer.step()
        velocity = 0.5 * velocity + gradient
        by_hand = by_hand - 0.1 * velocity
    torch.testing.assert_close(model[0].weight.detach(), by_hand)


@pytest.mark.parametrize("radius", [0.0, 0.1])
def test_gradients_from_before_change_nothing(radius):
    """Those of frozen parts are cleared by no step: the clip would count them at each."""
    ends = []
    for before in (None, 1.0):
        model = learned()
        for weight in model.parameters():
            weight.grad = before and torch.full_like(weight, before)
        recipe = replace(RECIPE, train_from="head", sharpness_radius=radius)
        train(model, few_digits(), recipe, device="cpu", progress=False)
        ends.append(weights(model))
    assert all(torch.equal(ends[1][name], weight) for name, weight in ends[0].items())


def test_frozen_parts_answer_as_in_evaluation():
    model = vitbook.create_model("resnet20")
    with learning_parts(model, replace(RECIPE, train_from="head")):
        training_mode(model)
        model(torch.rand(4, 3, 32, 32))
        assert model.training and model.head.training
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    assert norms and not any(norm.num_batches_tracked for norm in norms)


def test_pruned_weights_stay_zero_and_the_rest_learns():
    model, before = learned(), weights(learned())
    train(model, few_digits(), replace(RECIPE, pruned=0.75), device="cpu", progress=False)
    linear = [
        (before[f"encoder.{name}.weight"], part.weight)
        for name, part in model.encoder.named_modules()
        if isinstance(part, nn.Linear)
    ]
    sizes = torch.cat([was.abs().flatten() for was, _ in linear])
    zero = torch.cat([(now == 0).flatten() for _, now in linear])
    assert zero.double().mean().item() == pytest.approx(0.75, abs=1e-3)  # ties
    assert sizes[zero].max() <= sizes[~zero].min()
    assert all((was != now)[now != 0].any() for was, now in linear)


@pytest.mark.parametrize("changes", [{"adapter_rank": 2}, {"pruned": 0.5}])
def test_a_run_that_diverges_says_so_and_leaves_plain_layers(changes):
    model = learned()
    recipe = replace(RECIPE, learning_rate=1e30, gradient_clip=0.0, **changes)
    with pytest.raises(TrainingDivergedError, match="lower the learning rate"):
        train(model, few_digits(), recipe, device="cpu", progress=False)
    assert {type(part) for part in model.modules() if isinstance(part, nn.Linear)} == {nn.Linear}


def test_a_head_shared_with_a_frozen_part_cannot_be_asked_for():
    model = learned()
    model.head.requires_grad_(False)
    with pytest.raises(ValueError, match="leaves no weight of VisionTransformer that learns"):
        changed(replace(RECIPE, train_from="head"), model)
    with pytest.raises(UnknownNameError, match=r"did you mean encoder\.blocks\.1 or"):
        changed(replace(RECIPE, train_from="encoder.block.1"))


def shared(model):
    model.encoder.blocks[1].mlp.expand.weight = model.encoder.blocks[0].mlp.expand.weight


def nan(model):
    model.encoder.blocks[0].mlp.expand.weight.data[0, 0] = math.nan


def another_name(model):
    """torchvision's Vision Transformer has ``heads``, which would be frozen in silence."""
    model.heads = model.head
    del model.head


@pytest.mark.parametrize(
    ("spoil", "change", "words"),
    [
        (shared, {"adapter_rank": 2}, r"two linear layers of model\.encoder share one weight"),
        (another_name, {"adapter_rank": 2}, r"adapters for a VisionT.*: expected model\.head, whi"),
        (nan, {"pruned": 0.5}, "NaN cannot be pruned by size"),
    ],
)
def test_layers_that_cannot_be_changed_stay_as_they_are(spoil, change, words):
    model = learned()
    spoil(model)
    with (
        pytest.raises(ValueError, match=words),
        learning_parts(model, replace(RECIPE, **change)),
    ):
        pass
    assert {type(part) for part in model.modules() if isinstance(part, nn.Linear)} == {nn.Linear}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"warmup_parts": "encoder.blocks.0,gone"}, "'gone' is no part of this VisionTransformer"),
        ({"warmup_parts": "prefix"}, "'prefix' is no part of this VisionTransformer that learns"),
    ],
)
def test_a_warm_up_of_no_part(change, words):
    model = learned()
    model.prefix.requires_grad_(False)
    with pytest.raises(ValueError, match=words):
        parameter_groups(model, replace(RECIPE, warmup_epochs=2.0, **change))
