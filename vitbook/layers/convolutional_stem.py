"""The hybrid's tokenizer: a residual network whose last map is the image that is cut."""

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.convolution import StandardizedConv2d, group_norm, make_stages
from vitbook.layers.shapes import Images, Maps, NewMaps, Size, TokensOfImages
from vitbook.layers.tokenizers import check_images, divide_into_patches, pair


def pad_same(
    maps: Images, kernel_size: int, stride: int
) -> Float[Tensor, "batch channels new_height new_width"]:
    """Zeros around a map as TensorFlow's ``SAME`` sets them: the odd one goes below and right.

    An even map under a stride of 2 so gets fewer zeros above than below, while PyTorch's padding
    is the same on all sides: the authors' weights fit the former alone.
    """
    lacks = [max(stride * -(-n // stride) - stride + kernel_size - n, 0) for n in maps.shape[2:]]
    (top, bottom), (left, right) = ((n // 2, n - n // 2) for n in lacks)
    return F.pad(maps, (left, right, top, bottom))


class SamePadConv2d(StandardizedConv2d):
    """A convolution with standardised weights that pads by :func:`pad_same`."""

    def forward(self, maps: Maps) -> NewMaps:
        kernel_size, stride = self.kernel_size[0], self.stride[0]
        if stride == 1:  # both paddings are the same, and a convolution pads without a copy
            return super().forward(maps)
        padded = pad_same(maps, kernel_size, stride)
        return F.conv2d(padded, self.standardized(), stride=stride)


class SamePadMaxPool2d(nn.MaxPool2d):
    """A maximum that pads by :func:`pad_same`, of a map in which no value is below zero."""

    def forward(self, maps: Images) -> Float[Tensor, "batch channels new_height new_width"]:
        # The zeros around the map win no maximum.
        return super().forward(pad_same(maps, self.kernel_size, self.stride))


class Bottleneck(nn.Module):
    r"""Narrow, look around, widen; each convolution stands before its norm.

    .. math::
        x' = \mathrm{ReLU}(\mathrm{shortcut} + \mathrm{GN}(W_3\,\sigma(W_2\,\sigma(W_1\,x)))),
        \qquad \sigma = \mathrm{ReLU} \circ \mathrm{GN}(\cdot)

    The block of the authors' hybrid: the order of He et al. 2016, "Deep residual learning", not
    that of :class:`~vitbook.layers.convolution.PreActivationBottleneck`. Where the map changes
    its shape, the shortcut is one linear layer and a norm.

    The arguments are its too.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__()
        narrow = outputs // 4
        self.activation = nn.ReLU()
        self.conv1 = StandardizedConv2d(inputs, narrow, kernel_size=1)
        self.norm1 = group_norm(narrow)
        self.conv2 = SamePadConv2d(narrow, narrow, kernel_size=3, stride=stride)
        self.norm2 = group_norm(narrow)
        self.conv3 = StandardizedConv2d(narrow, outputs, kernel_size=1)
        self.norm3 = group_norm(outputs)
        self.shortcut = nn.Identity()
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(
                StandardizedConv2d(inputs, outputs, 1, stride), group_norm(outputs)
            )

    def forward(self, maps: Maps) -> NewMaps:
        branch = self.activation(self.norm1(self.conv1(maps)))
        branch = self.activation(self.norm2(self.conv2(branch)))
        branch = self.norm3(self.conv3(branch))
        return self.activation(self.shortcut(maps) + branch)


class ConvolutionalStem(nn.Module):
    r"""A residual network reads the image; each pixel of its last map becomes a token.

    .. math::
        z^i = \mathrm{ResNet}(x)_i\, E

    ViT paper, section 3.1, "Hybrid architecture": a patch of the map is 1x1. The R50 of section
    4.1 leaves out the fourth stage of ResNet-50 and gives its blocks to the third, (3, 4, 9) for
    (3, 4, 6, 3): as deep, and four times as many tokens. Its filters are standardised and its norm
    is GroupNorm. A token steps 16 pixels and sees far more: through the norm, the whole image.

    For small images the map is not halved before the first stage, as in the networks for
    CIFAR-10 of He et al. 2016, "Deep residual learning", section 4.2.

    Args:
        image_size: in pixels; the step of a token must divide it, 16 pixels with three stages (4
            for small images).
        width: of a token.
        stage_depths: residual blocks of each stage.
        stem_width: channels of the first convolution, a multiple of 32.
        small_images: the first convolution is 3x3 and steps one pixel, and nothing is pooled;
            else it is 7x7, and it and the pooling halve the map each.
    """

    def __init__(
        self,
        image_size: Size,
        channels: int,
        width: int,
        stage_depths: tuple[int, ...] = (3, 4, 9),
        stem_width: int = 64,
        small_images: bool = False,
    ):
        super().__init__()
        self.image_size = pair(image_size, "image size")
        self.channels = channels
        kernel_size, halvings = (3, 0) if small_images else (7, 2)
        # Every stage but the first halves the map too.
        self.patch_size = 2 ** (halvings + len(stage_depths) - 1)
        self.grid_size = divide_into_patches(self.image_size, (self.patch_size, self.patch_size))
        self.conv = SamePadConv2d(channels, stem_width, kernel_size, 1 if small_images else 2)
        self.norm = group_norm(stem_width)
        self.activation = nn.ReLU()
        self.pool = nn.Identity() if small_images else SamePadMaxPool2d(3, stride=2)
        self.stages = make_stages(Bottleneck, stem_width, stage_depths)
        inputs = stem_width * 2 ** (1 + len(stage_depths))
        self.projection = nn.Conv2d(inputs, width, kernel_size=1)
        nn.init.trunc_normal_(self.projection.weight, std=inputs**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, images: Images) -> TokensOfImages:
        check_images(images, self.channels, self.image_size)
        maps = self.activation(self.norm(self.conv(images)))
        return rearrange(
            self.projection(self.stages(self.pool(maps))), "b d rows columns -> b (rows columns) d"
        )
