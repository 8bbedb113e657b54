"""What the chapter on fine-tuning shows: starts, rates, heads that come first, and one palette."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from vitbook import analysis, layers, runs
from vitbook.figures import Candidate
from vitbook.models import create_model
from vitbook.models.weights.pretrained import Pretrained
from vitbook.studies.fine_tuning.checkpoints import candidates
from vitbook.studies.fine_tuning.head_first import Task, features
from vitbook.studies.fine_tuning.ledger import (
    ADAPTERS,
    BODY,
    FRESH_RATE,
    NAME,
    fresh,
    probes,
    tuned,
)
from vitbook.studies.fine_tuning.scores import Agreement, agreement

__all__ = [
    "ADAPTERS",
    "BODY",
    "FRESH_RATE",
    "NAME",
    "Task",
    "accuracy",
    "alike",
    "block_accuracies",
    "body_of",
    "candidates",
    "colors_in",
    "features",
    "head_first_gap",
    "last_loss",
    "pairs_in_order",
    "patch_tokens",
    "probes",
    "three_runs",
    "tunings",
    "ways_of_tuning",
]


def three_runs() -> dict[str, list[float]]:
    """Accuracy after each epoch, in percent, of the three runs of the chapter's puzzle."""
    asked = {"A": tuned(learning_rate=FRESH_RATE), "B": fresh(), "C": tuned()}
    return {
        name: [100 * point["accuracy"] for point in rows[0].curve] for name, rows in asked.items()
    }


def accuracy(**changes: object) -> float:
    """Of seed 0 after four epochs of 735 flowers, in percent; see :func:`.tuned`."""
    return 100 * tuned(**changes)[0].accuracy


def last_loss(**changes: object) -> float:
    """On the training images (crops of them), of seed 0 in its last epoch; see :func:`.tuned`."""
    return tuned(**changes)[0].curve[-1]["loss"]


def tunings(task: Task) -> list[dict]:
    """Ways and rates: as they were measured, or of bodies that are the reader's own, now."""
    if task.found.scale == "page":
        (kept,) = runs.measurements("head_first", "digits")
        return kept.rows
    draws, device = (8 if len(task.found.seeds) > 1 else 2), task.found.device
    return task.rows(draws, lambda *asked: task.asked(*asked, device))


def head_first_gap(rows: list[dict], way: str, other: str, rate: float) -> runs.Difference:
    """What one way of tuning gains on another, on shifted images, in points."""
    read = {row["way"]: row["shifted"] for row in rows if row["rate"] == rate}
    return runs.difference(read[way], read[other], finest=0.05)  # one of 2,000 test images


def ways_of_tuning(rows: list[dict], kind: str) -> dict[str, list[tuple[float, float]]]:
    """Way -> (rate of the body, mean of "shifted", "as_they_are" or "changed")."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        value = row[kind] if isinstance(row[kind], float) else sum(row[kind]) / len(row[kind])
        found.setdefault(row["way"], []).append((row["rate"], value))
    return found


def block_accuracies() -> dict[str, list[float]]:
    """Accuracy of a ridge regression on frozen features, in percent, block by block."""
    (kept,) = runs.measurements("blocks", f"{NAME}-tf_flowers")
    names = {"learned": "pretrained", "fresh": "fresh weights"}
    return {
        name: [100 * row["ridge"][0] for row in kept.rows if row["weights"] == weights]
        for weights, name in names.items()
    }


def pairs_in_order(cards: list[Candidate], score: str | None = None) -> Agreement:
    """Pairs of starts that a score orders as fine-tuning does; by default the alphabet."""
    if score is None:
        first = sorted(cards, key=lambda card: card.name.casefold())
        values = [-first.index(card) for card in cards]
    else:
        values = [card.scores[score] for card in cards]
    return agreement(values, [card.tuned for card in cards])


def body_of(whole: Pretrained, side: int, rows: Tensor | None = None) -> nn.Module:
    """The pretrained body for a grid of ``side`` x ``side`` patches.

    Args:
        rows: a position table to take instead of the resized one.
    """
    position = whole.model.position
    if rows is None:
        rows = layers.resize_positions(position.table.detach(), position.grid_size, (side, side))
    with torch.device("meta"):  # shapes alone, the weights come next
        body = create_model(BODY, image_size=14 * side, num_classes=0).eval()
    body.load_state_dict(whole.model.state_dict() | {"position.table": rows}, assign=True)
    return body


@torch.no_grad()
def patch_tokens(
    whole: Pretrained, body: nn.Module, photos: UInt8[Tensor, "n 3 height width"]
) -> Float[Tensor, "n patches width"]:
    """Tokens behind block 9, before the last blocks collapse, of photographs at the body's size."""
    side = (14 * body.grid_size[0],) * 2
    small = F.interpolate(photos.float(), side, mode="bilinear", antialias=True).round().byte()
    return analysis.layer_tokens(body, whole.normalize(small), 8)[:, 1:]


def alike(
    tokens: Float[Tensor, "n patches width"], reference: Float[Tensor, "n more width"]
) -> float:
    """Mean cosine with the reference's tokens at the same place, its mean taken off both."""
    mean = reference.mean((0, 1))
    side, more = (round(each.shape[1] ** 0.5) for each in (tokens, reference))
    there = reference.transpose(1, 2).unflatten(2, (more, more))
    there = F.interpolate(there, (side, side), mode="bilinear", antialias=True)
    there = there.flatten(2).transpose(1, 2)
    return F.cosine_similarity(tokens - mean, there - mean, dim=-1).mean().item()


def colors_in(
    basis: Float[Tensor, "patches width"], *others: Float[Tensor, "_ width"]
) -> list[UInt8[Tensor, "3 _ _"]]:
    """Tokens of several sizes as square images, coloured by components of the first alone."""
    tokens = torch.cat([basis, *others])[None]
    inside = (torch.arange(tokens.shape[1]) < len(basis))[None]
    found, _ = analysis.principal_tokens(tokens, 3, inside)
    low, high = (found[inside].quantile(share, dim=0) for share in (0.02, 0.98))
    colors = (255 * ((found[0] - low) / (high - low)).clamp(0, 1)).round().byte()
    parts = colors.split([len(each) for each in (basis, *others)])
    sides = [round(len(part) ** 0.5) for part in parts]
    return [
        part.reshape(side, side, 3).permute(2, 0, 1)
        for part, side in zip(parts, sides, strict=True)
    ]
