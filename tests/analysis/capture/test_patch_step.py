"""Pixels of a patch are the model's, also where it pads or crops the image."""

import pytest
import timm
import torch
from torch import nn

from vitbook.analysis import (
    attention_distance,
    attention_rollout,
    capture_attention,
    deletion,
    gradient_rollout,
    integrated_gradients,
    mean_attention_distance,
    patch_occlusion,
    relevance,
)
from vitbook.analysis.attribution.scoring import last_attention
from vitbook.analysis.capture.layout import has_class_token, pixels_per_patch, token_step


def vit(**changes) -> nn.Module:
    torch.manual_seed(0)
    made = dict(img_size=64, depth=2, num_classes=3, dynamic_img_size=True) | changes
    return timm.create_model("vit_tiny_patch16_224", **made).eval()


class Cropping(nn.Module):
    """As libraries whose convolution leaves a border out."""

    def __init__(self):
        super().__init__()
        self.vit = vit()

    def forward(self, images):
        return self.vit(images[..., :64, :64])


# 56 = 4 x 14 and 68 = 4 x 17: they divide by the grid, and not by its patches of 16.
ODD = {"padded": (vit(dynamic_img_pad=True), 56), "cropped": (Cropping(), 68)}


class Around(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model(images)


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("wrap", [lambda model: model, Around, nn.DataParallel])
def test_distances_are_in_the_models_own_pixels(case, wrap):
    model, size = ODD[case]
    images = torch.randn(2, 3, size, size)
    with torch.no_grad(), capture_attention(model) as seen:
        model(images)
    maps = [attention_distance(each, (4, 4), 16, 1).mean(0) for each in seen.values()]
    torch.testing.assert_close(mean_attention_distance(wrap(model), images), torch.stack(maps))
    assert token_step(wrap(model), images, (4, 4)) == (16, 16)


@pytest.mark.parametrize("case", ODD)
def test_patches_that_are_no_patches_of_the_image_are_refused(case):
    model, size = ODD[case]
    images, targets = torch.randn(2, 3, size, size), torch.tensor([0, 1])
    for ask in (
        lambda: patch_occlusion(model, images, targets),
        lambda: integrated_gradients(model, images, targets, steps=2),
        lambda: deletion(model, images, targets, torch.rand(2, 4, 4), steps=4),
    ):
        with pytest.raises(
            ValueError, match=rf"images of {size}x{size}.*16x16 pixels, 64x64 in all"
        ):
            ask()
    assert patch_occlusion(model, images, targets, grid_size=(2, 2)).shape == (2, 2, 2)


def test_what_divides_is_as_it_was():
    images = torch.randn(2, 3, 64, 64)
    for model in (vit(), vit(dynamic_img_pad=True), Around(vit())):
        assert pixels_per_patch(model, images, (4, 4)) == (16, 16)
    hybrid = timm.create_model("vit_tiny_r_s16_p8_224", img_size=64)
    assert pixels_per_patch(hybrid, images, (2, 2)) == (32, 32)


REGISTERS = dict(class_token=False, reg_tokens=4, global_pool="avg")


@pytest.mark.parametrize("wrap", [lambda model: model, Around, nn.DataParallel])
def test_a_register_is_no_class_token(wrap):
    model, images = wrap(vit(**REGISTERS)), torch.randn(2, 3, 64, 64)
    assert not has_class_token(model) and has_class_token(wrap(vit()))
    for ask in (attention_rollout, gradient_rollout, relevance):
        with pytest.raises(ValueError, match="registers and no class token"):
            ask(model, images, query="class")
        assert ask(wrap(vit()), images, query="class").shape == (2, 4, 4)


def test_a_head_of_zeros_reads_no_register():
    model, images = vit(**REGISTERS), torch.randn(2, 3, 64, 64)
    nn.init.zeros_(model.head.weight)
    asked = attention_rollout(model, images, query="mean")
    assert torch.equal(attention_rollout(model, images), asked)
    assert last_attention(model, images).shape == (2, 4, 4)


def of_hugging_face(kind, **changes):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    size = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
    config = getattr(transformers, f"{kind}Config")(image_size=64, patch_size=16, **size, **changes)
    return getattr(transformers, f"{kind}Model")(config).eval()


SILENT = {  # models that say no step, and the border that each leaves out
    "DINOv2": lambda: of_hugging_face("Dinov2"),
    "BEiT": lambda: of_hugging_face("Beit"),
    "CLIP": lambda: of_hugging_face("CLIPVision"),
    "SigLIP": lambda: of_hugging_face("SiglipVision"),
    "by hand": lambda: nn.Sequential(nn.Conv2d(3, 8, 16, 16), nn.Flatten()),
}


@pytest.mark.parametrize("kind", SILENT)
def test_the_step_of_a_model_that_says_none_is_that_of_its_kernels(kind):
    model, images = SILENT[kind](), torch.randn(1, 3, 68, 68)
    assert token_step(model, images, (4, 4)) == (16, 16)
    with pytest.raises(ValueError, match="64x64 in all"):
        pixels_per_patch(model, images, (4, 4))
    assert pixels_per_patch(model, torch.randn(1, 3, 64, 64), (4, 4)) == (16, 16)
    assert token_step(model, torch.randn(1, 3, 64, 64), (2, 2)) == (32, 32)  # another grid
