"""``vitbook measure flexible``: a patch size drawn for every step, beside fixed ones."""

from dataclasses import replace
from typing import Annotated

import torch
import torch.nn.functional as F
import typer
from torch import Tensor
from tqdm import tqdm

from vitbook import datasets
from vitbook.models import VisionTransformer
from vitbook.models.papers.vit import CIFAR10, MINI_BODY, vit
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.any_size.packing import embed_any

PATCHES, ASKED_WITH, BASE = (8, 16), (4, 8, 16), 8
ARMS = {f"always {patch}": (patch,) for patch in PATCHES} | {"drawn": PATCHES}
BODY = replace(MINI_BODY, width=48, num_heads=3, mlp_width=96)
BATCH, RATE, DECAY, ASKED = 64, 2e-3, 0.05, 1000
DATASET = "cifar10"


def logits(model: VisionTransformer, images: Tensor, patch: int) -> Tensor:
    """ "batch classes", in patches of this size."""
    return model.head(model.encoder(embed_any(model, datasets.normalize(images), patch)))


def learn(
    train: datasets.Dataset, patches: tuple[int, ...], steps: int, seed: int, name: str
) -> VisionTransformer:
    """A small ViT that learned for so many steps; each draws one of the patch sizes.

    AdamW; the rate rises for 10 % of the steps, then falls to zero in a line. The seed decides
    first weights, batches and patches: runs of one seed see the same images in the same order.
    """
    torch.manual_seed(seed)
    model = vit(**CIFAR10 | dict(patch_size=BASE, body=BODY))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
    )
    dice, sizes = (torch.Generator().manual_seed(seed + more) for more in (0, 1000))
    for _ in tqdm(range(steps), desc=name, mininterval=10):
        chosen = torch.randint(len(train), (BATCH,), generator=dice)
        patch = patches[int(torch.randint(len(patches), (), generator=sizes))]
        loss = F.cross_entropy(logits(model, train.images[chosen], patch), train.labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@measurement(
    flexible={"learned with": "{arm}", "seed": "{seed}", "asked with": "{patch}",
              "right": "{accuracy:.1%}"},
)  # fmt: skip
def flexible(
    sheet: Sheet,
    steps: Annotated[int, typer.Option(min=1, help="Of each run.")] = 1000,
    seeds: Annotated[int, typer.Option(min=1, help="Of each way to learn, from 0 on.")] = 3,
) -> None:
    """Train small ViTs with one patch size, or with one drawn for every step; ask all sizes."""
    sheet.expect(DATASET)
    train, test = datasets.load(DATASET, "train"), datasets.load(DATASET, "test")
    images, labels = test.images[:ASKED], test.labels[:ASKED]

    def rows_of(arm: str, seed: int) -> list[dict]:
        model, rows = learn(train, ARMS[arm], steps, seed, f"{arm}, seed {seed}"), []
        for patch in ASKED_WITH:
            with torch.no_grad():
                parts = [logits(model, each, patch).argmax(1) for each in images.split(250)]
            right = (torch.cat(parts) == labels).float().mean().item()
            rows.append({"arm": arm, "seed": seed, "patch": patch, "accuracy": round(right, 4)})
        return rows

    rows = [row for seed in range(seeds) for arm in ARMS
            for row in sheet.once(f"{arm} {seed}", rows_of, arm, seed)]  # fmt: skip
    about = {
        "dataset": "CIFAR-10 (JPEG copy)", "steps": steps, "batch": BATCH, "asked": len(labels),
        "model": f"width {BODY.width}, depth {BODY.depth}, one kernel of {BASE} x {BASE} pixels "
        "and 4 x 4 positions, resized in every step",
        "optimizer": f"AdamW, rate {RATE:g}, 10 % warm-up, linear to zero",
    }  # fmt: skip
    sheet.write(DATASET, about, rows)
