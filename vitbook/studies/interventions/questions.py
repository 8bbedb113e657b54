"""Explanations on collages: four classes in one image, and each must be found in its quarter."""

from collections.abc import Callable, Collection, Mapping
from functools import partial

import torch
from einops import rearrange, reduce, repeat
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from vitbook.analysis import (
    EXPLANATIONS,
    baseline_images,
    bootstrap_interval,
    centre_maps,
    edge_maps,
    integrated_gradients,
    on_grid,
    pointing,
    random_maps,
    token_grad_cam,
)
from vitbook.analysis.capture.layout import Pair, token_layout
from vitbook.analysis.capture.running import batches, encoder_of, logits_of
from vitbook.blocks import list_blocks
from vitbook.model_utilities import evaluating

# A map of each quarter's class, "n quarters rows columns", of images and the classes in them.
Explain = Callable[[nn.Module, Tensor, Tensor], Tensor]


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
    """
    found = {}
    for name in COLLAGE_EXPLANATIONS if names is None else names:
        progress(name)
        found[name] = COLLAGE_EXPLANATIONS[name](model, images, labels)
    return found


def collage_rows(
    maps: Mapping[str, Float[Tensor, "n quarters rows columns"]],
    masks: Bool[Tensor, "quarters height width"],
) -> list[dict]:
    """A line for each explanation: how often it points into the right quarter, and how much.

    "pointing" is :func:`vitbook.analysis.pointing` and "energy" :func:`energy_pointing`, each
    [mean, low, high] with a 95 % interval over collages, as the four questions of one collage
    depend on each other. One that knows no class has 1/4 in both.
    """
    rows = []
    for name, asked in maps.items():
        flat = rearrange(asked, "n quarters rows columns -> (n quarters) rows columns")
        right = repeat(masks, "quarters h w -> (n quarters) h w", n=len(asked))
        row = {"name": name}
        for score, of in (("pointing", pointing), ("energy", energy_pointing)):
            by_collage = reduce(of(flat, right), "(n q) -> n", "mean", q=len(masks))
            found = bootstrap_interval(by_collage)
            row[score] = [round(each, 4) for each in (found.mean, found.low, found.high)]
        rows.append(row)
    return rows


def energy_pointing(
    maps: Float[Tensor, "batch rows columns"], masks: Bool[Tensor, "batch height width"]
) -> Float[Tensor, "batch"]:
    """The share of what an explanation says for the class that lies where the answer does.

    The energy-based pointing game (Wang et al. 2020, "Score-CAM"); on collages the localisation
    score of Böhle et al. 2021, "Convolutional dynamic alignment networks". Only what is above 0
    speaks for the class. A map without anything above 0 says nothing of where: its share is that
    of the mask in the image.

    Args:
        maps: an explanation on any grid that divides the mask.
        masks: true where the answer lies; of a cell that it cuts, its part counts.

    Example:
        >>> import torch
        >>> from vitbook.studies.interventions import energy_pointing
        >>> masks = torch.zeros(2, 4, 4, dtype=torch.bool)
        >>> masks[:, :2, :2] = True
        >>> maps = torch.tensor([[[3.0, 1.0], [-9.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
        >>> energy_pointing(maps, masks)
        tensor([0.7500, 0.2500])
    """
    maps = maps.to(torch.promote_types(maps.dtype, torch.float32))  # a sum of halves overflows
    inside = on_grid(masks.to(maps), maps.shape[1:])
    covered = inside / (masks[0].numel() / maps[0].numel())
    speaking = maps.clamp(min=0)
    whole = speaking.sum((1, 2))
    shares = (speaking * covered).sum((1, 2)) / whole
    return torch.where(whole > 0, shares, covered.mean((1, 2)))


def occlusion_drops(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    grid_size: Pair,
    *,
    baseline: str | float = "mean",
    batch_size: int = 64,
) -> Float[Tensor, "batch classes rows columns"]:
    """What each logit loses with each cell of a grid: logits of the image less those without it.

    As :func:`vitbook.analysis.patch_occlusion`, for all classes at the price of one, and with cells
    of any size that divides the image: with a grid of (2, 2), its quarters.

    Args:
        model: gives logits, "batch classes"; left as it came.
        images: as the model takes them.
        grid_size: (rows, columns) of the cells.
        baseline: what a cell becomes, as in :func:`vitbook.analysis.baseline_images`.
        batch_size: images that the model is given at once.
    """
    rows, columns = grid_size
    gone = torch.eye(rows * columns, dtype=torch.bool, device=images.device)
    gone = repeat(
        gone, "cell (r c) -> cell 1 (r h) (c w)",
        r=rows, h=images.shape[2] // rows, w=images.shape[3] // columns,
    )  # fmt: skip
    nothing = baseline_images(images, baseline, model)
    found = []
    with torch.no_grad(), evaluating(model):
        for image, empty in zip(images, nothing, strict=True):
            asked = torch.cat([image[None], torch.where(gone, empty, image)])
            logits = [logits_of(model)(batch) for batch in batches(model, asked, batch_size)]
            logits = torch.cat(logits)
            found.append(logits[0] - logits[1:])
    return rearrange(found, "batch (rows columns) classes -> batch classes rows columns", rows=rows)


def quarter_drops(
    model: nn.Module,
    images: Float[Tensor, "n channels height width"],
    labels: Int64[Tensor, "n quarters"],
) -> Float[Tensor, "n asked removed"]:
    """What the logit of each quarter's class loses when each quarter becomes the mean colour.

    Where the answer rests on the quarter that shows its class, the largest lies on the diagonal:
    what a perfect explanation could find.
    """
    return _of_classes(occlusion_drops(model, images, (2, 2)), labels).flatten(2)


def _of_classes(drops: Tensor, labels: Tensor) -> Tensor:
    """Of the drops of all classes those that are asked for."""
    return drops[torch.arange(len(labels))[:, None], labels.to(drops.device)]


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
