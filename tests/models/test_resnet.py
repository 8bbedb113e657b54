import pytest
import torch
import torch.nn.functional as F

import vitbook
from vitbook.models.resnet import ResidualBlock, ResNet


def test_a_block_is_the_papers_sum():
    torch.manual_seed(0)
    block = ResidualBlock(2, 5, stride=2).eval()
    for norm in (block.norm1, block.norm2):
        norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 2, 6, 8)

    def scaled(y, norm):
        spread = (norm.running_var + norm.eps).sqrt()[:, None, None]
        return (y - norm.running_mean[:, None, None]) / spread

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


def test_a_picture_that_cannot_be_halved_twice():
    with pytest.raises(ValueError, match="image 30x32 is not divisible by 4, and the map is halv"):
        ResNet((30, 32), 3, 3, 10)
    with pytest.raises(ValueError, match="images have 1 channels, the model takes 3"):
        vitbook.create_model("resnet20")(torch.zeros(1, 1, 32, 32))
