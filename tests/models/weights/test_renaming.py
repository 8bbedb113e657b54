"""Weights that a stranger hands over: all of them come in, or none and one sentence says why."""

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer as Timm

import vitbook
from vitbook.models.weights.authors import load_deit
from vitbook.models.weights.timm import load_timm

NAME = "vit_micro_patch2_8"


def timm_model(**changes):
    settings = dict(img_size=8, patch_size=2, in_chans=1, num_classes=10, embed_dim=64, depth=4,
                    num_heads=4, mlp_ratio=2)  # fmt: skip
    return Timm(**settings | changes)


def weights():
    return dict(timm_model().state_dict())


def put(name, change):
    def changed(given):
        return given | {name: change(given[name])}

    return changed


def first_entry(value):
    def changed(tensor):
        tensor = tensor.clone()
        tensor.view(-1)[0] = value
        return tensor

    return changed


HOSTILE = [
    (lambda w: {}, "missing: .* and 51 more. Build the model"),
    (
        lambda w: {n: t for n, t in w.items() if n != "norm.bias"},
        "model: missing: norm.bias. Build",
    ),
    (lambda w: w | {"blocks.4.norm1.bias": torch.zeros(64)}, "unexpected: blocks.4.norm1.bias. B"),
    (put("head.bias", lambda t: t[:9]), r"of another shape: head.bias \(9,\) where \(10,\) fits"),
    # As many numbers, so that only the shape gives it away.
    (put("cls_token", lambda t: t[0]), r"shape: cls_token \(1, 64\) where \(1, 1, 64\)"),
    (
        put("norm.bias", lambda t: t.to(torch.int8)),
        "kind: norm.bias torch.int8 where torch.float32",
    ),
    (put("norm.bias", lambda t: t.to("meta")), "without numbers, on meta: norm.bias. Build"),
    (put("pos_embed", first_entry(float("nan"))), "model: NaN or infinite: pos_embed. Build"),
    (
        lambda w: {"a": w["norm.bias"]} | put("head.bias", first_entry(float("nan")))(w),
        "model: unexpected: a; NaN or infinite: head.bias. Build",
    ),
]


@pytest.mark.parametrize(("change", "words"), HOSTILE)
def test_weights_that_do_not_fit_change_nothing(change, words):
    model = vitbook.create_model(NAME)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(ValueError, match=words):
        load_deit(model, change(weights()))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_another_precision_is_no_other_kind():
    given = {name: tensor.bfloat16() for name, tensor in weights().items()}
    model = load_deit(vitbook.create_model(NAME), {"state_dict": given, "epoch": 3})
    assert torch.equal(model.position.table, given["pos_embed"][0].float())


@torch.no_grad()
def test_timms_and_deits_names_are_one():
    source = timm_model().eval()
    images = torch.randn(2, 1, 8, 8)
    by_model = load_timm(vitbook.create_model(NAME).eval(), source)
    by_names = load_deit(vitbook.create_model(NAME).eval(), source.state_dict())
    assert torch.equal(by_model(images), by_names(images))
    assert (by_model(images) - source(images)).abs().max() < 1e-5


def test_half_a_head_is_no_headless_model():
    source = timm_model()
    source.head.bias = None
    with pytest.raises(
        ValueError, match=r"the timm model do not fit this model: missing: head.bias\."
    ):
        load_timm(vitbook.create_model(NAME), source)


def test_what_is_no_model_and_what_has_no_name(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.models.weights.timm import load_timm
        from vitbook.models.weights.authors import load_deit
        model = vitbook.create_model("vit_micro_patch2_8")
        with pytest.raises(TypeError, match="3 of the weights is Tensor, no tensor with a name"):
            load_deit(model, {3: torch.zeros(2)})
        with pytest.raises(TypeError, match="weights are list: expected a state dict"):
            load_deit(model, [torch.zeros(2)])
        with pytest.raises(TypeError, match="OrderedDict came: expected a timm model .* load_deit"):
            load_timm(model, model.state_dict())
        """
    )


@pytest.mark.parametrize(
    ("own", "given", "value"),
    [
        (torch.float32, torch.float64, 1e300),
        (torch.float16, torch.float32, -7e4),
    ],
)
def test_numbers_that_the_model_has_not(own, given, value):
    """They would come in as infinity."""
    model = vitbook.create_model(NAME).to(own)
    before = model.head.classifier.bias.clone()
    theirs = {name: tensor.to(given) for name, tensor in weights().items()}
    load_deit(model, theirs)  # which fit as long as none is too large
    model.head.classifier.bias.data.copy_(before)
    theirs["head.bias"][2] = value
    words = f"too large for the model's numbers: head.bias up to .* where {own} fits"
    with pytest.raises(ValueError, match=words):
        load_deit(model, theirs)
    assert torch.equal(model.head.classifier.bias, before)
