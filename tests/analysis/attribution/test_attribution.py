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


class Wrapped(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.inner = model

    def forward(self, images):
        return self.inner(images)


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
    "ours, no prefix": lambda: vitbook.create_model(
        "axial_vit_micro_patch2_8", image_size=(4, 6), num_classes=CLASSES, channels=3
    ),
    "ours, attention in the tokenizer": lambda: vitbook.create_model(
        "t2t_vit_t_micro_patch2_8", num_classes=CLASSES, channels=3
    ),
    "ours, wrapped": lambda: Wrapped(
        vitbook.create_model("vit_micro_patch2_8", num_classes=CLASSES, channels=3)
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
    "ours, no prefix": ((4, 6), (2, 3), "encoder.blocks.2"),
    "ours, attention in the tokenizer": ((8, 8), (4, 4), "encoder.blocks.2"),
    "ours, wrapped": ((8, 8), (4, 4), "inner.encoder.blocks.2"),
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


def test_after_the_last_block_a_patch_has_no_gradient():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_micro_patch2_8")
    images, targets = torch.randn(2, 1, 8, 8), torch.tensor([0, 1])
    with pytest.raises(ValueError, match="from this EncoderBlock no patch reaches the logits"):
        token_grad_cam(model, images, targets, layer=model.encoder.blocks[-1])


def test_a_compiled_model_is_seen(plain_vitbook):
    plain_vitbook(
        """
        import torch
        from vitbook.analysis import token_grad_cam
        from vitbook.models.papers.vit import Body, vit
        model = vit(image_size=8, patch_size=4, channels=1, num_classes=3,
                    body=Body(16, 2, num_heads=2, mlp_width=16)).eval()
        images, targets = torch.randn(2, 1, 8, 8), torch.tensor([0, 1])
        compiled = torch.compile(model, backend="eager")
        compiled(images)
        maps = token_grad_cam(compiled, images, targets)
        assert torch.allclose(maps, token_grad_cam(model, images, targets)) and maps.any()
        """
    )


def test_not_one_target_for_each(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.analysis import integrated_gradients, patch_occlusion, token_grad_cam
        model = vitbook.create_model("vit_micro_patch2_8")
        for method in (integrated_gradients, patch_occlusion, token_grad_cam):
            with pytest.raises(ValueError, match="1 targets for 2 images: expected one class"):
                method(model, torch.randn(2, 1, 8, 8), torch.tensor([0]))
        """
    )


@pytest.mark.parametrize(
    ("targets", "given", "words"),
    [
        ([0, 10], {}, "targets from 0 to 10: expected 0 to 9"),
        ([-1, 0], {}, "targets from -1 to 0: expected 0 to 9"),
        ([0, 1], {"baseline": "blurred"}, "baseline 'blurred': expected 'black', 'mean'"),
        ([0, 1], {"baseline": torch.zeros(1, 4, 4)}, r"baseline of shape \(1, 4, 4\) for images"),
        ([0, 1], {"grid_size": (3, 4)}, "image 8x8 on a grid of 3x4 patches leaves no whole"),
    ],
)
@pytest.mark.parametrize("method", [integrated_gradients, patch_occlusion])
def test_what_cannot_be(method, targets, given, words):
    model = vitbook.create_model("vit_micro_patch2_8")
    with pytest.raises(ValueError, match=words):
        method(model, torch.randn(2, 1, 8, 8), torch.tensor(targets), **given)


@pytest.mark.parametrize("method", [integrated_gradients, patch_occlusion])
def test_a_model_without_logits(method):
    with pytest.raises(ValueError, match=r"Identity gave \(1, 1, 8, 8\): expected \(batch, cl"):
        method(nn.Identity(), torch.randn(2, 1, 8, 8), torch.tensor([0, 1]), grid_size=(4, 4))


def test_what_grad_cam_cannot_do():
    images, targets = torch.randn(2, 1, 8, 8), torch.tensor([0, 1])
    model = vitbook.create_model("vit_micro_patch2_8")
    with pytest.raises(
        ValueError, match=r"layer gave \(1, 17, 64\): expected \(batch, 18, width\)"
    ):
        token_grad_cam(model, images, targets, num_prefix_tokens=2, batch_size=1)
    with pytest.raises(ValueError, match="this Linear is no part of the VisionTransformer: pass"):
        token_grad_cam(model, images, targets, layer=nn.Linear(1, 1))
    with pytest.raises(ValueError, match="no two blocks with an attention in them"):
        token_grad_cam(vitbook.create_model("resnet8_digits"), images, targets)
    with pytest.raises(ValueError, match="0 steps: expected a whole number from 1"):
        integrated_gradients(model, images, targets, steps=0)


def test_captums_relevance_still_has_no_rule_for_a_layer_norm():
    from captum.attr import LRP

    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    with pytest.raises(TypeError, match="LayerNorm.* has no rule defined"):
        LRP(model).attribute(torch.randn(1, 4), target=0)


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


@pytest.mark.parametrize("steps", [100_000, 1025, 0, -1, True])
def test_steps_that_are_no_sensible_number(steps):
    model, images = vitbook.create_model("vit_micro_patch2_8"), torch.rand(2, 1, 8, 8)
    with pytest.raises(ValueError, match=f"{steps} steps: expected a whole number from 1 to 1024"):
        integrated_gradients(model, images, steps=steps)


def test_steps_that_are_no_whole_number(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.analysis import integrated_gradients
        model, images = vitbook.create_model("vit_micro_patch2_8"), torch.rand(2, 1, 8, 8)
        for steps in (2.5, None, "32"):
            with pytest.raises(ValueError, match="steps: expected a whole number from 1 to 1024"):
                integrated_gradients(model, images, steps=steps)
        for baseline in ([0.0], None, True, 1j):
            with pytest.raises(ValueError, match="baseline as a .*: expected 'black'"):
                integrated_gradients(model, images, baseline=baseline)
        """
    )


def test_a_baseline_from_which_the_answer_is_no_number():
    model, images = vitbook.create_model("vit_micro_patch2_8").eval(), torch.rand(2, 1, 8, 8)
    maps = torch.rand(2, 4, 4)
    for ask in (
        lambda: integrated_gradients(model, images, baseline=1e30),
        lambda: patch_occlusion(model, images, baseline=torch.full((1,), 1e30)),
        lambda: deletion(model, images, None, maps, baseline=1e30),
    ):
        with pytest.raises(ValueError, match=r"a baseline from 1e\+30 to 1e\+30 and images from"):
            ask()
