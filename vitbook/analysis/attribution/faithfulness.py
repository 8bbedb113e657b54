"""Is an explanation right: by what the model does without it, and with it alone."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.analysis.attribution.baselines import Baseline, baseline_images, check_answer
from vitbook.analysis.attribution.captum_maps import asked_targets
from vitbook.analysis.attribution.imputation import impute
from vitbook.analysis.capture.layout import pixels_per_patch, pixels_per_token
from vitbook.analysis.capture.running import batches, logits_of, takes_images
from vitbook.errors import is_whole_number
from vitbook.model_utilities import evaluating

IMPUTED = "imputed"


@dataclass(frozen=True)
class Curve:
    """How sure the model is of a class while cells of the image go, or come.

    Attributes:
        shares: of the cells that are gone, or there; from 0 to 1.
        scores: probability of the class.
    """

    shares: Float[Tensor, "points"]
    scores: Float[Tensor, "batch points"]

    @property
    def areas(self) -> Float[Tensor, "batch"]:
        """Under each curve, by trapezoids; 0 to 1."""
        return torch.trapezoid(self.scores, self.shares.to(self.scores))


@takes_images()
def deletion(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"] | None,
    maps: Float[Tensor, "batch rows columns"],
    *,
    baseline: Baseline = "mean",
    steps: int = 16,
    batch_size: int = 64,
) -> Curve:
    """Take cells away, those that the explanation names first; a low area is a good one.

    Petsiuk et al. 2018, "RISE". Where an explanation says the same of several cells, they go in
    one fixed random order, the same for all images and explanations.

    Args:
        model: gives logits, "batch classes"; left as it came.
        images: as the model takes them.
        targets: the class that was asked about, of each image; None is what the model says of it.
        maps: the explanation, a number for each cell of any grid that divides the image: a
            patch, or a pixel.
        baseline: what a cell becomes, as in :func:`~.baselines.baseline_images`; or "imputed",
            filled in from what is left (:func:`~.imputation.impute`).
        steps: steps in which all cells are taken away; from 1 to the number of cells. The curve has
            ``steps + 1`` points.
        batch_size: images that the model is given at once.

    Raises:
        ValueError: maps that are NaN, not one for each image or not on such a grid; what
            :func:`~.attribution.integrated_gradients` refuses.

    Example:
        >>> import vitbook
        >>> from vitbook.analysis import deletion, relevance
        >>> from vitbook.datasets import load, normalize
        >>> model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
        >>> images = normalize(load("digits", "test").images[:5])
        >>> curve = deletion(model, images, None, relevance(model, images))
        >>> tuple(curve.scores.shape), tuple(curve.areas.shape)
        ((5, 17), (5,))
    """
    return _curve(model, images, targets, maps, baseline, steps, batch_size, come=False)


@takes_images()
def insertion(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"] | None,
    maps: Float[Tensor, "batch rows columns"],
    *,
    baseline: Baseline = "blur",
    steps: int = 16,
    batch_size: int = 64,
) -> Curve:
    """Bring cells back into an image of nothing, in the same order; a high area is a good one.

    Arguments, order and errors are those of :func:`deletion`.
    """
    return _curve(model, images, targets, maps, baseline, steps, batch_size, come=True)


@dataclass(frozen=True)
class Interval:
    """A mean over images, and where it may lie."""

    mean: float
    low: float
    high: float


def bootstrap_interval(
    values: Float[Tensor, "images"], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """The mean with its interval by the bootstrap: images drawn again, with replacement.

    Percentiles of the means (Efron 1979). For two explanations of the same images give the
    difference, image by image.

    Raises:
        ValueError: no values, or a level that is no share.
    """
    if not len(values) or not 0 < level < 1:
        raise ValueError(
            f"{len(values)} values at level {level}: expected at least one, and a level between "
            "0 and 1"
        )
    generator = torch.Generator().manual_seed(seed)
    values = values.detach().cpu().double()
    means = [
        values[torch.randint(len(values), values.shape, generator=generator)].mean()
        for _ in range(resamples)
    ]
    edges = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    low, high = torch.stack(means).quantile(edges).tolist()
    return Interval(values.mean().item(), low, high)


def order(maps: Float[Tensor, "batch rows columns"]) -> Int64[Tensor, "batch cells"]:
    """The place of each cell in the order of an explanation: 0 is the cell named first."""
    flat = maps.flatten(1)
    cells = flat.shape[1]
    mixed = torch.randperm(cells, generator=torch.Generator().manual_seed(0)).to(flat.device)
    turns = mixed[flat[:, mixed].argsort(dim=1, descending=True, stable=True)]
    places = torch.arange(cells, device=flat.device).expand_as(turns)
    return torch.empty_like(turns).scatter_(1, turns, places)


def _curve(
    model: nn.Module,
    images: Tensor,
    targets: Tensor | None,
    maps: Tensor,
    baseline: Baseline,
    steps: int,
    batch_size: int,
    come: bool,
) -> Curve:
    """Cell by cell from the images to what is without information, or from there."""
    imputed = isinstance(baseline, str) and baseline == IMPUTED
    nothing = images if imputed else baseline_images(images, baseline, model)
    targets = asked_targets(targets, images, model, batch_size)
    check_maps(maps, images)
    cells = maps.shape[1] * maps.shape[2]
    if not is_whole_number(steps) or not 1 <= steps <= cells:
        raise ValueError(
            f"{steps!r} steps over {cells} cells: expected a whole number from 1 to {cells}"
        )
    down, across = pixels_per_patch(model, images, tuple(maps.shape[1:]))
    places = order(maps).view_as(maps).to(images.device)
    places = places.repeat_interleave(down, 1).repeat_interleave(across, 2)[:, None]
    counts = torch.linspace(0, cells, steps + 1, dtype=torch.float64).round().long()
    scores = []
    with torch.no_grad(), evaluating(model):
        for count in counts.tolist():
            gone = places >= count if come else places < count
            if imputed:
                nothing = impute(images, gone[:, 0])
            mixed = torch.where(gone, nothing, images)
            logits = [logits_of(model)(batch) for batch in batches(model, mixed, batch_size)]
            logits = torch.cat(logits)
            check_answer(logits, nothing, images)
            chances = logits.float().softmax(1)
            scores.append(chances.gather(1, targets.to(chances.device)[:, None])[:, 0])
    return Curve(shares=(counts / cells).float(), scores=torch.stack(scores, dim=1))


def check_maps(maps: Tensor, images: Tensor) -> None:
    """Refuse maps that are NaN, not one for each image, or on a grid that does not divide it.

    Raises:
        TypeError: maps that are no tensor.
        ValueError: any of these.
    """
    if not isinstance(maps, Tensor):
        raise TypeError(f"maps came as {type(maps).__name__}: expected a tensor")
    if maps.ndim != 3 or not maps.numel():
        raise ValueError(
            f"maps of shape {tuple(maps.shape)}: expected (images, rows, columns), one cell at "
            "least"
        )
    if len(maps) != len(images):
        raise ValueError(f"{len(maps)} maps for {len(images)} images: expected one for each")
    if maps.isnan().any():
        raise ValueError("maps hold NaN: expected a number for each cell")
    pixels_per_token(images, maps.shape[1:])  # refuses a grid that does not divide the image
