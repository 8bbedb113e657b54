"""From images to tokens."""

from collections.abc import Sequence

import torch
from einops import rearrange
from torch import Tensor, nn

from vitbook.errors import is_whole_number
from vitbook.layers.shapes import Images, Size, TokensOfImages


def pair(value: Size, what: str = "size") -> tuple[int, int]:
    """``16`` as ``(16, 16)``; ``(rows, columns)`` as it is.

    Raises:
        ValueError: anything but one or two positive whole numbers.
    """
    try:
        rows, columns = (value, value) if is_whole_number(value) else value
        right = all(is_whole_number(number) and number > 0 for number in (rows, columns))
    except (TypeError, ValueError):  # nothing to be unpacked, or not two
        right = False
    if not right:
        raise ValueError(f"{what} {value!r}: expected a positive whole number or a pair of them")
    return int(rows), int(columns)


def divide_into_patches(image_size: tuple[int, int], patch: tuple[int, int]) -> tuple[int, int]:
    """(rows, columns) of patches.

    Raises:
        ValueError: the patch does not divide the image; names the nearest sizes that fit.
    """
    if any(size % step for size, step in zip(image_size, patch, strict=True)):
        low = [max(size // step, 1) * step for size, step in zip(image_size, patch, strict=True)]
        high = [-(-size // step) * step for size, step in zip(image_size, patch, strict=True)]
        options = " or ".join(dict.fromkeys([_by(low), _by(high)]))
        raise ValueError(
            f"image {_by(image_size, True)} is not divisible by patch {_by(patch)}: "
            f"use {options}, or pad"
        )
    return image_size[0] // patch[0], image_size[1] // patch[1]


def check_images(images: Tensor, channels: int, image_size: tuple[int, int] | None) -> None:
    """Refuse what the model cannot take, before a kernel fails with a riddle.

    Args:
        image_size: None lets any pass: a file for any size is traced so.

    Raises:
        TypeError: the images are whole numbers.
        ValueError: another rank, channel count or size than the model was built for.
    """
    if images.ndim != 4:
        raise ValueError(
            f"images of shape {tuple(images.shape)}: expected (batch, channels, height, width); "
            "add the batch with images[None] if there is one image"
        )
    if not images.is_floating_point():
        raise TypeError(
            f"images are {str(images.dtype).removeprefix('torch.')}: expected floating point "
            "between -1 and 1; vitbook.datasets.normalize(images) makes it from uint8"
        )
    if images.shape[1] != channels:
        raise ValueError(
            f"images have {images.shape[1]} channels, the model takes {channels}: "
            f"build it with create_model(..., channels={images.shape[1]}) or convert the images"
        )
    if image_size is not None and tuple(images.shape[2:]) != tuple(image_size):
        raise ValueError(
            f"image {_by(images.shape[2:], True)}, but the model takes {_by(image_size, True)}: "
            "resize the images, or build it with create_model(..., image_size=...)"
        )


def _by(size: Sequence[int], always: bool = False) -> str:
    return f"{size[0]}x{size[1]}" if always or size[0] != size[1] else f"{size[0]}"


class PatchTokenizer(nn.Module):
    """What every tokenizer of a grid of patches knows of its images."""

    def __init__(self, image_size: Size, patch_size: Size, channels: int):
        super().__init__()
        self.image_size = pair(image_size, "image size")
        self.patch = pair(patch_size, "patch size")
        self.channels = channels
        self.grid_size = divide_into_patches(self.image_size, self.patch)

    @property
    def patch_size(self) -> int:
        """Pixels that a token steps (vertically, if the patch is not square)."""
        return self.patch[0]


class PatchEmbedding(PatchTokenizer):
    r"""Cut the image into patches and map each to a token, :math:`x_p^i E`.

    ViT paper, equation 1. A convolution whose stride equals its kernel is the same sum as
    flattening each patch and applying one linear layer (:meth:`flatten_and_project`), and it is
    faster.

    Args:
        image_size: height and width in pixels (one number if they are equal).
        patch_size: likewise; must divide the image size.
        channels: of the image, 3 for colour.
        width: of a token.

    Example:
        >>> import torch
        >>> from vitbook.layers import PatchEmbedding
        >>> tokenizer = PatchEmbedding(image_size=(32, 48), patch_size=8, channels=3, width=64)
        >>> tokenizer.grid_size, tuple(tokenizer(torch.zeros(2, 3, 32, 48)).shape)
        ((4, 6), (2, 24, 64))
    """

    def __init__(
        self,
        image_size: Size,
        patch_size: Size,
        channels: int,
        width: int,
    ):
        super().__init__(image_size, patch_size, channels)
        self.projection = nn.Conv2d(channels, width, kernel_size=self.patch, stride=self.patch)
        inputs = channels * self.patch[0] * self.patch[1]
        nn.init.trunc_normal_(self.projection.weight, std=inputs**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, images: Images) -> TokensOfImages:
        check_images(images, self.channels, self.image_size)
        return rearrange(self.projection(images), "b d rows columns -> b (rows columns) d")

    def flatten_and_project(self, images: Images) -> TokensOfImages:
        """The same tokens by the paper's words: flatten every patch, then one matrix product."""
        check_images(images, self.channels, self.image_size)
        height, width = self.patch
        patches = rearrange(
            images, "b c (rows p) (columns q) -> b (rows columns) (c p q)", p=height, q=width
        )
        kernel = rearrange(self.projection.weight, "d c p q -> d (c p q)")
        return torch.nn.functional.linear(patches, kernel, self.projection.bias)


class OverlappingPatches(PatchEmbedding):
    r"""Patches that see some pixels around them: a kernel wider than its stride.

    There is one token for each patch of the plain embedding; it sees half a patch more on every
    side, as in :class:`~.views.ShiftedPatches`, and zeros beyond the image. The ViT paper's patches
    do not overlap; those of T2T-ViT (section 3.1) and of PVT v2 (Wang et al. 2022) do, with windows
    that lean to one side. Here the patch is in the middle.

    Args:
        image_size, patch_size, channels, width: as in :class:`PatchEmbedding`.
        wrapped: beyond the image comes its other side instead of zeros, so that no window can
            tell by zeros that it lies at the border.
    """

    def __init__(
        self,
        image_size: Size,
        patch_size: Size,
        channels: int,
        width: int,
        wrapped: bool = False,
    ):
        super().__init__(image_size, patch_size, channels, width)
        self.overlap = tuple(max(side // 2, 1) for side in self.patch)
        kernel = tuple(side + 2 * more for side, more in zip(self.patch, self.overlap, strict=True))
        self.projection = nn.Conv2d(
            channels,
            width,
            kernel_size=kernel,
            stride=self.patch,
            padding=self.overlap,
            padding_mode="circular" if wrapped else "zeros",
        )
        nn.init.trunc_normal_(
            self.projection.weight, std=(channels * kernel[0] * kernel[1]) ** -0.5
        )
        nn.init.zeros_(self.projection.bias)

    def flatten_and_project(self, images: Images) -> TokensOfImages:
        """The same tokens by cutting out every window, then one matrix product."""
        check_images(images, self.channels, self.image_size)
        (down, right), mode = self.overlap, self.projection.padding_mode
        wide = torch.nn.functional.pad(
            images, (right, right, down, down), "constant" if mode == "zeros" else mode
        )
        windows = torch.nn.functional.unfold(wide, self.projection.kernel_size, stride=self.patch)
        kernel = rearrange(self.projection.weight, "d c p q -> d (c p q)")
        return torch.nn.functional.linear(windows.mT, kernel, self.projection.bias)


class LeaningPatches(PatchTokenizer):
    r"""Patches whose windows begin above and to the left of them: 7 x 7 pixels for a patch of 4.

    Hiera's (Ryali et al. 2023, code). Beyond the image is zero.

    Args:
        image_size, patch_size, channels, width: as in :class:`PatchEmbedding`.
        lean: pixels, fewer than the patch has; 0 cuts patches that do not overlap.
    """

    def __init__(
        self, image_size: Size, patch_size: Size, channels: int, width: int, *, lean: int = 0
    ):
        super().__init__(image_size, patch_size, channels)
        if not 0 <= lean < min(self.patch):
            raise ValueError(
                f"windows that lean over by {lean} pixels: expected 0 to {min(self.patch) - 1}, "
                f"as the patch is {_by(self.patch)}"
            )
        kernel = tuple(side + lean for side in self.patch)
        self.projection = nn.Conv2d(
            channels, width, kernel_size=kernel, stride=self.patch, padding=lean
        )
        nn.init.trunc_normal_(
            self.projection.weight, std=(channels * kernel[0] * kernel[1]) ** -0.5
        )
        nn.init.zeros_(self.projection.bias)

    def forward(self, images: Images) -> TokensOfImages:
        check_images(images, self.channels, self.image_size)
        return rearrange(self.projection(images), "b d rows columns -> b (rows columns) d")


class NormedPatches(LeaningPatches):
    r"""Patches whose tokens pass a LayerNorm at once; their windows may lean over.

    Swin's (Liu et al. 2021, code) and, with windows that lean, PVT v2's (Wang et al. 2022,
    section 3).

    Args:
        image_size, patch_size, channels, width, lean: as in :class:`LeaningPatches`.
    """

    def __init__(
        self, image_size: Size, patch_size: Size, channels: int, width: int, *, lean: int = 0
    ):
        super().__init__(image_size, patch_size, channels, width, lean=lean)
        self.norm = nn.LayerNorm(width)

    def forward(self, images: Images) -> TokensOfImages:
        return self.norm(super().forward(images))
