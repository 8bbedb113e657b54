import re
from pathlib import Path

import pytest
import torch
from torch import nn

from vitbook import create_model, datasets, load_checkpoint, runs
from vitbook.datasets import normalize
from vitbook.studies.small_data_benchmark import claims, compared, losses_uphill, poster, sharpness
from vitbook.training import at_scale
from vitbook.training.engine.loss import cross_entropy

ROOT = Path(__file__).resolve().parents[2]
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


@pytest.fixture(scope="module")
def found():
    return claims.evidence()


def test_the_chapter_links_five_claims_that_the_page_has_first(found):
    text = (ROOT / "book/small_data_benchmark.ipynb").read_text()
    linked = re.findall(r"\{evidence\}`([^`]+)`", text)
    assert sorted(linked) == sorted(claim.name for claim in found.claims[:5])


def test_of_the_four_parts_augmentation_alone_is_missed(found):
    verdicts = [found.verdict(part) for part in claims.PARTS]
    assert verdicts == ["open", "open", "open", "agrees"]
    lost = [found[part].comparison.gap for part in claims.PARTS]
    assert found["All four"].comparison.low > 2 * sum(lost)
    assert found.verdict("They make up for each other") == "agrees"
    assert {len(claims.left_out(part)) for part in claims.PARTS} == {5}


def test_twice_the_epochs_move_a_vit_at_least_as_far_as_its_tokenizer(found):
    for name in ("Rot-ViT", "SL-ViT"):
        apart, rise = (
            found[each].comparison.gap for each in (name, f"Twice the epochs, {name}")
        )  # fmt: skip
        assert apart < 0 and rise > abs(apart)
        assert found.verdict(name) == "shows"  # a single plain run: nothing is decided
    assert found["ResNet-20"].comparison.gap > 10


def test_unequal_steps_are_said_and_nothing_else_is(found):
    unequal = {claim.name for claim in found.claims if claim.comparison.unequal}
    assert unequal == {
        claim.name for claim in found.claims
        if claim.name.startswith(("Twice", "SAM")) and "equal steps" not in claim.name
    }  # fmt: skip


def test_the_tokenizers_gain_has_no_sign_without_its_recipe(found):
    gaps = [found[name].comparison.gap for name in ("SL-ViT, 20 epochs", "SL-ViT")]
    lines = {line[""]: line for line in compared.beside(at_scale("recipe_parts"))}
    long = float(lines["SL-ViT"]["300 epochs"]) - float(lines["plain ViT"]["300 epochs"])
    assert gaps[0] > 20 and gaps[1] < -3 and 0 < long < 1
    assert lines["T2T-ViT"]["poster"] == "–" and lines["ResNet"]["poster"] == "83.4"
    assert compared.curves()["SL-ViT"] == [
        (20, pytest.approx(61.6, abs=0.1)),
        (300, pytest.approx(94.53)),
    ]


def test_a_time_is_one_over_the_measured_speed():
    (bench,) = (
        each for each in runs.measurements("bench")
        if each.rows[0]["model"] == poster.BODIES["ViT-Ti"]
    )  # fmt: skip
    (row,) = (
        row for row in bench.rows if (row["model"], row["pass"]) == ("resnet56", "training step")
    )
    told = next(line for line in poster.times() if line["time over ViT-Ti's"] == "ResNet-56")
    middle, low, high = row["speed_over_first"]
    assert told["training step here"] == f"{1 / middle:.2f} ({1 / high:.2f} to {1 / low:.2f})"
