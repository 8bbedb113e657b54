"""Explanations of a reader of planted images, scored: recorded, or of one that was trained here."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

import vitbook
from vitbook import datasets, runs
from vitbook.analysis import (
    EXPLANATIONS,
    deletion,
    null_explanations,
    pointing,
    score_explanations,
    score_rows,
)
from vitbook.analysis.attribution.scoring import SCORES, TWIN, beside_twin, mean_interval
from vitbook.extras import from_extra
from vitbook.models.catalog import fresh_twin
from vitbook.runs.measuring import Sheet, measurement
from vitbook.runs.tables import interval
from vitbook.training import AtScale
from vitbook.training.asked import SomeImages

with from_extra("chapters"):
    from scipy.stats import spearmanr

READER = "cluttered_digits-vit_micro_r5_s4_32-cluttered-seed0"
WAYS = ("mean", "black", "imputed")  # what a cell becomes
STEPS = 16  # of deletion, as in the scores
MOST = 355  # held-out images that are explained: all of the digits
FEW = 20  # of them, deleted in three ways where nothing is recorded: to fill holes takes long


class Planted(NamedTuple):
    """Held-out images whose answer has a place.

    Attributes:
        images: as a model takes them.
        targets: the class of what is planted.
        masks: true where it lies.
    """

    images: Float[Tensor, "n channels 32 32"]
    targets: Int64[Tensor, "n"]
    masks: Bool[Tensor, "n 32 32"]


def planted(
    name: str = "cluttered_digits", device: torch.device | str = "cpu", most: int | None = MOST
) -> Planted:
    """The first held-out images of a cluttered data set."""
    test = datasets.load(name, "test")
    masks = datasets.answer_masks(name, "test", len(test))
    each = datasets.normalize(test.images[:most]), test.labels[:most], masks[:most]
    return Planted(*(tensor.to(device) for tensor in each))


@dataclass(frozen=True)
class Scored:
    """What explanations and controls are worth.

    Attributes:
        scores: name -> a row of `vitbook measure score`.
        removed: name -> its areas of deletion in three ways, and its leads over the edges.
    """

    scores: dict[str, dict]
    removed: dict[str, dict]

    def told(self, name: str, score: str) -> str:
        """A score, or lead over the edges, with its 95 % interval over the images."""
        form = (3, "+") if score.endswith("lead") else (2,)
        return span(self.scores[name][score], *form)

    def lead(self, name: str, way: str) -> str:
        """By how much an order beats that of the edges, with its 95 % interval."""
        return span(self.removed[name][f"{way} lead"], 3, "+")

    def words(self, short: dict[str, str]) -> dict[str, str]:
        """For a text, by a short key of each name: "occ-poi", "occ-poi-ci", "occ-twin"."""
        words = {}
        for key, name in short.items():
            for score in self.scores[name].keys() & {*SCORES}:
                words[f"{key}-{score[:3]}"] = f"{self.scores[name][score][0]:.2f}"
                words[f"{key}-{score[:3]}-ci"] = self.told(name, score)
            if twin := self.scores[name].get("twin"):
                words[f"{key}-twin"] = f"{twin[0]:.2f}"
        return words

    def ranks(self) -> dict[str, float]:
        """Rank correlation of all orders, deleted to the mean colour, with another way's."""
        areas = {way: [each[way][0] for each in self.removed.values()] for way in WAYS}
        return {way: float(spearmanr(areas["mean"], areas[way])[0]) for way in WAYS[1:]}


def scored(found: AtScale | None = None, given: Planted | None = None) -> Scored:
    """Of the page's reader as recorded; at scale "gpu" of the one that was trained here.

    Args:
        found: with the role "reader"; by default that of the page.
        given: images that explanations are made of, on its device.
    """
    if found is None or found.scale == "page":
        return Scored(recorded_scores(), _by_name(recorded_removals().rows))
    model, few = found.model("reader"), Planted(*(each[:FEW] for each in given))
    return Scored(_scores(model, given), _by_name(_removals(model, few)))


def recorded_scores(subject: str = READER) -> dict[str, dict]:
    """Name of an explanation -> its recorded scores."""
    (row,) = runs.measurements("explanations", subject)
    return _by_name(row.rows)


def recorded_removals() -> runs.Measurement:
    (row,) = runs.measurements("removals", READER)
    return row


def in_collages(name: str, reads: str) -> str:
    """How often a map of the pretrained ViT points into the quarter of the class asked about."""
    (row,) = runs.measurements("collages", "vit_small_patch14_focus-tiny_imagenet")
    (found,) = (each for each in row.rows if (each["name"], each["reads"]) == (name, reads))
    return span(found["pointing"])


@measurement(
    needs=("chapters", "captum"),
    removals={"order": "{name}"} | {way: f"{{{way}:.3f}}" for way in WAYS},
)
def removals(sheet: Sheet, num_images: SomeImages = None) -> None:
    """Delete cells of digits among clutter, in the order of each explanation, in three ways.

    A cell becomes the mean colour, black, or what is around it.
    """
    sheet.expect(READER)
    model = vitbook.load_checkpoint(READER).model.to(sheet.device)
    given = planted(device=sheet.device, most=num_images)
    settings = {
        "dataset": "cluttered_digits", "split": "test", "pictures": len(given.images),
        "steps": STEPS, "class": "the label", "interval": "bootstrap over images, 95 %",
        "leads": "over the edges",
        "imputed": "each pixel the weighted mean of its neighbours, noise of 0.01",
    }  # fmt: skip
    sheet.write(READER, settings, _removals(model, given))


def _removals(model: nn.Module, given: Planted) -> list[dict]:
    images, targets, masks = given
    orders = {name: explain(model, images, targets) for name, explain in EXPLANATIONS.items()}
    orders |= null_explanations(images, masks, model.grid_size)
    areas = {
        name: {
            way: deletion(model, images, targets, maps, baseline=way, steps=STEPS).areas
            for way in WAYS
        }
        for name, maps in orders.items()
    }
    return [
        {"name": name}
        | {way: mean_interval(each[way]) for way in WAYS}
        | {f"{way} lead": mean_interval(areas["edges"][way] - each[way]) for way in WAYS}
        for name, each in areas.items()
    ]


def _scores(model: nn.Module, given: Planted) -> dict[str, dict]:
    """As `vitbook measure score` has them, of the untrained twin's maps where they point alone."""
    images, targets, masks = given
    fresh, maps, alike, twins = fresh_twin(model).to(images.device), {}, {}, []
    for name, explain in EXPLANATIONS.items():
        (maps[name], twin), alike[name] = beside_twin(explain, model, fresh, images, targets)
        told = mean_interval(pointing(twin, masks).cpu())
        twins.append({"name": f"{name}, {TWIN}", "pointing": told})
    maps |= null_explanations(images, masks, model.grid_size)
    rows = score_rows(score_explanations(model, images, targets, masks, maps, steps=STEPS))
    return _by_name([*({"twin": alike.get(row["name"])} | row for row in rows), *twins])


def _by_name(rows: Iterable[dict]) -> dict[str, dict]:
    return {row["name"]: row for row in rows}


def span(values: list[float] | None, digits: int = 2, sign: str = "") -> str:
    """A mean and its interval; empty where there is none."""
    return "" if values is None else interval(values, f"{sign}.{digits}f")
