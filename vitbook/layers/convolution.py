"""Convolutions with standardised or unshared weights, and the residual block of BiT."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.shapes import Maps, NewMaps

GROUPS = 32


class StandardizedConv2d(nn.Conv2d):
    r"""A convolution that brings each of its filters to mean 0 and variance 1 before use.

    .. math::
        \hat W_o = \frac{W_o - \mathrm{mean}(W_o)}{\sqrt{\mathrm{var}(W_o) + 10^{-8}}}

    Qiao et al. 2019, "Weight standardization"; BiT (Kolesnikov et al. 2020), section 2.1, sets it
    beside GroupNorm in the place of BatchNorm, so that an image's answer does not depend on the
    others of its batch. It has no bias, for a norm follows.

    Args:
        inputs: channels of the map that comes.
        outputs: channels of the map that leaves.
        kernel_size: an odd number of pixels.
        stride: pixels that a filter steps; a map keeps ``1 / stride`` of its size, rounded up.
    """

    def __init__(self, inputs: int, outputs: int, kernel_size: int, stride: int = 1):
        super().__init__(inputs, outputs, kernel_size, stride, kernel_size // 2, bias=False)
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")

    def standardized(self) -> Float[Tensor, "outputs inputs kernel kernel"]:
        """The filters as they are used."""
        # A LayerNorm without gain or bias over each filter is the same sum in one kernel.
        return F.layer_norm(self.weight, self.weight.shape[1:], eps=1e-8)

    def forward(self, maps: Maps) -> NewMaps:
        return F.conv2d(maps, self.standardized(), None, self.stride, self.padding)


class UnsharedConv2d(nn.Module):
    r"""A convolution without sharing: every position has kernels of its own ("locally connected").

    .. math:: y_p = W_p\, x_{N(p)}

    The position :math:`p` reads its neighbours :math:`N(p)`, zeros beyond the map, as in a
    convolution, which has one :math:`W` for all positions. LeCun 1989, "Generalization and network
    design strategies", compares the two on digits. It has no bias, for a norm follows.

    Args:
        inputs: channels of the map that comes.
        outputs: channels of the map that leaves.
        kernel_size: an odd number of pixels.
        map_size: (rows, columns) of the map that comes; no other can come.
        stride: pixels that a window steps; a map keeps ``1 / stride`` of its size, rounded up.

    Raises:
        ValueError: a map of another size.

    Example:
        >>> import torch
        >>> from vitbook.layers.convolution import UnsharedConv2d
        >>> layer = UnsharedConv2d(3, 16, kernel_size=3, map_size=(8, 6), stride=2)
        >>> tuple(layer(torch.zeros(5, 3, 8, 6)).shape), tuple(layer.weight.shape)
        ((5, 16, 4, 3), (12, 27, 16))
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel_size: int,
        map_size: tuple[int, int],
        stride: int = 1,
    ):
        super().__init__()
        self.kernel_size, self.stride, self.came_size = kernel_size, stride, tuple(map_size)
        self.map_size = tuple(-(-side // stride) for side in map_size)  # that leaves
        positions, window = self.map_size[0] * self.map_size[1], kernel_size**2
        self.weight = nn.Parameter(torch.empty(positions, inputs * window, outputs))
        nn.init.normal_(self.weight, std=(2 / (outputs * window)) ** 0.5)  # He's, as in ResNet

    def forward(self, maps: Maps) -> NewMaps:
        if maps.shape[2:] != self.came_size:
            came, expected = ("x".join(map(str, size)) for size in (maps.shape[2:], self.came_size))
            raise ValueError(
                f"a map of {came} positions came, expected {expected}: each has its kernels"
            )
        half = self.kernel_size // 2
        windows = F.unfold(maps, self.kernel_size, padding=half, stride=self.stride)
        # One matrix product a position, as a batch of positions; a copy in that order is faster.
        new = rearrange(windows, "b window p -> p b window").contiguous() @ self.weight
        return rearrange(new, "(rows columns) b o -> b o rows columns", rows=self.map_size[0])


def group_norm(channels: int) -> nn.GroupNorm:
    """Normalise each image over 32 groups of its channels (Wu and He 2018)."""
    return nn.GroupNorm(GROUPS, channels)


class PreActivationBottleneck(nn.Module):
    r"""Narrow, look around, widen; each convolution stands behind its norm and ReLU.

    .. math::
        x' = \mathrm{shortcut} + W_3\,\sigma(W_2\,\sigma(W_1\,\sigma(x))), \qquad
        \sigma = \mathrm{ReLU} \circ \mathrm{GN}

    He et al. 2016, "Identity mappings in deep residual networks", figure 4e, with GroupNorm and
    standardised weights as in BiT. The shortcut is :math:`x` itself; where the map changes its
    shape it is one linear layer on :math:`\sigma(x)`. The 3x3 convolution takes the stride.

    Args:
        inputs: channels of the map that comes.
        outputs: channels of the map that leaves; a quarter of them are used between.
        stride: 2 halves the map.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__()
        narrow = outputs // 4
        self.activation = nn.ReLU()
        self.norm1 = group_norm(inputs)
        self.conv1 = StandardizedConv2d(inputs, narrow, kernel_size=1)
        self.norm2 = group_norm(narrow)
        self.conv2 = StandardizedConv2d(narrow, narrow, kernel_size=3, stride=stride)
        self.norm3 = group_norm(narrow)
        self.conv3 = StandardizedConv2d(narrow, outputs, kernel_size=1)
        changes = inputs != outputs or stride != 1
        self.shortcut = StandardizedConv2d(inputs, outputs, 1, stride) if changes else None

    def forward(self, maps: Maps) -> NewMaps:
        active = self.activation(self.norm1(maps))
        shortcut = maps if self.shortcut is None else self.shortcut(active)
        branch = self.conv1(active)
        branch = self.conv2(self.activation(self.norm2(branch)))
        branch = self.conv3(self.activation(self.norm3(branch)))
        return shortcut + branch


def make_stages(
    block: Callable[[int, int, int], nn.Module], inputs: int, depths: tuple[int, ...]
) -> nn.Sequential:
    """Stages of residual blocks: the first widens four times, each later one widens and halves.

    Args:
        block: called with ``inputs, outputs, stride``, the first two in channels.
        depths: blocks of each stage.

    Raises:
        ValueError: no stage, or a stage without a block.
    """
    if not depths or min(depths) < 1:
        raise ValueError(f"stage depths {depths}: expected at least one block in each stage")
    stages, width = [], inputs
    for number, depth in enumerate(depths):
        wide, stride = inputs * 4 * 2**number, 1 if number == 0 else 2
        stages.append(
            nn.Sequential(
                block(width, wide, stride), *(block(wide, wide, 1) for _ in range(depth - 1))
            )
        )
        width = wide
    return nn.Sequential(*stages)
