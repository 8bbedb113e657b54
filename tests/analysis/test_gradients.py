import pytest
import timm
import torch
import torch.nn.functional as F
from torch import nn

import vitbook
from vitbook.analysis import gradient_norms


def micro():
    torch.manual_seed(0)
    return vitbook.create_model("vit_micro_patch2_8")


def batch(count=7):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(count, 1, 8, 8, generator=generator)
    return images, torch.arange(count) % 10


def test_norms_are_those_of_backward_layer_by_layer():
    model, (images, labels) = micro(), batch()
    found = gradient_norms(model, images, labels, batch_size=3)
    assert all(p.grad is None for p in model.parameters())
    F.cross_entropy(model.eval()(images), labels).backward()

    def length(parameters):
        return torch.cat([p.grad.flatten() for p in parameters]).norm().item()

    expected = {"prefix": length([model.prefix])} | {
        name: length(model.get_submodule(name).parameters())
        for name in (
            "tokenizer", "position", *(f"encoder.blocks.{n}" for n in range(4)),
            "encoder.norm", "head",
        )
    }  # fmt: skip
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, rel=1e-4)


def test_a_linear_model_by_hand():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False))
    images = torch.tensor([[[[1.0, 2], [3, 4]]], [[[0, 0], [0, 6]]]])
    found = gradient_norms(
        model, images, torch.tensor([0, 1]), lambda logits, labels: logits[:, 0].mean()
    )
    # The first row's gradient is the mean image, (1, 2, 3, 10) / 2; the second row's is zero.
    assert found == {"1": pytest.approx((1 + 4 + 9 + 100) ** 0.5 / 2)}


def test_modes_gradients_and_statistics_stay():
    model, (images, labels) = vitbook.create_model("resnet8_digits").train(), batch()
    model.stages[0].eval()
    F.cross_entropy(model(images), labels).backward()
    modes = [module.training for module in model.modules()]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    gradients = [p.grad.clone() for p in model.parameters()]
    with torch.no_grad():
        norms = gradient_norms(model, images, labels)
    assert all(norm > 0 for norm in norms.values())
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert all(
        torch.equal(p.grad, before) for p, before in zip(model.parameters(), gradients, strict=True)
    )


def test_what_is_frozen_or_unused_counts_nothing():
    model, (images, labels) = micro(), batch()
    model.encoder.blocks[1].requires_grad_(False)
    model.spare = nn.Linear(3, 3)
    norms = gradient_norms(model, images, labels)
    assert "encoder.blocks.1" not in norms and norms["spare"] == 0
    model.requires_grad_(False)
    with pytest.raises(ValueError, match="VisionTransformer has no parameter that learns"):
        gradient_norms(model, images, labels)


def test_timm_wrapped_and_in_half_precision():
    model = timm.create_model(
        "vit_tiny_patch16_224", depth=2, embed_dim=24, num_heads=3, img_size=(32, 64),
        num_classes=10,
    )  # fmt: skip
    images, labels = torch.randn(4, 3, 32, 64), torch.arange(4)
    norms = gradient_norms(nn.Sequential(model), images, labels)
    assert {"0.patch_embed", "0.pos_embed", "0.blocks.0", "0.blocks.1", "0.head"} <= norms.keys()
    half = gradient_norms(model.bfloat16(), images, labels)
    assert half["blocks.1"] == pytest.approx(norms["0.blocks.1"], rel=0.1)


def test_bad_input():
    model, (images, labels) = micro(), batch()
    with pytest.raises(ValueError, match="images hold NaN"):
        gradient_norms(model, images * torch.nan, labels)
    with pytest.raises(ValueError, match="no images came"):
        gradient_norms(model, images[:0], labels[:0])


def test_labels_that_are_too_few(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.analysis import gradient_norms
        model = vitbook.create_model("vit_micro_patch2_8")
        with pytest.raises(ValueError, match="3 labels for 7 images: expected one for each"):
            gradient_norms(model, torch.rand(7, 1, 8, 8), torch.arange(3))
        """
    )
