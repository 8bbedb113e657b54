"""What a token can see of the picture: by the formula, and by the gradient."""

from collections.abc import Iterable, Sequence
from copy import deepcopy

import torch
from jaxtyping import Bool
from torch import Tensor, nn


def window(kernels_and_strides: Iterable[tuple[int, int]]) -> int:
    r"""Pixels on a side that one output of stacked windows sees, far from the border.

    .. math:: r_\mathrm{in} = s\,(r_\mathrm{out} - 1) + k

    from the last layer, where :math:`r_\mathrm{out} = 1`, back to the picture. A patch embedding
    is one window whose stride is its kernel; the three soft splits of T2T-ViT, (7, 4), (3, 2) and
    (3, 2), see 31 pixels.

    Args:
        kernels_and_strides: (kernel, stride) of each layer, the one on the picture first.
    """
    size = 1
    for kernel, stride in reversed(list(kernels_and_strides)):
        if min(kernel, stride) < 1:
            raise ValueError(f"kernel {kernel} and stride {stride}: expected at least 1")
        size = stride * (size - 1) + kernel
    return size


def pixels_seen(
    tokenizer: nn.Module,
    image_size: Sequence[int],
    channels: int = 3,
    tokens: Iterable[int] | None = None,
) -> Bool[Tensor, "tokens height width"]:
    """Which pixels change a token: the support of its gradient, on the real module.

    A copy of the module runs in evaluation mode on one random picture, in float64 so that a small
    gradient is not taken for none.

    Args:
        tokenizer: pictures to "batch tokens width": a tokenizer of ours, or any such module.
        image_size: (height, width) in pixels.
        channels: of the picture.
        tokens: numbers of the tokens, row by row; by default all.

    Raises:
        ValueError: the module gives no tokens for such a picture, or not that one.
    """
    place = next(tokenizer.parameters(), torch.zeros(()))
    copy = deepcopy(tokenizer).eval().double()
    picture = torch.rand(1, channels, *image_size, dtype=torch.float64, device=place.device)
    out = copy(picture.requires_grad_())
    if out.ndim != 3 or not out.requires_grad:
        raise ValueError(
            f"{type(tokenizer).__name__} gave {tuple(out.shape)}: expected tokens, "
            "(batch, tokens, width), that depend on the picture"
        )
    chosen = range(out.shape[1]) if tokens is None else list(tokens)
    if wrong := [token for token in chosen if not 0 <= token < out.shape[1]]:
        raise ValueError(f"token {wrong[0]}: expected 0 to {out.shape[1] - 1}")
    mixed = (out[0] * torch.rand_like(out[0])).sum(-1)
    seen = []
    for token in chosen:
        (gradient,) = torch.autograd.grad(mixed[token], picture, retain_graph=True)
        seen.append((gradient[0] != 0).any(0))
    return torch.stack(seen)
