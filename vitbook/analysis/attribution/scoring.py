"""Explanations scored against something known, each beside those that cannot know the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from vitbook.analysis.attention.class_relevance import gradient_rollout, relevance
from vitbook.analysis.attention.rollout import asked_of, attention_rollout
from vitbook.analysis.attribution.attn_lrp import attn_lrp
from vitbook.analysis.attribution.baselines import Baseline
from vitbook.analysis.attribution.captum_maps import integrated_gradients, on_grid, patch_occlusion
from vitbook.analysis.attribution.faithfulness import bootstrap_interval, deletion, insertion
from vitbook.analysis.attribution.grad_cam import map_grad_cam, token_grad_cam
from vitbook.analysis.attribution.guided import guided_backpropagation
from vitbook.analysis.attribution.location import pointing
from vitbook.analysis.attribution.null_maps import centre_maps, edge_maps, random_maps
from vitbook.analysis.attribution.outside import Explanation, as_explanation
from vitbook.analysis.capture.frames import has_attention
from vitbook.analysis.capture.layout import Pair, token_layout
from vitbook.analysis.capture.record import capture_attention
from vitbook.analysis.capture.running import batches, takes_images
from vitbook.extras import from_extra
from vitbook.model_utilities import evaluating

SCORES = ("pointing", "deletion", "insertion")
TWIN = "untrained twin"  # behind the name of an explanation
_AT_ONCE = 32


@dataclass(frozen=True)
class Scores:
    """How right an explanation is, image by image.

    Attributes:
        pointing: 1 where its highest cell lies in the mask; more is better.
        deletion: area under the curve of the class's probability while cells are taken away; less
            is better.
        insertion: the same area while cells are brought back; more is better.
    """

    pointing: Float[Tensor, "images"]
    deletion: Float[Tensor, "images"]
    insertion: Float[Tensor, "images"]


@takes_images()
def last_attention(
    model: nn.Module, images: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, "batch rows columns"]:
    """What the token that the head reads (the class token, most often) reads in the last layer.

    The mean over heads, and over the tokens that are read where they are several.

    Raises:
        ValueError: a model that does not say its grid, or without a head.
        RuntimeError: no attention that :func:`vitbook.analysis.capture_attention` knows ran.
    """
    grid_size, prefix = token_layout(model, images, grid_size=None, num_prefix_tokens=None)
    ask, found = asked_of(model, images, grid_size, prefix, None), []
    with torch.no_grad(), evaluating(model):
        for batch in batches(model, images, _AT_ONCE):
            with capture_attention(model, reduce=lambda map: map.mean(1)) as maps:
                model(batch)
            last = list(maps.values())[-1]
            row = torch.einsum("b q, b q k -> b k", ask(last), last)[:, prefix:]
            found.append(row.unflatten(1, grid_size))
    return torch.cat(found)


EXPLANATIONS: Mapping[str, Explanation] = {
    "rollout": lambda model, images, _: attention_rollout(model, images, batch_size=_AT_ONCE),
    "gradient rollout": lambda model, images, targets: gradient_rollout(
        model, images, targets, batch_size=_AT_ONCE
    ),
    "relevance": lambda model, images, targets: relevance(
        model, images, targets, batch_size=_AT_ONCE
    ),
    "AttnLRP": attn_lrp,
    "last attention": lambda model, images, _: last_attention(model, images),
    "integrated gradients": integrated_gradients,
    "occlusion": patch_occlusion,
    "Grad-CAM": token_grad_cam,
    "Grad-CAM, no mean": lambda model, images, targets: token_grad_cam(
        model, images, targets, per_place=True
    ),
}

# What a convolutional network has: of these, those that ask for no attention, and one for ReLUs.
CNN_EXPLANATIONS: Mapping[str, Explanation] = {
    "integrated gradients": integrated_gradients,
    "occlusion": patch_occlusion,
    "guided backpropagation": guided_backpropagation,
    "Grad-CAM": map_grad_cam,
    "Grad-CAM, no mean": partial(map_grad_cam, per_place=True),
}


def explanations_of(model: nn.Module) -> Mapping[str, Explanation]:
    """:data:`EXPLANATIONS` of a model with attention, else :data:`CNN_EXPLANATIONS`."""
    return EXPLANATIONS if has_attention(model) else CNN_EXPLANATIONS


@takes_images()
def null_explanations(
    images: Float[Tensor, "batch channels height width"],
    masks: Bool[Tensor, "batch height width"],
    grid_size: Pair,
) -> dict[str, Float[Tensor, "batch rows columns"]]:
    """Baselines made without the model: "edges", "centre", "random" and "the mask".

    "the mask" counts the pixels of the answer in each patch: it shows what score the right place
    reaches without any knowledge of the model.
    """
    return {
        "edges": edge_maps(images, grid_size),
        "centre": centre_maps(len(images), grid_size),
        "random": random_maps(len(images), grid_size),
        "the mask": on_grid(masks.float(), grid_size),
    }


@takes_images()
def score_explanations(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"],
    masks: Bool[Tensor, "batch height width"],
    maps: Mapping[str, Float[Tensor, "batch rows columns"] | Any],
    *,
    removed: Baseline | None = None,
    steps: int = 16,
    batch_size: int = 64,
) -> dict[str, Scores]:
    """Each explanation by where it points, and by what the model does along its order.

    The three scores are :func:`~.location.pointing` without tolerance, the area of
    :func:`~.faithfulness.deletion` with the mean colour as baseline, and the area of
    :func:`~.faithfulness.insertion` with the blurred image as baseline.

    Args:
        model: gives logits, "batch classes"; left as it came.
        images: as the model takes them.
        targets: the class that was asked about, of each image.
        masks: true where the answer lies.
        maps: name -> a number for each cell; or what makes them, any explainer that
            :func:`~.outside.as_explanation` takes, as ``captum.attr.Saliency``.
        removed: what is not there, in both curves, instead of these two: "black", "mean", "blur",
            "imputed" or what :func:`~.faithfulness.deletion` takes.
        steps: of the curves.
        batch_size: images that the model is given at once.

    Raises:
        ValueError: no map; what the three scores refuse, with the explanation's name.
        TypeError, ValueError: an explainer as in :func:`~.outside.as_explanation`.
    """
    if not maps:
        raise ValueError("no explanation came: expected at least one, name -> maps")
    given = {"steps": steps, "batch_size": batch_size}
    if removed is not None:
        given["baseline"] = removed
    scores = {}
    for name, map in maps.items():
        if not isinstance(map, Tensor):
            map = as_explanation(map, name)(model, images, targets)
        try:
            scores[name] = Scores(
                pointing(map, masks).cpu(),
                deletion(model, images, targets, map, **given).areas.cpu(),
                insertion(model, images, targets, map, **given).areas.cpu(),
            )
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return scores


def score_rows(scores: Mapping[str, Scores], against: str = "edges") -> list[dict]:
    """A line for each explanation: mean, low and high of each score, and of its lead.

    Each number is [mean, low, high] with the 95 % interval of
    :func:`~.faithfulness.bootstrap_interval`. "pointing lead" and so on are the differences to the
    explanation ``against``, image by image, with the sign chosen so that a lead above 0 means a
    better score. "pointing wins" and so on are one number each: the share of images where the
    explanation is better than ``against``, a draw counted half. They show when a mean rests on a
    few images.

    Raises:
        KeyError: no scores of ``against``.
    """
    if against not in scores:
        raise KeyError(f"no scores of {against!r}: expected one of {', '.join(scores)}")
    rows = []
    for name, scored in scores.items():
        row = {"name": name}
        for score in SCORES:
            own, other = getattr(scored, score), getattr(scores[against], score)
            sign = -1 if score == "deletion" else 1
            row[score] = mean_interval(own)
            lead = sign * (own - other)
            row[f"{score} lead"] = mean_interval(lead)
            row[f"{score} wins"] = round(((lead.sign() + 1) / 2).mean().item(), 4)
        rows.append(row)
    return rows


def rank_correlation(
    maps: Float[Tensor, "images rows columns"], others: Tensor
) -> Float[Tensor, "images"]:
    """Spearman's correlation of the cells of two maps, image by image; NaN where one is even.

    Between a model's maps and those of random weights it is the sanity check of Adebayo et al.
    2018, "Sanity checks for saliency maps": an explanation of what was learned changes.

    Raises:
        ModuleNotFoundError: SciPy is not installed.
        ValueError: maps of another shape.
    """
    if maps.shape != others.shape:
        raise ValueError(
            f"maps of {tuple(maps.shape)} and {tuple(others.shape)}: expected one shape"
        )
    with from_extra("data"):
        from scipy.stats import rankdata
    ranks = [
        torch.from_numpy(rankdata(each.flatten(1).double().cpu(), axis=1))
        for each in (maps, others)
    ]
    one, other = (each - each.mean(1, keepdim=True) for each in ranks)
    return ((one * other).sum(1) / (one.norm(dim=1) * other.norm(dim=1))).float()


def beside_twin(
    explain: Explanation,
    model: nn.Module,
    twin: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"],
) -> tuple[tuple[Float[Tensor, "batch rows columns"], Tensor], list[float] | None]:
    """Maps of a model and of its twin with fresh weights, and how alike their cells are ranked.

    Returns:
        Both maps; the mean of :func:`rank_correlation` with signs left out, as
        :func:`mean_interval` gives it, or None where a map of every image is even.
    """
    own, fresh = explain(model, images, targets), explain(twin, images, targets)
    alike = rank_correlation(own.abs(), fresh.abs())
    alike = alike[alike.isfinite()]
    return (own, fresh), mean_interval(alike) if len(alike) else None


def mean_interval(values: Float[Tensor, "images"]) -> list[float]:
    """[mean, low, high] of :func:`~.faithfulness.bootstrap_interval`, to four places."""
    found = bootstrap_interval(values)
    return [round(number, 4) for number in (found.mean, found.low, found.high)]
