"""A patch embedding's kernel for patches of another size."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor

from vitbook.errors import UnknownNameError
from vitbook.layers.shapes import Size
from vitbook.layers.tokenizers import pair

_WAYS = ("bicubic", "bilinear")


def resize_matrix(old: int, new: int, images: str = "bicubic") -> Float64[Tensor, "{new} {old}"]:
    """What resizing makes of a line of ``old`` pixels: the new line is this matrix times it.

    Antialiased, as a picture that shrinks should be. Lines and columns of a picture are resized
    one after the other.

    Args:
        images: how they are resized, "bicubic" or "bilinear".

    Raises:
        UnknownNameError: another way.
    """
    _check_way(images)
    lines = torch.eye(old, dtype=torch.float64)[None, :, None]  # a basis, one vector a channel
    return F.interpolate(lines, (1, new), mode=images, antialias=True)[0, :, 0].T


def resize_patch_kernel(
    kernel: Float[Tensor, "width channels rows columns"], patch_size: Size, images: str = "bicubic"
) -> Float[Tensor, "width channels new_rows new_columns"]:
    r"""The kernel that makes of resized patches the tokens that ``kernel`` makes of the old ones.

    .. math:: w' = (B^\top)^{+} w

    where :math:`B` resizes a patch and :math:`^{+}` is the pseudo-inverse: "PI-resize", Beyer et
    al. 2023, "FlexiViT: One model for all patch sizes", section 3.4. Exact where patches grow;
    where they shrink, the best in the mean over patches of white noise. As timm's
    ``resample_patch_embed``. Gradients go through, so that a kernel may learn at many sizes.

    Args:
        patch_size: of the new kernel.
        images: as in :func:`resize_matrix`.

    Raises:
        ValueError: a patch size that is no positive whole number or pair of them.
        UnknownNameError: no such way to resize.

    Example:
        >>> import torch
        >>> from vitbook.layers import resize_patch_kernel
        >>> kernel = torch.rand(8, 3, 4, 4)
        >>> larger = resize_patch_kernel(kernel, 12)
        >>> tuple(larger.shape), bool(torch.allclose(larger.sum(), kernel.sum(), atol=1e-4))
        ((8, 3, 12, 12), True)
    """
    _check_way(images)
    new = pair(patch_size, "patch size")
    if new == tuple(kernel.shape[2:]):
        return kernel
    down, across = (
        torch.linalg.pinv(resize_matrix(old, size, images).T).to(kernel.device)
        for old, size in zip(kernel.shape[2:], new, strict=True)
    )
    return (down @ kernel.double() @ across.T).to(kernel.dtype)


def _check_way(images: str) -> None:
    if images not in _WAYS:
        raise UnknownNameError("way to resize", images, _WAYS)
