"""Weights inside what a training script wrote: the one part that fits is taken, and named."""

import logging

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import vitbook
from vitbook.model_utilities import weights_digest
from vitbook.models.weights.authors import load_deit
from vitbook.models.weights.names import DEIT_NAMES
from vitbook.models.weights.renaming import load_renamed

timm = pytest.importorskip("timm")
NAME = "vit_micro_patch2_8"


def timm_model(**changes):
    settings = dict(img_size=8, patch_size=2, in_chans=1, num_classes=10, embed_dim=64, depth=4,
                    num_heads=4, mlp_ratio=2)  # fmt: skip
    return timm.models.VisionTransformer(**settings | changes)


@pytest.fixture(scope="module")
def source():
    torch.manual_seed(0)
    return timm_model()


def begin(word, state):
    return {f"{word}{name}": tensor for name, tensor in state.items()}


def other(state):
    """As large, and of another model."""
    return begin("x", state)


def compiled_part(model):
    model.blocks[1] = torch.compile(model.blocks[1])
    return model


def adam(model):
    optimizer = torch.optim.AdamW(model.parameters())
    sum(parameter.sum() for parameter in model.parameters()).backward()
    optimizer.step()
    return optimizer.state_dict()


NESTED = {
    # name: (what came, of the state dict and a copy of the model, and where it lay)
    "plain, with the epoch beside": (lambda w, m: w | {"epoch": 3}, ""),
    "compiled": (lambda w, m: torch.compile(m).state_dict(), ""),
    "a compiled part": (lambda w, m: compiled_part(m).state_dict(), ""),
    "compiled DataParallel": (
        lambda w, m: torch.compile(nn.DataParallel(torch.compile(m))).state_dict(), "module."),
    "AveragedModel": (lambda w, m: AveragedModel(m).state_dict(), "module."),
    "a script's": (
        lambda w, m: {"model": w, "optimizer": adam(m), "args": object(), "epoch": 3}, "model/"),
    "a whole model": (lambda w, m: {"model": m, "epoch": 3}, "model/"),
    "Lightning, model": (
        lambda w, m: {"state_dict": begin("model.", w) | {"loss.weight": torch.ones(3)},
                      "optimizer_states": [{}], "hyper_parameters": {}}, "state_dict/model."),
    "Lightning, backbone": (
        lambda w, m: {"state_dict": begin("backbone.", w) | begin("teacher.", other(w))},
        "state_dict/backbone."),
    "EMA": (lambda w, m: {"model": other(w), "ema": w}, "ema/"),
    "EMA, beside it": (
        lambda w, m: begin("ema_model.", w) | begin("online.", other(w))
        | {"initted": torch.ones(1), "step": torch.ones(1)}, "ema_model."),
    "DINO": (
        lambda w, m: {"student": None, "dino_loss": {"center": torch.zeros(1, 4)},
                      "teacher": begin("module.backbone.", w) | {"module.head.x": torch.ones(2)}},
        "teacher/module.backbone."),
    "MoCo": (
        lambda w, m: {"state_dict": begin("module.encoder_q.", w)
                      | {"module.queue": torch.ones(4, 2)}}, "state_dict/module.encoder_q."),
}  # fmt: skip


@pytest.mark.parametrize("how", NESTED)
def test_the_part_that_fits_is_taken_and_named(how, source, caplog):
    wrap, where = NESTED[how]
    twin = timm_model()
    twin.load_state_dict(source.state_dict())
    given = wrap(dict(source.state_dict()), twin)
    model = load_deit(vitbook.create_model(NAME), given)
    plain = load_deit(vitbook.create_model(NAME), source.state_dict())
    assert weights_digest(model) == weights_digest(plain)
    said = [f"the weights of DeiT were taken from {where}"] if where else []
    assert [record.getMessage() for record in caplog.records] == said


@pytest.mark.parametrize(
    ("wrap", "places"),
    [
        (lambda w: {"state_dict": w, "state_dict_ema": w}, "state_dict/, state_dict_ema/"),
        (
            lambda w: {k: begin("module.backbone.", w) for k in ("student", "teacher")},
            "student/module.backbone., teacher/module.backbone.",
        ),
        (lambda w: w | {"ema": w}, "as it came, ema/"),
        (lambda w: begin("encoder_q.", w) | begin("encoder_k.", w), "encoder_q., encoder_k."),
    ],
)
def test_several_that_fit_are_refused_by_their_names(wrap, places, source):
    model = vitbook.create_model(NAME)
    before = weights_digest(model)
    with pytest.raises(ValueError) as raised:
        load_deit(model, wrap(dict(source.state_dict())))
    said = str(raised.value)
    assert said == (
        f"the weights of DeiT are there 2 times, each fits this model: {places}: expected one; "
        "give the one that you want alone"
    )
    assert weights_digest(model) == before


def test_a_body_without_a_head_is_found_too(source, caplog):
    body = {n: t for n, t in source.state_dict().items() if not n.startswith("head.")}
    dino = begin("backbone.", body) | {"head.mlp.weight": torch.ones(3)}
    model = vitbook.create_model(NAME)
    head = model.head.classifier.weight.clone()
    load_renamed(model, {"teacher": dino}, DEIT_NAMES, "DINO", optional="head.")
    assert torch.equal(model.encoder.norm.weight, source.norm.weight)
    assert torch.equal(model.head.classifier.weight, head)
    assert "taken from teacher/backbone." in caplog.text


@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        # The nearest is named, and what is wrong with it.
        (
            lambda w: {"model": w | {"head.bias": torch.zeros(9)}, "ema": other(w)},
            r"DeiT, model/, do not fit this model: of another shape: head.bias .* Build the model",
        ),
        (
            lambda w: {"teacher": begin("backbone.", {n: w[n] for n in list(w)[:-1]})},
            "DeiT, teacher/backbone., do not fit this model: missing: head.bias. Build",
        ),
        # Building another model would not help.
        (lambda w: other(w), "They have none of the names: give the weights of such a model alone"),
        (
            lambda w: {"ema": w | {"norm.bias": torch.full((64,), float("nan"))}},
            "DeiT, ema/, do not fit this model: NaN or infinite: norm.bias",
        ),
    ],
)
def test_a_part_that_nearly_fits_is_named(wrap, words, source):
    model = vitbook.create_model(NAME)
    before = weights_digest(model)
    with pytest.raises(ValueError, match=words):
        load_deit(model, wrap(dict(source.state_dict())))
    assert weights_digest(model) == before


@pytest.mark.parametrize("wrap", [torch.compile, nn.DataParallel, compiled_part])
def test_a_wrapped_model_is_filled(wrap, source, caplog):
    caplog.set_level(logging.INFO)
    model = vitbook.create_model(NAME)
    if wrap is compiled_part:
        model.encoder.blocks[1] = torch.compile(model.encoder.blocks[1])
    else:
        model = wrap(model)
    assert load_deit(model, source.state_dict()) is model
    plain = load_deit(vitbook.create_model(NAME), source.state_dict())
    assert weights_digest(model) == weights_digest(plain) and not caplog.records
