"""Explanations on collages: four classes in one image, and each must be found in its quarter."""

from collections.abc import Callable, Collection, Mapping
from functools import partial

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from vitbook.analysis.attribution.captum_maps import integrated_gradients
from vitbook.analysis.attribution.faithfulness import bootstrap_interval
from vitbook.analysis.attribution.grad_cam import token_grad_cam
from vitbook.analysis.attribution.location import energy_pointing, pointing
from vitbook.analysis.attribution.null_maps import centre_maps, edge_maps, random_maps
from vitbook.analysis.attribution.occlusion import occlusion_drops
from vitbook.analysis.attribution.scoring import EXPLANATIONS
from vitbook.analysis.capture.frames import has_attention
from vitbook.analysis.capture.layout import Pair, token_layout
from vitbook.analysis.capture.outputs import list_blocks
from vitbook.analysis.capture.running import (
    batches,
    check_images,
    encoder_of,
    logits_of,
    takes_images,
)
from vitbook.errors import UnknownNameError
from vitbook.model_utilities import evaluating

# A map of each quarter's class, "n quarters rows columns", of images and the classes in them.
Explain = Callable[[nn.Module, Tensor, Tensor], Tensor]


@takes_images()
def explain_collages(
    model: nn.Module,
    images: Float[Tensor, "n channels height width"],
    labels: Int64[Tensor, "n quarters"],
    names: Collection[str] | None = None,
    *,
    progress: Callable[[str], None] = lambda name: None,
) -> dict[str, Float[Tensor, "n quarters rows columns"]]:
    """What each explanation says of each class in each collage.

    Those that know no class ("rollout", "last attention", and the nulls "edges" and "centre") say
    the same four times. A square of 2 x 2 patches is taken away at a time, as one patch hardly
    matters; integrated gradients take 16 points. What is taken away becomes the image's mean
    colour in both.

    Args:
        model: gives logits, says its grid, and has blocks of a Vision Transformer with ``norm1``
            and a last ``norm`` as ours and timm's; left as it came.
        images: as the model takes them.
        labels: the class of each quarter.
        names: which explanations; by default all of :data:`COLLAGE_EXPLANATIONS`.
        progress: told each name before it runs.

    Raises:
        UnknownNameError: an explanation that there is not; names the nearest.
        ValueError: no names, or text instead of a list; labels that are not one for each quarter,
            or a class that the model does not have; a model without attention for an explanation
            that reads it; what the explanation refuses.
        TypeError: labels that are no whole numbers, or images that are.
    """
    names = _checked_names(model, names)
    _check_labels(images, labels)
    with torch.no_grad(), evaluating(model):
        _check_classes(labels, logits_of(model)(next(batches(model, images, 1))).shape[1])
    found = {}
    for name in names:
        progress(name)
        found[name] = COLLAGE_EXPLANATIONS[name](model, images, labels)
    return found


def collage_rows(
    maps: Mapping[str, Float[Tensor, "n quarters rows columns"]],
    masks: Bool[Tensor, "quarters height width"],
) -> list[dict]:
    """A line for each explanation: how often it points into the right quarter, and how much.

    "pointing" is :func:`~.location.pointing` and "energy" :func:`~.location.energy_pointing`, each
    [mean, low, high] with a 95 % interval over collages, as the four questions of one collage
    depend on each other. One that knows no class has 1/4 in both.

    Raises:
        ValueError: no maps, or of another shape; what the two scores refuse, with the
            explanation's name.
    """
    if not maps:
        raise ValueError("no explanation came: expected at least one, name -> maps")
    rows = []
    for name, asked in maps.items():
        if asked.ndim != 4 or not asked.numel() or asked.shape[1] != len(masks):
            raise ValueError(
                f"{name}: maps of shape {tuple(asked.shape)}: expected (collages, {len(masks)} "
                "quarters, rows, columns), one for each mask"
            )
        flat = rearrange(asked, "n quarters rows columns -> (n quarters) rows columns")
        right = repeat(masks, "quarters h w -> (n quarters) h w", n=len(asked))
        row = {"name": name}
        try:
            for score, of in (("pointing", pointing), ("energy", energy_pointing)):
                by_collage = rearrange(of(flat, right), "(n q) -> n q", q=len(masks)).mean(1)
                row[score] = [round(each, 4) for each in _interval(by_collage)]
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        rows.append(row)
    return rows


@takes_images()
def quarter_drops(
    model: nn.Module,
    images: Float[Tensor, "n channels height width"],
    labels: Int64[Tensor, "n quarters"],
) -> Float[Tensor, "n asked removed"]:
    """What the logit of each quarter's class loses when each quarter becomes the mean colour.

    Where the answer rests on the quarter that shows its class, the largest lies on the diagonal:
    what a perfect explanation could find.

    Raises:
        ValueError: labels that are not one for each quarter, or a class that the model does not
            have; what :func:`~.occlusion.occlusion_drops` refuses.
        TypeError: labels that are no whole numbers.
    """
    _check_labels(images, labels)
    return _of_classes(occlusion_drops(model, images, (2, 2)), labels).flatten(2)


def _checked_names(model: nn.Module, names: Collection[str] | None) -> list[str]:
    if isinstance(names, str):
        raise ValueError(f"names came as the text {names!r}, expected a list: pass [{names!r}]")
    names = list(COLLAGE_EXPLANATIONS) if names is None else list(names)
    if not names:
        raise ValueError(f"no names came: expected some of {', '.join(COLLAGE_EXPLANATIONS)}")
    for name in names:
        if name not in COLLAGE_EXPLANATIONS:
            raise UnknownNameError("explanation", name, COLLAGE_EXPLANATIONS)
    reading = [name for name in names if name not in WITHOUT_ATTENTION]
    if reading and not has_attention(model):
        raise ValueError(
            f"{type(model).__name__} has no attention for {reading[0]!r}: expected a Vision "
            f"Transformer, or names among {', '.join(WITHOUT_ATTENTION)}"
        )
    return names


def _check_labels(images: Tensor, labels: Tensor) -> None:
    check_images(images)
    if not isinstance(labels, Tensor):
        raise TypeError(f"labels came as {type(labels).__name__}: expected a tensor")
    if not labels.numel() or labels.ndim != 2 or len(labels) != len(images):
        raise ValueError(
            f"labels of shape {tuple(labels.shape)} for {len(images)} collages: expected one for "
            "each quarter, (collages, quarters)"
        )
    if labels.dtype not in (torch.int64, torch.int32):
        kind = str(labels.dtype).removeprefix("torch.")
        raise TypeError(f"labels are {kind}: expected whole numbers, labels.long()")


def _check_classes(labels: Tensor, classes: int) -> None:
    if not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(
            f"labels from {labels.min()} to {labels.max()}: expected 0 to {classes - 1}, the "
            "classes of the model"
        )


def _of_classes(drops: Tensor, labels: Tensor) -> Tensor:
    """Of the drops of all classes those that are asked for; -1 would be read as the last."""
    _check_classes(labels, drops.shape[1])
    return drops[torch.arange(len(labels))[:, None], labels.to(drops.device)]


def _interval(values: Tensor) -> tuple[float, float, float]:
    found = bootstrap_interval(values)
    return found.mean, found.low, found.high


def _asked(explain: Callable, *, blind: bool = False) -> Explain:
    """An explanation of images and classes, for four classes an image."""

    def of_collages(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        quarters = labels.shape[1]
        if blind:
            maps = explain(model, images, labels[:, 0])
            return repeat(maps, "n rows columns -> n quarters rows columns", quarters=quarters)
        repeated = repeat(images, "n c h w -> (n quarters) c h w", quarters=quarters)
        maps = explain(model, repeated, labels.flatten())
        return rearrange(maps, "(n quarters) r c -> n quarters r c", quarters=quarters)

    return of_collages


def _grid(model: nn.Module, images: Tensor) -> Pair:
    (grid_size,) = token_layout(model, images, grid_size=None)
    return grid_size


def _occlusion(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    rows, columns = _grid(model, images)
    if rows % 4 or columns % 4:  # else a square lies in two quarters
        raise ValueError(
            f"a grid of {rows}x{columns} patches: expected multiples of 4, as each quarter is "
            "covered by squares of 2 x 2; ask for other names, or collages of another size"
        )
    drops = occlusion_drops(model, images, (rows // 2, columns // 2))
    return _of_classes(drops, labels)


def _norm(part: nn.Module, name: str) -> nn.Module:
    found = getattr(part, name, None)
    if not isinstance(found, nn.Module):
        raise ValueError(
            f"{type(part).__name__} has no {name}: expected a Vision Transformer of ours or "
            "timm's; for others call token_grad_cam with layer="
        )
    return found


def _last_norm1(model: nn.Module) -> nn.Module:
    part, _ = encoder_of(model)
    paths = list_blocks(part)
    return _norm(part.get_submodule(paths[-1]) if paths else part, "norm1")


def _cam(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    return token_grad_cam(model, images, targets, layer=_norm(encoder_of(model)[0], "norm"))


def _cam_into_last(model: nn.Module, images: Tensor, targets: Tensor, **given) -> Tensor:
    return token_grad_cam(model, images, targets, layer=_last_norm1(model), **given)


# "Grad-CAM, tool's layer" is where the tool of that name looks in a ViT (jacobgil/pytorch-grad-cam:
# "blocks[-1].norm1"); "CAM" is at the last norm, where a head that reads the mean of the tokens has
# one weight for all places (Zhou et al. 2016).
COLLAGE_EXPLANATIONS: Mapping[str, Explain] = {
    "occlusion": _occlusion,
    "integrated gradients": _asked(partial(integrated_gradients, baseline="mean", steps=16)),
    "relevance": _asked(EXPLANATIONS["relevance"]),
    "gradient rollout": _asked(EXPLANATIONS["gradient rollout"]),
    "CAM": _asked(_cam),
    "Grad-CAM": _asked(EXPLANATIONS["Grad-CAM"]),
    "Grad-CAM, tool's layer": _asked(_cam_into_last),
    "Grad-CAM, tool's layer, no mean": _asked(partial(_cam_into_last, per_place=True)),
    "rollout": _asked(EXPLANATIONS["rollout"], blind=True),
    "last attention": _asked(EXPLANATIONS["last attention"], blind=True),
    "edges": _asked(lambda model, images, _: edge_maps(images, _grid(model, images)), blind=True),
    "centre": _asked(
        lambda model, images, _: centre_maps(len(images), _grid(model, images)), blind=True
    ),
    "random": _asked(lambda model, images, _: random_maps(len(images), _grid(model, images))),
}
# What also a convolutional network can be asked.
WITHOUT_ATTENTION = ("occlusion", "integrated gradients", "edges", "centre", "random")
