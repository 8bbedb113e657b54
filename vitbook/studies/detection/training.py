"""The arms of the comparison: each learns for the same number of steps."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from tqdm import tqdm

from vitbook.datasets import normalize
from vitbook.model_utilities import evaluating
from vitbook.studies.detection.average_precision import Found, Judged, duplicates, found_by
from vitbook.studies.detection.canvases import Canvases
from vitbook.studies.detection.detector import Detector, make_detector
from vitbook.studies.detection.matching import (
    NO_OBJECT,
    Match,
    match_best,
    match_from_left,
    set_loss,
)

BATCH, RATE, DECAY, CLIP = 32, 2e-3, 1e-2, 1.0
WARM_UP, COOL_DOWN = 0.05, 0.4  # shares of the steps
SEEN_AT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)  # of the steps, for the curve


@dataclass(frozen=True)
class Arm:
    """One way to learn.

    Attributes:
        make: the detector.
        match: which query tells which object.
        no_object: what "no object" weighs.
        most: objects on a canvas of the training, at most; others are left out.
    """

    make: Callable[[], Detector] = make_detector
    match: Match = match_best
    no_object: float = NO_OBJECT
    most: int | None = None


ARMS = {
    "set loss": Arm(),
    "no matching, from left to right": Arm(match=match_from_left),
    "queries do not meet": Arm(partial(make_detector, mixing=False)),
    "deformable attention": Arm(partial(make_detector, deformable=True)),
    "no object counts nothing": Arm(no_object=0.0),
    "three queries": Arm(partial(make_detector, num_queries=3), most=3),
}


@torch.no_grad()
def detect(model: nn.Module, canvases: Canvases, batch: int = 100) -> list[Found]:
    """What a detector finds on each canvas."""
    device = next(model.parameters()).device
    with evaluating(model):
        parts = [model(normalize(each.to(device))) for each in canvases.images.split(batch)]
    return [found for part in parts for found in found_by(part)]


def learn(
    arm: Arm,
    train: Canvases,
    held_out: Canvases,
    steps: int,
    seed: int,
    device: torch.device,
    name: str = "",
) -> tuple[Detector, list[dict]]:
    """A detector that learned, and its curve: step, loss, ap50 and ap on held-out canvases.

    AdamW; the rate rises for 5 % of the steps and falls to zero over the last 40 %. The seed
    decides the first weights and the batches.
    """
    torch.manual_seed(seed)
    model = arm.make().to(device)
    if arm.most is not None:
        train = train.with_at_most(arm.most)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    dice = torch.Generator().manual_seed(seed)
    curve, seen_at = [], {max(1, round(share * steps)) for share in SEEN_AT}
    for step in tqdm(range(1, steps + 1), desc=name, mininterval=10):
        chosen = torch.randint(len(train), (BATCH,), generator=dice)
        objects = [train.objects[place] for place in chosen]
        answers = model.answers(normalize(train.images[chosen].to(device)))
        losses = [set_loss(each, objects, arm.match, arm.no_object) for each in answers]
        for group in optimizer.param_groups:
            group["lr"] = RATE * _share_of_rate(step, steps)
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        if step in seen_at:
            now = Judged(detect(model, held_out), held_out.objects).precision()
            curve.append({"step": step, "loss": round(losses[-1].item(), 4),
                          "ap50": round(now.ap50, 4), "ap": round(now.ap, 4)})  # fmt: skip
    return model.eval(), curve


def _share_of_rate(step: int, steps: int) -> float:
    return min(1.0, step / (WARM_UP * steps), (steps - step + 1) / (COOL_DOWN * steps))


def outcome(model: Detector, held_out: Canvases) -> dict:
    """Precision with its intervals, duplicates, and the recall that the queries allow."""
    found = detect(model, held_out)
    most = sum(min(len(each), model.num_queries) for each in held_out.objects)
    return Judged(found, held_out.objects).intervals() | {
        "duplicates": round(duplicates(found, held_out.objects), 4),
        "recall_at_most": round(most / sum(map(len, held_out.objects)), 4),
    }


def learned_row(
    name: str, train: Canvases, held_out: Canvases, steps: int, seed: int, device: torch.device,
    keep: Callable[[Detector, dict], object] | None = None,
) -> dict:  # fmt: skip
    """A row of the measurement: an arm, a seed, what came of it and how long it took."""
    start = time.perf_counter()
    model, curve = learn(ARMS[name], train, held_out, steps, seed, device, f"{name}, seed {seed}")
    seconds = round(time.perf_counter() - start)
    row = {"arm": name, "seed": seed, **outcome(model, held_out), "curve": curve,
           "seconds": seconds}  # fmt: skip
    if keep is not None:
        keep(model, row)
    return row
