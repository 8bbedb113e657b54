"""Big Transfer (Kolesnikov et al. 2020): the residual networks that the ViT paper measures against.

The depths are ResNet's; the factor behind the ``x`` multiplies every width.
"""

from einops import rearrange
from torch import nn

from vitbook.layers import MeanPoolHead
from vitbook.layers.convolution import (
    PreActivationBottleneck,
    StandardizedConv2d,
    group_norm,
    make_stages,
)
from vitbook.layers.shapes import Images, Logits, Size, TokensOfImages
from vitbook.layers.tokenizers import check_images, divide_into_patches, pair


class ResNetV2(nn.Module):
    r"""Image to map, the map through stages that halve and widen it, its mean to one answer.

    .. math::
        y = \mathrm{head}\big(\mathrm{mean}_{ij}\, \mathrm{ReLU}(\mathrm{GN}(x_L))_{ij}\big)

    BiT, section 2.1. A pixel of the last map is a token, so that probes take this model as they
    take a Transformer; there is no prefix.

    Args:
        stem: images to a map of a quarter of their height and width.
        stages: map to map; each but the first halves it.
        norm: applied to the last map, before a ReLU.
        head: tokens to logits.
        image_size: in pixels; the step of a token must divide it, 32 pixels with four stages.
    """

    num_prefix_tokens = 0

    def __init__(
        self,
        stem: nn.Module,
        stages: nn.Sequential,
        norm: nn.Module,
        head: nn.Module,
        *,
        image_size: Size,
        channels: int,
    ):
        super().__init__()
        self.image_size = pair(image_size, "image size")
        self.channels = channels
        self.patch_size = 2 ** (1 + len(stages))
        self.grid_size = divide_into_patches(self.image_size, (self.patch_size, self.patch_size))
        self.stem = stem
        self.stages = stages
        self.norm = norm
        self.activation = nn.ReLU()
        self.head = head

    def features(self, images: Images) -> TokensOfImages:
        """The last map after its norm and ReLU, row by row."""
        check_images(images, self.channels, self.image_size)
        maps = self.activation(self.norm(self.stages(self.stem(images))))
        return rearrange(maps, "b d rows columns -> b (rows columns) d")

    def forward(self, images: Images) -> Logits:
        return self.head(self.features(images))


def bit(
    *,
    image_size: Size,
    num_classes: int,
    stage_depths: tuple[int, ...],
    width_factor: int,
    channels: int = 3,
) -> ResNetV2:
    """BiT as in its paper, section 2.1.

    Args:
        stage_depths: residual blocks of each stage.
        width_factor: times 64 channels in the stem, times 256 in the first stage.
    """
    stem_width = 64 * width_factor
    width = stem_width * 2 ** (1 + len(stage_depths))
    return ResNetV2(
        stem=nn.Sequential(
            StandardizedConv2d(channels, stem_width, kernel_size=7, stride=2),
            # Zeros, not MaxPool2d's own -inf: at the border the authors' maximum is not negative.
            nn.ZeroPad2d(1),
            nn.MaxPool2d(kernel_size=3, stride=2),
        ),
        stages=make_stages(PreActivationBottleneck, stem_width, stage_depths),
        norm=group_norm(width),
        head=MeanPoolHead(width, num_classes),
        image_size=image_size,
        channels=channels,
    )


DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}

# Everything that `bit` takes, by name: the paper's, and two for digits.
BIT_MODELS = {
    f"bit_resnet{layers}x{factor}": dict(
        image_size=224, num_classes=1000, stage_depths=DEPTHS[layers], width_factor=factor
    )
    for layers, factor in ((50, 1), (50, 3), (101, 1), (101, 3), (152, 2), (152, 4))
} | {
    f"bit_resnet{2 + 3 * sum(depths)}x1_digits": dict(
        image_size=8, channels=1, num_classes=10, stage_depths=depths, width_factor=1
    )
    for depths in ((2,), (2, 2))
}

MODELS = {bit: BIT_MODELS}
