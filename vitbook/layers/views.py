"""Tokenizers that let a token see beyond its patch: shifted and rotated views of the image."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.initialization import linear
from vitbook.layers.shapes import Images, Size, TokensOfImages
from vitbook.layers.tokenizers import PatchTokenizer, check_images


class PatchesOfViews(PatchTokenizer):
    r"""Several views of an image, stacked on channels, cut into patches and mapped to tokens.

    .. math::
        z^i = \mathrm{LN}\big(\mathcal{P}([X\; X^1\; \ldots\; X^V])_i\big)\, W

    What all views show at one position becomes one token. A subclass says in :meth:`views` what
    views there are.

    Args:
        image_size, patch_size, channels, width: as in :class:`~.tokenizers.PatchEmbedding`.
        num_views: beside the image itself.
        norm: whether a LayerNorm stands before the matrix; it takes mean and contrast out of what
            a token sees.
    """

    def __init__(
        self,
        image_size: Size,
        patch_size: Size,
        channels: int,
        width: int,
        num_views: int,
        norm: bool = True,
    ):
        super().__init__(image_size, patch_size, channels)
        inputs = (1 + num_views) * channels * self.patch[0] * self.patch[1]
        self.norm = nn.LayerNorm(inputs) if norm else nn.Identity()
        self.projection = linear(inputs, width)
        nn.init.trunc_normal_(self.projection.weight, std=inputs**-0.5)

    def views(self, images: Images) -> Float[Tensor, "batch views_channels height width"]:
        """The image first, then the others, stacked on channels."""
        raise NotImplementedError

    def forward(self, images: Images) -> TokensOfImages:
        check_images(images, self.channels, self.image_size)
        patches = rearrange(
            self.views(images), "b c (rows p) (columns q) -> b (rows columns) (c p q)",
            p=self.patch[0], q=self.patch[1],
        )  # fmt: skip
        return self.projection(self.norm(patches))


class ShiftedPatches(PatchesOfViews):
    """Shifted Patch Tokenization (SPT): the image and four copies shifted along the diagonals.

    Lee, Lee and Song 2021, "Vision Transformer for small-size datasets", section 3.1, and their
    code: half a patch each way, zeros where a copy ends. The views come in the code's order: what
    lies left above, right above, left below and right below of each pixel. So a token sees a window
    twice as high and twice as wide as its patch.

    Args:
        image_size, patch_size, channels, width, norm: as in :class:`PatchesOfViews`.
        shift: pixels down and across, at most a patch; by default half a patch, of at least 2
            pixels. 0 is the control: the same layers on five equal views.
    """

    def __init__(
        self,
        image_size: Size,
        patch_size: Size,
        channels: int,
        width: int,
        shift: int | None = None,
        norm: bool = True,
    ):
        super().__init__(image_size, patch_size, channels, width, num_views=4, norm=norm)
        if shift is None and min(self.patch) < 2:
            raise ValueError(
                f"patch size {patch_size}: expected at least 2, for SPT shifts by half a patch"
            )
        half = (self.patch[0] // 2, self.patch[1] // 2)
        self.shift = half if shift is None else (shift, shift)

    def views(self, images: Images) -> Float[Tensor, "batch views_channels height width"]:
        down, across = self.shift
        height, width = images.shape[2:]
        wide = F.pad(images, (across, across, down, down))
        return torch.cat(
            [images]
            + [
                wide[..., top : top + height, left : left + width]
                for top in (0, 2 * down)
                for left in (0, 2 * across)
            ],
            dim=1,
        )


class RotatedPatches(PatchesOfViews):
    r"""Rotated Patch Tokenization (RPT): the image and copies turned a little, both ways.

    From a project poster, "Rotated Patch Tokenization"; no code of it is public. Each copy is
    turned about the image's centre by a random angle and cut to the image's size. Copies come
    in pairs, by :math:`+\alpha` (counter-clockwise) and :math:`-\alpha`. The poster leaves the rest
    open; here it is so, and the arguments change it:

    - in training every image of a batch draws its own angle;
    - in evaluation the angle is the middle of the range, so that an image has one answer;
    - with more than one pair each draws from its own equal part of the range, low to high;
    - pixels are read bilinearly, and beyond the image is zero, which is mid-grey after
      :func:`vitbook.datasets.normalize`: nothing is invented there, but where the image is not
      grey the fill marks its border.

    All copies are read by one ``grid_sample``, on the images' device.

    Args:
        image_size, patch_size, channels, width, norm: as in :class:`PatchesOfViews`.
        num_rotations: copies, an even number.
        angles: lowest and highest angle in radians, from 0 to below a quarter turn.
        per_image: whether each image draws its own angles, or a batch shares one draw.
        evaluation_angle: radians of every pair in evaluation; by default the middle of its part.
        interpolation: how a pixel is read: ``bilinear``, ``nearest`` or ``bicubic``.
        fill: what lies beyond the image: ``zeros``, the ``border`` pixel, or a ``reflection``.
    """

    def __init__(
        self,
        image_size: Size,
        patch_size: Size,
        channels: int,
        width: int,
        num_rotations: int = 2,
        angles: tuple[float, float] = (math.pi / 20, math.pi / 14),
        per_image: bool = True,
        evaluation_angle: float | None = None,
        interpolation: str = "bilinear",
        fill: str = "zeros",
        norm: bool = True,
    ):
        if num_rotations < 2 or num_rotations % 2:
            raise ValueError(
                f"{num_rotations} rotations: expected an even number, for they come in pairs, "
                "one each way"
            )
        super().__init__(image_size, patch_size, channels, width, num_rotations, norm)
        low, high = angles
        if not 0 <= low <= high < math.pi / 2:
            raise ValueError(
                f"angles from {low:.4g} to {high:.4g}: expected radians, the lower first, from 0 "
                f"to below {math.pi / 2:.4g}; math.radians(10) makes them from degrees"
            )
        self.num_rotations = num_rotations
        self.angles = angles
        self.per_image = per_image
        self.evaluation_angle = evaluation_angle
        self.interpolation = interpolation
        self.fill = fill

    def draw_angles(
        self, batch: int | torch.SymInt, device: torch.device
    ) -> Float[Tensor, "batch rotations"]:
        """Radians, counter-clockwise positive: of each pair first the one, then the other way."""
        low, high = self.angles
        pairs = self.num_rotations // 2
        if self.training:
            place = torch.rand(batch if self.per_image else 1, pairs, device=device)
        else:
            place = torch.full((1, pairs), 0.5, device=device)
        place = (torch.arange(pairs, device=device) + place) / pairs
        angles = low + (high - low) * place
        if not self.training and self.evaluation_angle is not None:
            angles = torch.full_like(angles, self.evaluation_angle)
        return torch.stack([angles, -angles], dim=-1).flatten(1).expand(batch, -1)

    def rotate(
        self,
        images: Images,
        angles: Float[Tensor, "batch rotations"],
    ) -> Float[Tensor, "batch rotations channels height width"]:
        """Every image turned about its centre by each of its angles, cut to its size."""
        height, width = images.shape[2:]
        # Positions of pixels from the centre; an image turned by a shows at p what lay at p by -a.
        y = torch.arange(height, device=images.device) - (height - 1) / 2
        x = torch.arange(width, device=images.device) - (width - 1) / 2
        cos, sin = (f(angles)[..., None, None] for f in (torch.cos, torch.sin))
        # Rows grow downward: counter-clockwise to the eye is clockwise in (x, y).
        across = cos * x - sin * y[:, None]
        down = sin * x + cos * y[:, None]
        # grid_sample's units: -1 and 1 are the outer edges of the image.
        grid = torch.stack([across * (2 / width), down * (2 / height)], dim=-1)
        grid = rearrange(grid, "b v h w xy -> b (v h) w xy")
        # In float32 at least: half precision cannot name a pixel of a large image.
        exact = images.to(torch.promote_types(images.dtype, torch.float32))
        turned = F.grid_sample(
            exact, grid.to(exact), self.interpolation, self.fill, align_corners=False
        )
        return rearrange(turned.to(images.dtype), "b c (v h) w -> b v c h w", h=height)

    def views(self, images: Images) -> Float[Tensor, "batch views_channels height width"]:
        turned = self.rotate(images, self.draw_angles(images.shape[0], images.device))
        return torch.cat([images, rearrange(turned, "b v c h w -> b (v c) h w")], dim=1)
