"""A Vision Transformer carried to images and patches of another size, with the weights it has."""

from dataclasses import replace

import torch
from torch import nn

from vitbook.layers import PatchEmbedding, resize_patch_kernel
from vitbook.layers.shapes import Size


@torch.no_grad()
def change_input(
    model: nn.Module,
    image_size: Size,
    patch_size: Size | None = None,
    resize_method: str = "timm_bicubic",
) -> None:
    """Let a Vision Transformer take images, and patches, of another size, in place.

    Its positions are carried to the new grid, the kernel of its patches by
    :func:`vitbook.layers.resize_patch_kernel` (Beyer et al. 2023, section 3.4). Each change may
    lose something: for several sizes, begin each time with a copy of the first model. A model with
    another patch is no longer one of the catalogue: its ``spec`` is None.

    Args:
        image_size: height and width in pixels (one number if they are equal).
        patch_size: likewise; by default as it is.
        resize_method: of the positions, see :func:`vitbook.layers.resize_positions`.

    Raises:
        ValueError: a model without a plain :class:`vitbook.layers.PatchEmbedding`, one with a part
            that is made for one grid, or a patch that does not divide the image; the model is then
            as it was.
        UnknownNameError: no such method.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.models import change_input
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> change_input(model, image_size=(8, 16), patch_size=4)
        >>> model.grid_size, tuple(model(torch.zeros(1, 1, 8, 16)).shape)
        ((2, 4), (1, 10))
    """
    old = getattr(model, "tokenizer", None)
    if type(old) is not PatchEmbedding:
        raise ValueError(
            f"another input for a {type(model).__name__} with a {type(old).__name__}: expected a "
            "Vision Transformer with a PatchEmbedding; build one with create_model(image_size=...)"
        )
    inside = [part for part in model.modules() if part not in (model, old)]
    for part in inside:
        if hasattr(part, "grid_size") and not hasattr(part, "resize"):
            raise ValueError(
                f"another input for a model with {type(part).__name__}, which is made for one "
                "grid: build one with create_model(image_size=...)"
            )
    size = old.patch if patch_size is None else patch_size
    with torch.device("meta"):  # refuses what does not fit, and draws no weights
        new = PatchEmbedding(image_size, size, old.channels, old.projection.out_channels)
    new.projection.weight = nn.Parameter(
        resize_patch_kernel(old.projection.weight, new.patch).clone(),
        requires_grad=old.projection.weight.requires_grad,
    )
    new.projection.bias = old.projection.bias
    for part in inside:
        if hasattr(part, "resize"):
            part.resize(new.grid_size, resize_method)
    model.tokenizer = new.train(model.training)
    if getattr(model, "spec", None) is not None:
        same = new.patch == old.patch
        model.spec = replace(model.spec, image_size=new.image_size) if same else None
