import builtins
from functools import partial

import pytest
import timm
import torch
import torchvision
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

import vitbook
from vitbook import datasets
from vitbook.analysis import (
    deletion,
    insertion,
    integrated_gradients,
    on_grid,
    patch_occlusion,
    token_grad_cam,
)

CLASSES = 5
METHODS = (partial(integrated_gradients, steps=4), patch_occlusion, token_grad_cam)


def hugging_face():
    return ViTForImageClassification(
        ViTConfig(
            hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=16,
            image_size=12, patch_size=4, num_labels=CLASSES,
        )
    )  # fmt: skip


# name -> (model, its grid, the path of the block that feeds the last one)
MODELS = {
    "ours": lambda: vitbook.create_model(
        "vit_micro_patch2_8", image_size=(4, 8), num_classes=CLASSES, channels=3
    ),
    "ours, two prefix tokens": lambda: vitbook.create_model(
        "deit_micro_distilled_patch2_8", image_size=(6, 4), num_classes=CLASSES, channels=3
    ),
    "ours, attention in the tokenizer": lambda: vitbook.create_model(
        "t2t_vit_t_micro_patch2_8", num_classes=CLASSES, channels=3
    ),
    "timm": lambda: timm.models.VisionTransformer(
        img_size=(8, 12), patch_size=4, embed_dim=16, depth=3, num_heads=2, num_classes=CLASSES,
        reg_tokens=2, qkv_bias=True,
    ),
    "torchvision": lambda: torchvision.models.VisionTransformer(
        image_size=12, patch_size=4, num_layers=3, num_heads=2, hidden_dim=16, mlp_dim=16,
        num_classes=CLASSES, dropout=0.5,
    ),
    "hugging face": hugging_face,
}  # fmt: skip
LAYOUT = {  # size, grid, the block that feeds the last one
    "ours": ((4, 8), (2, 4), "encoder.blocks.2"),
    "ours, two prefix tokens": ((6, 4), (3, 2), "encoder.blocks.2"),
    "ours, attention in the tokenizer": ((8, 8), (4, 4), "encoder.blocks.2"),
    "timm": ((8, 12), (2, 3), "blocks.1"),
    "torchvision": ((12, 12), (3, 3), "encoder.layers.encoder_layer_1"),
    "hugging face": ((12, 12), (3, 3), "layers.1|layer.1"),  # version 5, version 4
}


@pytest.fixture(params=MODELS)
def case(request):
    """A model with a head that has something to say, three images and their classes."""
    torch.manual_seed(0)
    model = MODELS[request.param]()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.1)
    size, grid, block = LAYOUT[request.param]
    images = torch.randn(3, 3, *size)
    return model, images, torch.tensor([1, 0, 4]), grid, block


def logits(model, images):
    out = model.eval()(images)
    return getattr(out, "logits", out)


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_is_its_singles(case, method):
    model, images, targets, grid, _ = case
    maps = method(model, images, targets)
    assert maps.shape == (3, *grid) and not maps.requires_grad and maps.any()
    for i in range(3):
        (single,) = method(model, images[i : i + 1], targets[i : i + 1])
        assert torch.allclose(single, maps[i], atol=1e-5)
    assert torch.allclose(method(model, images, targets, batch_size=2), maps, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_model_is_left_as_it_came(case, method):
    model, images, targets, *_ = case
    model.train()
    first = next(iter(model.children())).eval()
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = torch.full_like(parameter, number)
        parameter.requires_grad_(number % 2 == 0)
    before = images.clone()
    with torch.no_grad():
        maps = method(model, images, targets)
    assert torch.equal(maps, method(model, images, targets))  # no dropout in it
    assert model.training and not first.training
    for number, parameter in enumerate(model.parameters()):
        assert (parameter.grad == number).all() and parameter.requires_grad == (number % 2 == 0)
    assert torch.equal(images, before) and not images.requires_grad
    assert not any(module._forward_hooks for module in model.modules())


def test_integrated_gradients_are_complete(case):
    model, images, targets, grid, _ = case
    nothing = torch.randn_like(images)
    with torch.no_grad():
        gained = logits(model, images) - logits(model, nothing)
    gained = gained.gather(1, targets[:, None])[:, 0]
    explain = partial(integrated_gradients, model, images, targets, baseline=nothing, steps=64)
    maps, pixels = explain(), explain(per_pixel=True)
    assert gained.abs().max() > 0.02
    assert torch.allclose(maps.sum((1, 2)), gained, atol=0.01 * float(gained.abs().max()))
    assert pixels.shape == (3, *images.shape[2:])
    assert torch.allclose(on_grid(pixels, grid), maps, atol=1e-5)


def test_occlusion_by_a_loop(case):
    model, images, targets, (rows, columns), _ = case
    maps = patch_occlusion(model, images, targets, baseline="mean")
    down, across = images.shape[2] // rows, images.shape[3] // columns
    for i, target in enumerate(targets.tolist()):
        image = images[i : i + 1]
        whole = logits(model, image)[0, target]
        for row in range(rows):
            for column in range(columns):
                without = image.clone()
                colour = image.mean((2, 3), keepdim=True)
                y, x = row * down, column * across
                without[:, :, y : y + down, x : x + across] = colour
                fall = whole - logits(model, without)[0, target]
                assert maps[i, row, column].item() == pytest.approx(fall.item(), abs=1e-5)


def test_grad_cam_by_hand(case):
    model, images, targets, (rows, columns), path = case
    ends = tuple(path.split("|"))
    block, kept = next(m for n, m in model.named_modules() if n.endswith(ends)), []
    handle = block.register_forward_hook(lambda m, a, out: kept.append(out))
    answer = logits(model, images).gather(1, targets[:, None]).sum()
    handle.remove()
    tokens = kept[0][0] if isinstance(kept[0], tuple) else kept[0]
    (gradient,) = torch.autograd.grad(answer, tokens)
    patches, slopes = tokens[:, -rows * columns :], gradient[:, -rows * columns :]
    expected = (patches * slopes.mean(1, keepdim=True)).sum(-1).view(-1, rows, columns)
    signed = token_grad_cam(model, images, targets, signed=True)
    assert torch.allclose(signed, expected, atol=1e-6)
    assert torch.equal(signed, token_grad_cam(model, images, targets, layer=block, signed=True))
    assert torch.equal(token_grad_cam(model, images, targets), signed.clamp(min=0))


class Sums(nn.Module):
    """Each logit is a sum of some pixels: what every method must say is known."""

    grid_size, num_prefix_tokens = (1, 2), 0

    def __init__(self):
        super().__init__()
        weights = torch.tensor([[[1.0, 2, 3, 4]], [[0, 0, 0, -1]]])
        self.weights = nn.Parameter(weights)

    def forward(self, images):
        return torch.einsum("bchw,khw->bk", images, self.weights)


def test_a_linear_model_by_hand():
    images = torch.tensor([[[[5.0, 6, 7, 8]]]])
    gained = integrated_gradients(Sums(), images, torch.tensor([0]), baseline=1.0, per_pixel=True)
    assert gained.flatten().tolist() == pytest.approx([4, 10, 18, 28])
    assert patch_occlusion(Sums(), images, torch.tensor([1]), baseline=1.0).tolist() == [[[0, -7]]]


def test_a_convolutional_net_has_pixels():
    torch.manual_seed(0)
    model = vitbook.create_model("resnet8_digits").eval()
    images, targets = torch.randn(2, 1, 8, 8), torch.tensor([0, 1])
    maps = integrated_gradients(model, images, targets, steps=64, per_pixel=True)
    with torch.no_grad():
        gained = model(images) - model(-torch.ones_like(images))
    gained = gained.gather(1, targets[:, None])[:, 0]
    assert torch.allclose(maps.sum((1, 2)), gained, atol=0.02 * float(gained.abs().max()))


def test_without_captum(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("captum"):
            raise ModuleNotFoundError("No module named 'captum'", name="captum")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    model = vitbook.create_model("vit_micro_patch2_8")
    for method in METHODS:
        with pytest.raises(ModuleNotFoundError, match=r"captum .*\"vitbook\[chapters\]\""):
            method(model, torch.randn(1, 1, 8, 8), torch.tensor([0]))


def test_by_default_the_answer_is_asked_about():
    model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
    images = datasets.normalize(datasets.load("digits", "test").images[:5])
    with torch.no_grad():
        answers = model(images).argmax(1)
    assert len(set(answers.tolist())) > 1
    for explain in (
        lambda *asked: integrated_gradients(model, images, *asked, steps=2, batch_size=4),
        lambda *asked: patch_occlusion(model, images, *asked),
        lambda *asked: token_grad_cam(model, images, *asked, batch_size=2),
    ):
        assert torch.equal(explain(), explain(answers))
    maps = torch.rand(5, 4, 4)
    for curve in (deletion, insertion):
        whole = curve(model, images, answers, maps, steps=4)
        assert torch.equal(curve(model, images, None, maps, steps=4).scores, whole.scores)
