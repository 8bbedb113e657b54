import pytest
import torch
from torch import nn

from vitbook import create_model, datasets, load_checkpoint
from vitbook.datasets import normalize
from vitbook.studies.small_data_benchmark import losses_uphill, sharpness
from vitbook.training.engine.loss import cross_entropy

MICRO = "digits-vit_micro_patch2_8-digits-seed0"
OTHER = "digits-vit_micro_patch2_8-digits-seed1"


def test_the_row_says_what_the_library_measures(tmp_path, monkeypatch):
    loaded, load = [], datasets.load
    monkeypatch.setattr(datasets, "load", lambda *a, **k: loaded.append(a) or load(*a, **k))
    (row,) = sharpness(
        checkpoints=[MICRO, OTHER], split="test", radius=0.2, out=tmp_path, device="cpu"
    )
    assert loaded == [("digits", "test")]  # once for both
    assert row.subject == "digits" and [line["run"] for line in row.rows] == [MICRO, OTHER]
    assert row.settings["radius"] == 0.2 and row.settings["split"] == "test"
    model = load_checkpoint(OTHER).model
    found, line = losses_uphill(model, load("digits", "test"), 0.2), row.rows[1]
    assert (line["loss"], line["uphill"]) == pytest.approx(found, abs=1e-6)
    squares = sum(weight.double().square().sum().item() for weight in model.parameters())
    assert line["length"] == pytest.approx(squares**0.5, rel=1e-4)


@pytest.fixture
def digits():
    return datasets.take_share(datasets.load("digits", "train"), 0.1)


def test_sharpness_is_the_rise_of_the_loss(digits):
    torch.manual_seed(0)
    model = create_model("vit_micro_patch2_8").train()
    before = [weight.clone() for weight in model.parameters()]
    loss_here, there = losses_uphill(model, digits, 1e-3, batch_size=50)
    whole = losses_uphill(model, digits, 1e-3, batch_size=1000)
    assert loss_here == pytest.approx(whole[0], abs=1e-5)
    assert there - loss_here == pytest.approx(whole[1] - whole[0], rel=0.02)
    loss = cross_entropy(model.eval()(normalize(digits.images)), digits.labels)
    length = torch.stack([g.norm() for g in torch.autograd.grad(loss, list(model.parameters()))])
    assert loss_here == pytest.approx(loss.item(), abs=1e-5)
    first_order = 1e-3 * length.norm().item()
    assert there - loss_here == pytest.approx(first_order, rel=0.02)
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


def test_modes_and_gradients_are_as_before(digits):
    model = create_model("resnet8_digits").train()
    model(normalize(digits.images[:4])).sum().backward()
    gradients = [weight.grad.clone() for weight in model.parameters()]
    statistics = {name: value.clone() for name, value in model.named_buffers()}
    losses_uphill(model, digits, 0.05)
    assert model.training and all(part.training for part in model.modules())
    assert all(torch.equal(value, statistics[name]) for name, value in model.named_buffers())
    assert all(
        torch.equal(weight.grad, gradient)
        for weight, gradient in zip(model.parameters(), gradients, strict=True)
    )


def spoiled(change):
    model = create_model("vit_micro_patch2_8", num_classes=3 if change == "three" else 10)
    if change == "frozen":
        model.requires_grad_(False)
    if change == "nan":
        nn.init.constant_(model.head.classifier.bias, torch.nan)
    return model.bfloat16() if change == "half" else model


@pytest.mark.parametrize(
    ("change", "radius", "words"),
    [
        ("", 0, "radius 0: expected a number above 0, such as 0.05"),
        ("", float("nan"), "radius nan: expected a number above 0"),
        ("", 1e30, "over a radius of 1e.30: expected a finite number"),
        ("nan", 0.05, "the loss at the weights is nan: .* check the weights"),
        ("frozen", 0.05, "no weight of this VisionTransformer learns"),
        ("three", 0.05, "the model has 3 outputs"),
        ("half", 0.05, "weights of bfloat16, .* call model.float.. first"),
    ],
)
def test_what_cannot_be_asked(change, radius, words, digits):
    with pytest.raises(ValueError, match=words):
        losses_uphill(spoiled(change), digits, radius)
