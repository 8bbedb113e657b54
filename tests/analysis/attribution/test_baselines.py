import pytest
import timm
import torch
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.analysis import (
    baseline_images,
    black_level,
    deletion,
    integrated_gradients,
    patch_occlusion,
)

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def imagenet(images):
    """0..1 to what a model of ImageNet's mean and standard deviation takes."""
    mean, deviation = (torch.tensor(each)[:, None, None] for each in IMAGENET)
    return (images - mean) / deviation


def test_baselines():
    images = torch.rand(2, 3, 12, 16)
    assert (baseline_images(images, -1) == -1).all()
    mean = baseline_images(images, "mean")
    assert mean.shape == images.shape and torch.allclose(mean[1, 2, 5, 5], images[1, 2].mean())
    blurred = baseline_images(images, "blur")
    assert blurred.std() < images.std() / 4
    assert torch.allclose(blurred.mean((2, 3)), images.mean((2, 3)), atol=0.05)
    assert baseline_images(images[:, :, :4, :4], "blur").shape == (2, 3, 4, 4)
    assert torch.equal(baseline_images(images, images[0])[1], images[0])
    by_channel = baseline_images(images, torch.tensor([-2.0, 0.0, 3.0]))
    assert by_channel.amin((0, 2, 3)).tolist() == [-2, 0, 3] == by_channel.amax((0, 2, 3)).tolist()
    assert (baseline_images(images, "black") == -1).all()


def test_black_is_the_models_black():
    black = torch.zeros(1, 3, 32, 32)
    theirs = timm.create_model("deit_tiny_patch16_224", img_size=32, num_classes=5).eval()
    assert torch.allclose(baseline_images(black, "black", theirs), imagenet(black))
    theirs = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=5)
    assert black_level(theirs, 3).tolist() == [-1, -1, -1]  # mean and deviation are 0.5
    ours = vitbook.create_model("vit_micro_patch2_8")
    as_ours = datasets.normalize(black[:, :1].to(torch.uint8))
    assert torch.equal(baseline_images(as_ours + 1, "black", ours), as_ours)
    assert black_level(nn.Linear(2, 2), 2).tolist() == [-1, -1]  # it says nothing

    grey = timm.create_model("deit_tiny_patch16_224", img_size=32, in_chans=1)
    with pytest.raises(ValueError, match="says how 3 channels are normalised, and the images have"):
        black_level(grey, 1)


def test_a_black_image_has_nothing_to_take_away():
    torch.manual_seed(0)
    model = timm.create_model("deit_tiny_patch16_224", img_size=32, num_classes=5).eval()
    black, target = imagenet(torch.zeros(1, 3, 32, 32)), torch.tensor([3])
    for method in (integrated_gradients, patch_occlusion):
        assert method(model, black, target).abs().max() < 1e-5
        assert method(model, black, target, baseline=-1.0).abs().max() > 1e-5
    maps = torch.rand(1, 2, 2)
    curve = deletion(model, black, target, maps, baseline="black", steps=4)
    assert torch.allclose(curve.scores, curve.scores[:, :1].expand(-1, 5))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e39])
def test_a_baseline_that_is_not_finite(number):
    images = torch.rand(2, 1, 4, 4)
    with pytest.raises(ValueError, match=r"baseline .* is not finite in torch.float32: expected"):
        baseline_images(images, number)
    with pytest.raises(ValueError, match="a baseline with NaN or infinity in torch.float32"):
        baseline_images(images, torch.full((1,), number, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(3, 1, 4, 4), (0, 1, 4, 4), (2, 1, 1, 4, 4), (4, 4), ()])
def test_a_baseline_of_another_batch(shape):
    with pytest.raises(ValueError, match=r"a baseline of shape .* expected a number for each"):
        baseline_images(torch.rand(2, 1, 4, 4), torch.zeros(shape))
