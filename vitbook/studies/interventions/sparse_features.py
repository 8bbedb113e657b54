"""Features of a sparse autoencoder on a pretrained ViT's tokens, and whether they steer it."""

from typing import Annotated

import torch
import typer
from jaxtyping import Float, Int64
from torch import Tensor, nn
from tqdm import tqdm

from vitbook import datasets
from vitbook.analysis.capture.outputs import outputs_of
from vitbook.blocks import find_layer, list_blocks
from vitbook.datasets.resizing import resize
from vitbook.models.catalog import fresh_twin
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.interventions.causes import Model, load_among, of_classes
from vitbook.studies.interventions.classes import CLASSES, DATASET, SIZE
from vitbook.studies.interventions.head_sets import answers_from, interval_of
from vitbook.training.asked import stem
from vitbook.training.transfer.sparse_autoencoder import SparseFit, fit_sparse_autoencoder

TAUGHT, ASKED = 25, 10  # training and held-out images of each class
TOP = 20  # images that use a feature most, of which the commonest class is counted
AT_ONCE = 10
TIMES = (1, 4)  # as strong as the feature is where its class uses it


@measurement(
    sparse={"weights": "{weights}", "variance": "{explained:.3f}", "dead": "{dead:.3f}",
            "same class": "{features:.3f}", "of a channel": "{channels:.3f}",
            "of a principal direction": "{principal:.3f}"},
    steered={"direction": "{direction}", "times": "{times}", "own": "{own}", "first": "{first}"},
)  # fmt: skip
def sparse_features(
    sheet: Sheet,
    features: Annotated[int, typer.Option(min=1, help="Directions of the autoencoder.")] = 1024,
    active: Annotated[int, typer.Option(min=1, help="That a token may use.")] = 8,
    steps: Annotated[int, typer.Option(min=1, help="Of training it.")] = 3000,
    model: Model = "vit_small_patch14_focus",
) -> None:
    """Fit a sparse autoencoder to patch tokens, and push other images along its features."""
    loaded, test, about = load_among(sheet, model)
    subject, path = f"{stem(model)}-{DATASET}", find_layer(loaded.model)
    train = of_classes(datasets.load(DATASET, "train"), CLASSES, TAUGHT)
    asked = of_classes(test, CLASSES, ASKED)
    ready = loaded.normalize(resize(train.images, SIZE))
    bodies = {"learned": loaded.model, "fresh": fresh_twin(loaded.model).to(sheet.device)}
    rows = []
    for name, body in bodies.items():
        tokens = _behind(body, ready, path, name)[:, body.num_prefix_tokens :]
        fit = fit_sparse_autoencoder(tokens.flatten(0, 1), features, active, steps=steps)
        if name == "learned":
            directions = _directions(tokens, fit, train.labels)
        rows.append({"weights": name} | _described(tokens, fit, train.labels))
    about |= {
        "layer": path, "features": features, "active": active, "steps": steps, "fresh": "seed 0",
        "training_images": len(train), "held_out_images": len(asked),
        "explained": "share of the variance of the patch tokens that is rebuilt",
        "same_class": f"of the {TOP} images with the strongest patch for a direction, the share "
        "that is of their commonest class; the mean over directions that have so many",
    }  # fmt: skip
    sheet.write(subject, about, rows)
    images = loaded.normalize(resize(asked.images, SIZE))
    about |= {
        "direction": "feature: the one that the class's images use most beyond all others'; class "
        "mean: its images' mean token less that of all; random: normal numbers, seed 0; all of the "
        "same length, added to each patch token of the other classes' held-out images",
        "own": "rise of the class's logit less the mean of all, over classes",
        "first": "share of images that then are given that class",
        "interval": "bootstrap over classes, 95 %",
    }  # fmt: skip
    rows = _steered(loaded.model, images, asked.labels, path, directions)
    sheet.write(subject, about, rows, "steered")


def _behind(
    body: nn.Module, images: Tensor, path: str, name: str
) -> Float[Tensor, "images tokens width"]:
    place = next(body.parameters()).device
    found = [
        outputs_of(body, batch.to(place), (path,), lambda _, out: out.cpu())[path]
        for batch in tqdm(images.split(AT_ONCE), desc=name)
    ]
    return torch.cat(found)


@torch.no_grad()
def _described(
    tokens: Float[Tensor, "images patches width"], fit: SparseFit, labels: Int64[Tensor, "images"]
) -> dict[str, float]:
    centred = tokens - tokens.flatten(0, 1).mean(0)
    flat = centred.flatten(0, 1)
    principal = torch.linalg.eigh(flat.T @ flat).eigenvectors
    used = {
        "features": torch.stack([fit.model.encode(image).amax(0) for image in tokens]),
        "channels": centred.amax(1),
        "principal": (centred @ principal).amax(1),
    }
    return {"explained": fit.explained, "dead": fit.dead} | {
        name: _same_class(strength, labels) for name, strength in used.items()
    }


def _same_class(strength: Float[Tensor, "images n"], labels: Int64[Tensor, "images"]) -> float:
    top = strength.topk(TOP, dim=0)
    shares = [
        labels[rows].bincount().max().item() / TOP
        for rows, values in zip(top.indices.T, top.values.T, strict=True)
        if values[-1] > 0
    ]
    if not shares:
        raise ValueError(
            f"no direction is used by {TOP} of {len(labels)} images: ask for more steps, or for "
            "fewer features"
        )
    return sum(shares) / len(shares)


@torch.no_grad()
def _directions(
    tokens: Float[Tensor, "images patches width"], fit: SparseFit, labels: Int64[Tensor, "images"]
) -> dict[str, Float[Tensor, "classes width"]]:
    """By name: what is added for each class."""
    codes = torch.stack([fit.model.encode(image) for image in tokens])
    of_images, flat = codes.mean(1), tokens.flatten(0, 1)
    generator = torch.Generator().manual_seed(0)
    found: dict[str, list[Tensor]] = {"feature": [], "class mean": [], "random": []}
    for label in labels.unique():
        own = labels == label
        best = (of_images[own].mean(0) - of_images[~own].mean(0)).argmax()
        strengths = codes[own][..., best]
        if not strengths.any():
            raise ValueError(
                f"the images of class {int(label)} use no feature more than the others do: ask for "
                "more features or steps"
            )
        feature = fit.model.unit * strengths[strengths > 0].mean() * fit.model.directions[best]
        mean = tokens[own].flatten(0, 1).mean(0) - flat.mean(0)
        noise = torch.randn(flat.shape[1], generator=generator)
        found["feature"].append(feature)
        for name, other in (("class mean", mean), ("random", noise)):
            found[name].append(other * feature.norm() / other.norm())
    return {name: torch.stack(each) for name, each in found.items()}


def pushed_answers(
    model: nn.Module,
    tokens: Float[Tensor, "images tokens width"],
    first: int,
    direction: Float[Tensor, "width"] | float = 0.0,
) -> Float[Tensor, "images classes"]:
    """Answers to the tokens in front of a block, after ``direction`` came to each patch token."""
    prefix, place = model.num_prefix_tokens, next(model.parameters()).device
    direction = torch.as_tensor(direction, device=place)
    found = []
    for batch in tokens.to(place).split(AT_ONCE):
        pushed = torch.cat([batch[:, :prefix], batch[:, prefix:] + direction], dim=1)
        found.append(answers_from(model, pushed, first).to(tokens.device))
    return torch.cat(found)


@torch.no_grad()
def _steered(
    model: nn.Module,
    images: Tensor,
    labels: Int64[Tensor, "images"],
    path: str,
    directions: dict[str, Float[Tensor, "classes width"]],
) -> list[dict]:
    tokens, first = _behind(model, images, path, "asked"), list_blocks(model).index(path) + 1
    plain, rows = pushed_answers(model, tokens, first), []
    for name, ways in directions.items():
        for times in TIMES:
            rises, firsts = [], []
            for label, way in enumerate(tqdm(ways, desc=f"{name} x {times}")):
                others = labels != label
                found = pushed_answers(model, tokens[others], first, times * way)
                change = found - plain[others]
                rises.append((change[:, label] - change.mean(1)).mean())
                firsts.append((found.argmax(1) == label).float().mean())
            own, named = interval_of(torch.stack(rises)), interval_of(torch.stack(firsts))
            rows.append({"direction": name, "times": times, "own": own, "first": named})
    return rows
