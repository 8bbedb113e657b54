"""Decay and rates go by what a parameter is, in whoever's model and whatever is around it."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import vitbook
from vitbook.layers import LayerScale
from vitbook.runs import get_recipe
from vitbook.training import learning_parts
from vitbook.training.engine.fine_tuning import training_mode
from vitbook.training.engine.optimization import parameter_groups
from vitbook.training.objectives.learner import Learner

PLAIN = replace(get_recipe("digits"), weight_decay=0.05)
SMALL = dict(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, num_classes=3)


def timms(name, **changes):
    return pytest.importorskip("timm").create_model(name, pretrained=False, **changes)


def tiny_swin():
    return timms(
        "swin_tiny_patch4_window7_224", img_size=56, depths=(1, 1), embed_dim=8, num_heads=(1, 1),
        num_classes=3,
    )  # fmt: skip


def torchvisions(name):
    models = pytest.importorskip("torchvision").models
    if name == "swin":
        return models.SwinTransformer([4, 4], 8, [1, 1], [1, 1], [7, 7], num_classes=3)
    if name == "resnet":
        return models.resnet18(num_classes=3)
    return models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=3)


def hugging_faces(kind):
    theirs = pytest.importorskip("transformers")
    config = getattr(theirs, f"{kind}Config")(
        num_hidden_layers=2, hidden_size=16, num_attention_heads=2, intermediate_size=32,
        image_size=32, patch_size=8, num_labels=3,
    )  # fmt: skip
    return getattr(theirs, f"{kind}ForImageClassification")(config)


# model, what does not decay though it has two axes or more, how the head's names begin
FOREIGN = {
    "timm vit": (
        lambda: timms("vit_tiny_patch16_224", reg_tokens=2, init_values=0.1, **SMALL),
        {"cls_token", "pos_embed", "reg_token"},
        "head.",
    ),
    "timm swin": (
        tiny_swin,
        {f"layers.{n}.blocks.0.attn.relative_position_bias_table" for n in range(2)},
        "head.fc.",
    ),
    "torchvision vit": (
        lambda: torchvisions("vit"),
        {"class_token", "encoder.pos_embedding"},
        "heads.",
    ),
    "torchvision swin": (
        lambda: torchvisions("swin"),
        {f"features.{n}.0.attn.relative_position_bias_table" for n in (1, 3)},
        "head.",
    ),
    "torchvision resnet": (lambda: torchvisions("resnet"), set(), "fc."),
    "Hugging Face vit": (
        lambda: hugging_faces("ViT"),
        {"vit.embeddings.cls_token", "vit.embeddings.position_embeddings"},
        "classifier.",
    ),
}


class Around(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.vit = inside


class Wrapped(Learner):
    """A learner with a part of its own beside the model."""

    def __init__(self, model):
        super().__init__()
        self.model, self.predictor = model, nn.Linear(4, 4)


WRAPPED = {
    "as it is": lambda model: model,
    "behind a layer": lambda model: nn.Sequential(nn.Identity(), model),
    "data parallel": nn.DataParallel,
    "compiled": torch.compile,
    "averaged": AveragedModel,
    "a learner": Wrapped,
    "several": lambda model: torch.compile(nn.DataParallel(Around(torch.compile(model)))),
}


def by_name(model, recipe, what):
    """What each parameter's group says; every parameter is in one."""
    groups = parameter_groups(model, recipe)
    found = {id(weight): group[what] for group in groups for weight in group["params"]}
    assert len(found) == sum(len(group["params"]) for group in groups)
    return {name: found[id(weight)] for name, weight in model.named_parameters()}


@pytest.mark.parametrize("which", FOREIGN)
def test_what_decays_in_a_library_s_model_and_the_rate_of_its_head(which):
    build, spared, head = FOREIGN[which]
    model = build()
    decays = by_name(model, PLAIN, "weight_decay")
    matrices = {name for name, weight in model.named_parameters() if weight.ndim >= 2}
    assert {name for name, decay in decays.items() if decay == 0.05} == matrices - spared
    assert {decays[name] for name in decays.keys() - (matrices - spared)} == {0}
    recipe = replace(PLAIN, head_learning_rate=3 * PLAIN.learning_rate)
    rates = by_name(model, recipe, "rate")
    assert {round(rate, 9) for name, rate in rates.items() if name.startswith(head)} == {3}
    assert {rate for name, rate in rates.items() if not name.startswith(head)} == {1}


@pytest.mark.parametrize(
    ("part", "decays"),
    [
        (nn.Embedding(4, 3), set()),
        (nn.LayerNorm((4, 3)), set()),
        (LayerScale(4), set()),
        (nn.Conv2d(3, 4, 1, bias=False), {"weight"}),
        (nn.MultiheadAttention(4, 2), {"in_proj_weight", "out_proj.weight"}),
        (nn.MultiheadAttention(4, 2, kdim=3, add_bias_kv=True),
         {"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"}),
        (nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
         {"parametrizations.weight.original1"}),
    ],
)  # fmt: skip
def test_what_decays_by_what_it_is(part, decays):
    found = by_name(part, PLAIN, "weight_decay")
    assert {name for name, decay in found.items() if decay} == decays


def test_scales_of_two_axes_do_not_decay():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.gamma = nn.Parameter(torch.ones(1, 1, 4))
            self.layer = nn.Linear(4, 4)

    assert {n for n, d in by_name(Scaled(), PLAIN, "weight_decay").items() if d} == {"layer.weight"}


@pytest.mark.parametrize("how", WRAPPED)
def test_rates_and_decay_are_those_of_the_model_inside(how):
    plain = vitbook.create_model("vit_layerpos_micro_patch2_8")
    recipe = replace(PLAIN, layer_decay=0.5, head_learning_rate=0.1)
    told = {"weight_decay": {}, "rate": {}}
    for what, alone in told.items():
        alone |= {
            id(weight): by_name(plain, recipe, what)[name]
            for name, weight in plain.named_parameters()
        }
    around = WRAPPED[how](plain)
    if how == "averaged":  # which copies
        copies = around.module.parameters()
        same = {id(copy): id(own) for copy, own in zip(copies, plain.parameters(), strict=True)}
    else:
        same = {id(own): id(own) for own in plain.parameters()}
    for what, alone in told.items():
        found = {
            same[id(weight)]: group[what]
            for group in parameter_groups(around, recipe)
            for weight in group["params"]
            if id(weight) in same
        }
        assert found == alone


@pytest.mark.parametrize(
    ("which", "first", "block"),
    [
        ("timm vit", "patch_embed.", "blocks."),
        ("torchvision vit", "conv_proj.", "encoder.layers.encoder_layer_"),
        ("Hugging Face vit", "vit.embeddings.", "vit.layers."),
    ],
)
def test_rates_fall_with_depth_in_a_library_s_model(which, first, block):
    build, _, head = FOREIGN[which]
    rates = by_name(build(), replace(PLAIN, layer_decay=0.5), "rate")
    for begin, rate in ((first, 0.125), (f"{block}0.", 0.25), (f"{block}1.", 0.5), (head, 1)):
        assert {r for name, r in rates.items() if name.startswith(begin)} == {rate}


@pytest.mark.parametrize(
    ("build", "changes", "words"),
    [
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), {"head_learning_rate": 0.1},
         "head_learning_rate 0.1 for a Sequential: expected a model with a head"),
        (lambda: timms("vit_tiny_patch16_224", **SMALL | {"num_classes": 0}),
         {"head_learning_rate": 0.1}, "expected a model with a head that learns"),
        (lambda: vitbook.create_model("vit_micro_patch2_8").encoder, {"head_learning_rate": 0.1},
         "for a Encoder: expected a model with a head"),
        (lambda: torchvisions("swin"), {"layer_decay": 0.5}, "layer_decay 0.5 for a SwinTransform"),
    ],
)  # fmt: skip
def test_a_rate_that_finds_nothing(build, changes, words):
    with pytest.raises(ValueError, match=words):
        parameter_groups(build(), replace(PLAIN, **changes))


@pytest.mark.parametrize("how", [how for how in WRAPPED if how != "averaged"])
def test_parts_are_named_as_the_model_inside_has_them(how):
    model = vitbook.create_model("vit_micro_patch2_8")
    around = WRAPPED[how](model)
    parts = replace(PLAIN, warmup_epochs=2.0, warmup_parts="encoder.blocks.1", epochs=4)
    warm = sum(len(g["params"]) for g in parameter_groups(around, parts) if g["from_epoch"] == 0)
    assert warm == len(list(model.encoder.blocks[1].parameters()))
    with learning_parts(around, replace(PLAIN, train_from="encoder.blocks.2")):
        learns = {name for name, weight in model.named_parameters() if weight.requires_grad}
        model.dropout.rate = 0.5
        training_mode(around)
        assert not model.dropout.training and model.head.training
    behind = ("encoder.blocks.2", "encoder.blocks.3", "encoder.norm", "head")
    assert learns == {name for name, _ in model.named_parameters() if name.startswith(behind)}


def test_the_groups_of_our_own_models_are_by_name():
    """As it was when only names were known."""
    for name in ("vit_relpos2d_micro_patch2_8", "linformer_vit_tiny_patch4_32", "resnet20"):
        model = vitbook.create_model(name)
        for weight, decay in by_name(model, PLAIN, "weight_decay").items():
            place = not {"prefix", "position", "positions"}.isdisjoint(weight.split("."))
            axes = model.get_parameter(weight).ndim
            assert math.isclose(decay, 0.05 * (axes >= 2 and not place)), weight
