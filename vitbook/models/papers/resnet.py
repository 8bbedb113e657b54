"""ResNet for small images (He et al. 2016, "Deep residual learning", section 4.2)."""

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.convolution import UnsharedConv2d
from vitbook.layers.heads import MeanPoolHead
from vitbook.layers.shapes import Images, Logits, Size, TokensOfImages
from vitbook.layers.tokenizers import check_images, pair
from vitbook.models.editing import swap_layers


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut without parameters.

    Where the map shrinks, the shortcut takes every second pixel and pads the new channels with
    zeros (option A of the paper).
    """

    def __init__(self, channels_in: int, channels: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.activation1, self.activation2 = nn.ReLU(), nn.ReLU()  # modules: probes change them
        self.stride = stride

    def forward(
        self, x: Float[Tensor, "batch channels_in height width"]
    ) -> Float[Tensor, "batch channels new_height new_width"]:
        branch = self.norm2(self.conv2(self.activation1(self.norm1(self.conv1(x)))))
        new = branch.shape[1] - x.shape[1]
        shortcut = x[..., :: self.stride, :: self.stride]
        padded = F.pad(shortcut, (0, 0, 0, 0, new // 2, new - new // 2))
        return self.activation2(branch + padded)


class ResNet(nn.Module):
    """A stem, three stages of 16, 32 and 64 channels, and the mean of the last map.

    With n blocks a stage it has 6n + 2 layers: n = 9 is ResNet-56. The stem is the paper's 3x3
    convolution. For larger images it is that of table 1: a 7x7 convolution of stride 2, and
    3x3 max-pooling of stride 2 if its own stride is to be 4.

    Args:
        image_size: in pixels, divisible by 4 times the stem's stride.
        blocks: of each stage.
        stem_stride: pixels that a position of the first map steps: 1, 2 or 4.
    """

    num_prefix_tokens = 0

    def __init__(
        self,
        image_size: Size,
        channels: int,
        blocks: int,
        num_classes: int,
        stem_stride: int = 1,
    ):
        super().__init__()
        self.patch_size = 4 * stem_stride
        self.image_size = pair(image_size, "image size")
        if any(size % self.patch_size for size in self.image_size):
            raise ValueError(
                f"image {self.image_size[0]}x{self.image_size[1]} is not divisible by "
                f"{self.patch_size}, and the map is halved {self.patch_size.bit_length() - 1} "
                "times: use such a size, or pad"
            )
        self.channels = channels
        self.grid_size = tuple(size // self.patch_size for size in self.image_size)
        kernel, stride = (3, 1) if stem_stride == 1 else (7, 2)
        self.stem = nn.Conv2d(channels, 16, kernel, stride, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.activation = nn.ReLU()
        self.pool = nn.MaxPool2d(3, 2, padding=1) if stem_stride == 4 else nn.Identity()
        self.stages = nn.Sequential(
            *(
                ResidualBlock(
                    channels_in=width // 2 if first and width > 16 else width,
                    channels=width,
                    stride=2 if first and width > 16 else 1,
                )
                for width in (16, 32, 64)
                for first in (True, *[False] * (blocks - 1))
            )
        )
        self.head = MeanPoolHead(64, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, images: Images) -> TokensOfImages:
        """The last map, its positions in a row."""
        check_images(images, self.channels, self.image_size)
        last = self.stages(self.pool(self.activation(self.norm(self.stem(images)))))
        return rearrange(last, "b c rows columns -> b (rows columns) c")

    def forward(self, images: Images) -> Logits:
        return self.head(self.features(images))


def unshared_resnet(*, image_size: Size, channels: int, blocks: int, num_classes: int) -> ResNet:
    """The same network, near but not the same everywhere: each position has kernels of its own.

    A control for :class:`ResNet`: what is its sharing worth? Norms and shortcuts are shared.
    """
    model = ResNet(image_size, channels, blocks, num_classes)
    size = model.image_size

    def without_sharing(layer: nn.Conv2d) -> UnsharedConv2d:  # called in the order of the layers
        nonlocal size
        (stride, _), (kernel, _) = layer.stride, layer.kernel_size
        made = UnsharedConv2d(layer.in_channels, layer.out_channels, kernel, size, stride)
        size = made.map_size
        return made

    swap_layers(model, nn.Conv2d, without_sharing)
    return model


# Settings of `ResNet`: the paper's for CIFAR-10 (table 6), and others. The stems of ResNet-20 for
# larger images leave 32x32 positions, as its own.
RESNET_MODELS = (
    {
        f"resnet{6 * blocks + 2}": dict(image_size=32, blocks=blocks, num_classes=10)
        for blocks in (3, 9, 18)
    }
    | {
        "resnet20_64": dict(image_size=64, blocks=3, num_classes=200, stem_stride=2),
        "resnet20_128": dict(image_size=128, blocks=3, num_classes=5, stem_stride=4),
    }
    | {
        f"resnet{6 * blocks + 2}_digits": dict(
            image_size=8, channels=1, blocks=blocks, num_classes=10
        )
        for blocks in (1, 3)
    }
)

# Settings of `unshared_resnet`.
UNSHARED_RESNET_MODELS = {"resnet8_unshared_digits": RESNET_MODELS["resnet8_digits"]}

MODELS = {ResNet: RESNET_MODELS, unshared_resnet: UNSHARED_RESNET_MODELS}
