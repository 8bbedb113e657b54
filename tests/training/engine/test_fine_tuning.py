import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.datasets import Dataset
from vitbook.errors import UnknownNameError
from vitbook.layers import LowRankLinear
from vitbook.models.editing import add_adapters, prune_weights, settle_pruned
from vitbook.runs import Recipe, get_recipe
from vitbook.training import RunStoppedError, TrainingDivergedError, evaluate, learning_parts, train
from vitbook.training.engine.fine_tuning import training_mode
from vitbook.training.engine.optimization import learning_rate, make_optimizer, parameter_groups

RECIPE = Recipe(name="short", epochs=2, batch_size=32, learning_rate=1e-3)


def few_digits(split="train", n=128):
    whole = datasets.load("digits", split)
    return Dataset(whole.images[:n], whole.labels[:n], whole.class_names, whole.provenance)


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
        {"adapter_rank": 2},
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
    for name, weight in weights(whole).items():
        assert torch.equal(weight, weights(resumed)[name]), name


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


def test_a_plain_recipe_has_the_two_groups_it_always_had():
    decay, keep = parameter_groups(learned(), RECIPE)
    assert (decay["weight_decay"], keep["weight_decay"]) == (0.05, 0)
    assert decay["rate"] == keep["rate"] == 1


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


@pytest.mark.parametrize(
    ("parts", "epochs", "words"),
    [
        ("encoder.blocks.0", 0.0, "without warmup_epochs: give both"),
        ("encoder.blocks.0,gone", 2.0, "'gone' is no part of this VisionTransformer that learns"),
    ],
)
def test_a_warm_up_of_no_part(parts, epochs, words):
    with pytest.raises(ValueError, match=words):
        parameter_groups(learned(), replace(RECIPE, warmup_epochs=epochs, warmup_parts=parts))


def test_a_frozen_part_cannot_warm_up():
    model = learned()
    model.encoder.blocks[0].requires_grad_(False)
    recipe = replace(RECIPE, warmup_epochs=2.0, warmup_parts="encoder.blocks.0")
    with pytest.raises(ValueError, match="no part of this VisionTransformer that learns; it has"):
        parameter_groups(model, recipe)


def test_a_part_is_named_alike_within_an_objective():
    learner = nn.Module()
    learner.model = learned()
    recipe = replace(RECIPE, warmup_epochs=2.0, warmup_parts="encoder.blocks.0")
    groups = parameter_groups(learner, recipe)
    warm = sum(len(g["params"]) for g in groups if g["from_epoch"] == 0)
    assert warm == len(list(learner.model.encoder.blocks[0].parameters()))


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


def test_a_part_that_is_not_there():
    with pytest.raises(UnknownNameError, match=r"did you mean encoder\.blocks\.1 or"):
        changed(replace(RECIPE, train_from="encoder.block.1"))


def test_nothing_is_left_that_learns():
    model = learned()
    model.head.requires_grad_(False)
    with pytest.raises(ValueError, match="leaves no weight of VisionTransformer that learns"):
        changed(replace(RECIPE, train_from="head"), model)


def test_rates_by_depth_need_blocks():
    with pytest.raises(ValueError, match="layer_decay 0.5 for a ResNet: expected a model with enc"):
        parameter_groups(vitbook.create_model("resnet20"), replace(RECIPE, layer_decay=0.5))


def test_one_way_to_learn_at_a_time():
    with pytest.raises(ValueError, match="'weight_bits': 4, 'pruned': 0.5}: expected one of them"):
        get_recipe("digits", weight_bits=4, pruned=0.5)


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


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("optimizer", "adam", "did you mean adamw"),
        ("pool", "mea", "did you mean mean"),
        ("initialization", "xaver", "did you mean xavier"),
        ("layer_decay", 0.0, "layer_decay 0.0: expected more than 0, up to 1"),
        ("layer_decay", math.nan, "expected more than 0, up to 1"),
        ("adapter_rank", -1, "adapter_rank -1: expected 0 or more"),
        ("weight_bits", 1, "weight_bits 1: expected 2 to 8, or 0"),
        ("weight_bits", 9, "weight_bits 9: expected 2 to 8, or 0"),
        ("image_size", -8, "image_size -8: expected 0 or more"),
        ("momentum", 1.0, "momentum 1.0: expected 0 up to, not with, 1"),
        ("head_learning_rate", math.inf, "head_learning_rate is too large"),
    ],
)
def test_numbers_that_no_run_can_have(field, value, words):
    with pytest.raises((ValueError, KeyError), match=words):
        get_recipe("fine_tuning", **{field: value})


@pytest.mark.parametrize("changes", [{"adapter_rank": 2}, {"weight_bits": 2}, {"pruned": 0.5}])
def test_a_run_that_diverges_says_so_and_leaves_plain_layers(changes):
    model = learned()
    recipe = replace(RECIPE, learning_rate=1e30, gradient_clip=0.0, **changes)
    with pytest.raises(TrainingDivergedError, match="lower the learning rate"):
        train(model, few_digits(), recipe, device="cpu", progress=False)
    assert {type(part) for part in model.modules() if isinstance(part, nn.Linear)} == {nn.Linear}


@pytest.mark.parametrize(("share", "zero"), [(0.25, 0.25), (0.999_999, 1 - 1 / 131_072)])
def test_of_weights_as_large_as_others_only_a_share_is_pruned(share, zero):
    model = learned()
    linear = [part for part in model.encoder.modules() if isinstance(part, nn.Linear)]
    for part in linear:
        nn.init.constant_(part.weight, 0.1)
    prune_weights(model, share)
    settle_pruned(model)
    assert torch.cat([part.weight.flatten() == 0 for part in linear]).double().mean() == zero


def test_weights_that_are_nan_are_not_pruned():
    model = learned()
    model.encoder.blocks[0].mlp.expand.weight.data[0, 0] = math.nan
    with pytest.raises(ValueError, match="NaN cannot be pruned by size"):
        prune_weights(model, 0.5)
    assert type(model.encoder.blocks[0].mlp.expand) is nn.Linear


def test_two_adapters_cannot_be_merged_into_one_weight():
    model = learned()
    model.encoder.blocks[1].mlp.expand.weight = model.encoder.blocks[0].mlp.expand.weight
    with pytest.raises(ValueError, match=r"two linear layers of model\.encoder share one weight"):
        changed(replace(RECIPE, adapter_rank=2), model)


def test_adapters_beside_no_head_that_could_learn():
    """torchvision's Vision Transformer has ``heads``, which would be frozen in silence."""
    model = learned()
    model.heads = model.head
    del model.head
    with pytest.raises(ValueError, match=r"adapters for a VisionT.*: expected model\.head, which"):
        add_adapters(model, 2)
    assert type(model.encoder.blocks[0].mlp.expand) is nn.Linear


def test_the_head_of_a_compiled_model_learns_beside_adapters():
    model = learned()
    add_adapters(torch.compile(model), 2)
    assert all(weight.requires_grad for weight in model.head.parameters())
