"""Explanations of a checkpoint, scored on images whose answer is known."""

from itertools import product
from typing import Annotated

import typer
from torch import nn

from vitbook import datasets
from vitbook.analysis.attribution.outside import as_explanation, load_explainer
from vitbook.analysis.attribution.scoring import (
    SCORES,
    TWIN,
    beside_twin,
    explanations_of,
    null_explanations,
    score_explanations,
    score_rows,
)
from vitbook.colors import OURS, colors_of
from vitbook.datasets.cluttered import CLUTTERED
from vitbook.errors import UnknownNameError
from vitbook.models.catalog import fresh_twin
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import SomeImages, check_each_once, stem
from vitbook.training.engine.evaluation import as_pixels
from vitbook.training.faults import load_checkpoint

STEPS = 16
REMOVED = ("black", "mean", "blur", "imputed")


@measurement(
    needs=("chapters", "captum"),
    explanations={"explanation": "{name}"} | {each: f"{{{each}:.3f}}" for each in SCORES},
)
def score(
    sheet: Sheet,
    checkpoint: Annotated[
        str, typer.Argument(help="A file that `vitbook train` wrote, or one of the book's own.")
    ],
    beside: Annotated[
        str | None,
        typer.Option(help="Another checkpoint of the same data, for example of a CNN."),
    ] = None,
    against: Annotated[
        str, typer.Option(help="The explanation that the leads of the others are counted from.")
    ] = "edges",
    explainer: Annotated[
        list[str] | None,
        typer.Option(
            help="One of your own, as module:function; may be given several times. A class of "
            "Captum's (captum.attr:Saliency), a function (model, images, targets) -> maps, or a "
            "function (model) -> an object of Captum's or of pytorch-grad-cam's.",
        ),
    ] = None,
    removed: Annotated[
        str | None,
        typer.Option(
            help="What is not there while cells go and come: black, mean, blur or imputed (filled "
            "in from what is left). By default, cells go to the mean colour and come into a blur."
        ),
    ] = None,
    num_images: SomeImages = None,
) -> None:
    """Score explanations of a checkpoint by pointing, deletion and insertion, beside nulls.

    Explanations of another checkpoint are scored on that model, and have its name behind theirs;
    leads are then counted by pointing alone. Explainers of your own stand beside the book's, with
    the same controls.
    """
    own = {each: as_explanation(load_explainer(each), each) for each in explainer or []}
    check_each_once(explainer or [])
    asked = [checkpoint] if beside is None else [checkpoint, beside]
    names = [stem(each) for each in asked]
    check_each_once(names)
    if removed not in (None, *REMOVED):
        raise UnknownNameError("baseline", removed, REMOVED)
    subject = "-with-".join(["-beside-".join(names), *(each.replace(":", ".") for each in own)])
    subject += f"-removed-{removed}" if removed else ""
    sheet.expect(subject)
    models, learned = _of_one_data_set(asked)
    device = sheet.device
    split = datasets.held_out_split(learned)
    held_out = datasets.load(learned, split)
    images = as_pixels(held_out.images[:num_images], models[0].to(device))
    masks = datasets.answer_masks(learned, split, len(images))
    targets = held_out.labels[:num_images].to(device)
    nulls = null_explanations(images, masks.to(device), models[0].grid_size)
    for file, model in zip(asked, models, strict=True):
        _check_fits(file, model, held_out)
    subjects = dict(zip(["", *(f", {name}" for name in names[1:])], models, strict=True))
    explained = {of: {**explanations_of(model), **own} for of, model in subjects.items()}
    known = [f"{name}{of}" for of, explanations in explained.items() for name in explanations]
    every = [*known, *(f"{name}, {TWIN}" for name in known), *nulls]
    if len(set(every)) < len(every):
        raise ValueError(f"{names[1]} is called as an explanation is: rename the file")
    if against not in every:
        raise UnknownNameError("explanation", against, every)
    scores, likeness = {}, {}
    for of, model in subjects.items():
        model, fresh = model.to(device), fresh_twin(model).to(device)
        maps = {}
        for name, explain in explained[of].items():
            typer.echo(f"{name}{of} of {len(images)} images", err=True)
            both, likeness[f"{name}{of}"] = beside_twin(explain, model, fresh, images, targets)
            maps |= dict(zip((f"{name}{of}", f"{name}{of}, {TWIN}"), both, strict=True))
        maps |= nulls if model is models[0] else {}
        scores |= score_explanations(
            model, images, targets, masks, maps, removed=removed, steps=STEPS
        )
    rows = [
        {"knows_model": row["name"] in known, "twin": likeness.get(row["name"])} | row
        for row in score_rows(scores, against)
    ]
    if beside is not None:  # how sure two models are cannot be compared, only where they point
        for row, key in product(rows, ("deletion", "insertion")):
            row |= {f"{key} lead": None, f"{key} wins": None}
    settings = {
        "dataset": learned, "split": split, "pictures": len(images), "against": against,
        "steps": STEPS,
        "deletion": f"to {removed}" if removed else "to the mean colour",
        "insertion": f"from {removed}" if removed else "from the blurred image",
        "pointing": "without tolerance", "class": "the label", "interval": "bootstrap, 95 %",
        "untrained twin": "fresh weights, seed 0",
        "twin": "rank correlation with its cells, signs left out, where neither map is even",
    }  # fmt: skip
    sheet.write(subject, settings, rows)


def _check_fits(file: str, model: nn.Module, data: datasets.Dataset) -> None:
    """Refuse a checkpoint for other images or classes, before any is explained."""
    spec, (channels, height, width) = model.spec, data.images.shape[1:]
    takes = (spec.channels, spec.image_size, spec.num_classes)
    expected = (channels, height if height == width else (height, width), data.num_classes)
    if takes != expected:
        raise ValueError(
            f"{file} takes {takes[0]} channels of {takes[1]} px and {takes[2]} classes: expected "
            "{} channels of {} px and {} classes".format(*expected)
        )


def _of_one_data_set(checkpoints: list[str]) -> tuple[list[nn.Module], str]:
    """The models, and the name of what they learned from.

    Raises:
        ValueError: data without masks, or two that differ.
    """
    models, sources = [], []
    for checkpoint in checkpoints:
        loaded = load_checkpoint(checkpoint)
        learned = loaded.provenance.get("dataset", "what it does not say")
        if learned not in CLUTTERED:
            raise ValueError(
                f"{checkpoint} learned from {learned}, whose images do not say where their answer "
                f"lies: expected a checkpoint of {', '.join(CLUTTERED)}"
            )
        models.append(loaded.model)
        sources.append(learned)
    if len({*sources}) > 1:
        told = " and ".join(sources)
        raise ValueError(f"the two learned from {told}: expected checkpoints of one data set")
    if len({colors_of(model) or OURS for model in models}) > 1:
        raise ValueError("the two take their colours differently: score each alone")
    return models, sources[0]
