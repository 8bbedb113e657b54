import math

import pytest
import torch
import torch.nn.functional as F

from vitbook.layers.convolution import (
    PreActivationBottleneck,
    StandardizedConv2d,
    UnsharedConv2d,
)
from vitbook.layers.convolutional_stem import Bottleneck, ConvolutionalStem, SamePadConv2d, pad_same


def naive_weights(conv):
    filters = [w - w.mean() for w in conv.weight]
    return torch.stack([w / ((w**2).mean() + 1e-8).sqrt() for w in filters])


def naive_norm(maps, norm):
    groups = maps.reshape(len(maps), 32, -1)
    groups = groups - groups.mean(2, keepdim=True)
    groups = groups / (groups.pow(2).mean(2, keepdim=True) + 1e-5).sqrt()
    return groups.view_as(maps) * norm.weight[:, None, None] + norm.bias[:, None, None]


def naive_active(maps, norm):
    return naive_norm(maps, norm).clamp(min=0)


def randomized(module):
    torch.manual_seed(0)
    for parameter in module.parameters():
        parameter.data.normal_()
    return module


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (7, 2)])
@torch.no_grad()
def test_filters_have_mean_zero_and_variance_one(kernel, stride):
    conv = randomized(StandardizedConv2d(5, 4, kernel, stride))
    maps = torch.randn(2, 5, 9, 8)
    out = F.conv2d(maps, naive_weights(conv), stride=stride, padding=kernel // 2)
    assert out.shape[2:] == (math.ceil(9 / stride), math.ceil(8 / stride))
    assert torch.allclose(conv(maps), out, atol=1e-4)
    conv.weight.mul_(3).add_(2)
    assert torch.allclose(conv(maps), out, atol=1e-3)


@pytest.mark.parametrize("stride", [1, 2])
@torch.no_grad()
def test_an_unshared_convolution_is_a_convolution_where_its_kernels_agree(stride):
    layer = UnsharedConv2d(3, 4, 3, map_size=(5, 6), stride=stride)
    maps, kernel = torch.randn(2, 3, 5, 6), torch.randn(4, 3, 3, 3)
    layer.weight.copy_(kernel.flatten(1).mT.expand_as(layer.weight))
    expected = F.conv2d(maps, kernel, stride=stride, padding=1)
    assert torch.allclose(layer(maps), expected, atol=1e-5)
    layer.weight[1] += 1  # the second place alone
    changed = (layer(maps) - expected).abs().amax((0, 1)).flatten()
    assert (changed > 1e-3).nonzero().tolist() == [[1]]


def test_an_unshared_convolution_refuses_another_map():
    with pytest.raises(ValueError, match="a map of 5x6 positions came, expected 6x5"):
        UnsharedConv2d(3, 4, 3, (6, 5))(torch.zeros(1, 3, 5, 6))


@pytest.mark.parametrize(("inputs", "stride"), [(64, 1), (64, 2), (128, 1), (128, 2)])
@torch.no_grad()
def test_the_preactivation_block_is_its_equation(inputs, stride):
    block = randomized(PreActivationBottleneck(inputs, 128, stride))
    maps = torch.randn(2, inputs, 6, 8)
    active = naive_active(maps, block.norm1)
    branch = F.conv2d(active, naive_weights(block.conv1))
    weights = naive_weights(block.conv2)
    branch = F.conv2d(naive_active(branch, block.norm2), weights, stride=stride, padding=1)
    branch = F.conv2d(naive_active(branch, block.norm3), naive_weights(block.conv3))
    if (inputs, stride) == (128, 1):
        shortcut = maps
    else:
        shortcut = F.conv2d(active, naive_weights(block.shortcut), stride=stride)
    assert torch.allclose(block(maps), shortcut + branch, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("inputs", "stride"), [(64, 1), (64, 2), (128, 1), (128, 2)])
@torch.no_grad()
def test_the_hybrids_block_is_its_equation(inputs, stride):
    block = randomized(Bottleneck(inputs, 128, stride))
    maps = torch.randn(2, inputs, 6, 8)
    branch = naive_active(F.conv2d(maps, naive_weights(block.conv1)), block.norm1)
    # An even map under a stride of 2 is one zero short, and that stands below and right.
    padded = F.pad(branch, (0, 1, 0, 1) if stride == 2 else (1, 1, 1, 1))
    branch = F.conv2d(padded, naive_weights(block.conv2), stride=stride)
    branch = F.conv2d(naive_active(branch, block.norm2), naive_weights(block.conv3))
    shortcut = maps
    if (inputs, stride) != (128, 1):
        conv, norm = block.shortcut
        shortcut = naive_norm(F.conv2d(maps, naive_weights(conv), stride=stride), norm)
    out = (naive_norm(branch, block.norm3) + shortcut).clamp(min=0)
    assert torch.allclose(block(maps), out, rtol=1e-4, atol=1e-3)


def test_same_padding_by_hand():
    ones = torch.ones(1, 1, 1, 4)
    assert pad_same(ones, 3, 2)[0, 0].tolist() == [[0] * 5, [1, 1, 1, 1, 0], [0] * 5]
    assert pad_same(ones, 7, 2)[0, 0, 3].tolist() == [0, 0, 1, 1, 1, 1, 0, 0, 0]
    assert SamePadConv2d(1, 2, 7, stride=2)(torch.ones(1, 1, 8, 6)).shape == (1, 2, 4, 3)


@torch.no_grad()
def test_the_stem_gives_a_token_for_each_pixel_of_its_last_map():
    stem = ConvolutionalStem((32, 48), 1, width=6, stage_depths=(1, 2), stem_width=32)
    assert (stem.patch_size, stem.grid_size, stem.channels) == (8, (4, 6), 1)
    assert stem.image_size == (32, 48)
    last = []
    stem.stages.register_forward_hook(lambda module, args, maps: last.append(maps))
    tokens = stem(torch.randn(2, 1, 32, 48))
    assert last[0].shape == (2, 256, 4, 6)
    kernel = stem.projection.weight[:, :, 0, 0]
    expected = kernel @ last[0][1, :, 2, 3] + stem.projection.bias
    assert torch.allclose(tokens[1, 2 * 6 + 3], expected, atol=1e-5)


@torch.no_grad()
def test_the_stem_of_small_images_halves_between_stages_alone():
    stem = randomized(
        ConvolutionalStem((8, 12), 2, 6, stage_depths=(1, 1), stem_width=32, small_images=True)
    )
    assert (stem.patch_size, stem.grid_size) == (2, (4, 6))
    images = torch.randn(2, 2, 8, 12)
    maps = F.conv2d(images, naive_weights(stem.conv), padding=1)
    maps = stem.stages(naive_active(maps, stem.norm))
    assert maps.shape == (2, 256, 4, 6)
    expected = stem.projection(maps).flatten(2).mT
    assert torch.allclose(stem(images), expected, rtol=1e-4, atol=1e-3)
