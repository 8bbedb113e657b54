import pytest
import torch
import torch.nn.functional as F

import vitbook
from vitbook.models.papers.resnet import ResidualBlock, ResNet


def shaken(norm):
    """A norm whose running numbers cannot be left out unseen."""
    norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)


def scaled(y, norm):
    spread = (norm.running_var + norm.eps).sqrt()[:, None, None]
    return (y - norm.running_mean[:, None, None]) / spread


def test_a_block_is_the_papers_sum():
    torch.manual_seed(0)
    block = ResidualBlock(2, 5, stride=2).eval()
    for norm in (block.norm1, block.norm2):
        shaken(norm)
    x = torch.randn(2, 2, 6, 8)
    inner = scaled(F.conv2d(x, block.conv1.weight, stride=2, padding=1), block.norm1).clamp(min=0)
    branch = scaled(F.conv2d(inner, block.conv2.weight, padding=1), block.norm2)
    shortcut = torch.zeros(2, 5, 3, 4)
    shortcut[:, 1:3] = x[..., ::2, ::2]  # of three new channels one comes before
    assert torch.allclose(block(x), (branch + shortcut).clamp(min=0), atol=1e-5)


@pytest.mark.parametrize("size", [32, (16, 40)])
def test_features_are_the_last_map(size):
    model = vitbook.create_model("resnet20", image_size=size).eval()
    rows, columns = model.grid_size
    images = torch.randn(2, 3, *model.image_size)
    tokens = model.features(images)
    assert tokens.shape == (2, rows * columns, 64) and model.num_prefix_tokens == 0
    assert (rows * model.patch_size, columns * model.patch_size) == model.image_size
    logits = model.head.classifier(tokens.mean(1))
    assert torch.allclose(model(images), logits, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "kernel", "stride", "pooled"),
    [("resnet20", 3, 1, False), ("resnet20_64", 7, 2, False), ("resnet20_128", 7, 2, True)],
)
@torch.no_grad()
def test_the_stem_leaves_32x32_places_of_every_image(name, kernel, stride, pooled):
    torch.manual_seed(0)
    model = vitbook.create_model(name).eval()
    shaken(model.norm)
    images = torch.randn(2, 3, *model.image_size)
    places = F.conv2d(images, model.stem.weight, stride=stride, padding=kernel // 2)
    places = scaled(places, model.norm).clamp(min=0)
    if pooled:
        wide = F.pad(places, (1, 1, 1, 1), value=-torch.inf)
        near = [wide[..., r : r + 64 : 2, c : c + 64 : 2] for r in range(3) for c in range(3)]
        places = torch.stack(near).amax(0)
    assert places.shape == (2, 16, 32, 32)
    assert model.grid_size == (8, 8) and model.patch_size == model.image_size[0] // 8
    expected = model.stages(places).flatten(2).mT
    assert torch.allclose(model.features(images), expected, atol=1e-4)


@torch.no_grad()
def test_unshared_kernels_that_agree_are_the_resnet():
    size = (12, 8)
    shared, unshared = (
        vitbook.create_model(f"resnet8{kind}_digits", image_size=size).eval()
        for kind in ("", "_unshared")
    )
    weights = shared.state_dict()
    for name, kernels in unshared.state_dict().items():
        if kernels.ndim == 3:  # a layer's: "places window outputs"
            weights[name] = weights[name].flatten(1).mT.expand_as(kernels)
    unshared.load_state_dict(weights)
    images = torch.randn(2, 1, *size)
    assert torch.allclose(unshared(images), shared(images), atol=1e-5)


def test_an_image_that_cannot_be_halved_twice():
    with pytest.raises(ValueError, match="image 30x32 is not divisible by 4, and the map is halv"):
        ResNet((30, 32), 3, 3, 10)
    with pytest.raises(ValueError, match="image 64x40 is not divisible by 16, and the .* 4 times"):
        ResNet((64, 40), 3, 3, 10, stem_stride=4)
    with pytest.raises(ValueError, match="images have 1 channels, the model takes 3"):
        vitbook.create_model("resnet20")(torch.zeros(1, 1, 32, 32))
