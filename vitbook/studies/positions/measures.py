"""What the chapter on positions measures."""

from math import isfinite

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from torch import Tensor, nn

import vitbook
from vitbook import datasets
from vitbook.analysis import mirror_similarity, position_tables
from vitbook.figures.patch_shuffle import rearranged
from vitbook.layers import RotaryPosition2D
from vitbook.models.weights.pretrained import Pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import Checkpoints, check_each_once, stem
from vitbook.training.faults import load_checkpoint

SIZES = (6, 8, 10, 12, 16)  # pixels, of digits that were learned with 8


@measurement(
    mirrors={"run": "{run}", "left and right": "{across:.3f}", "top and bottom": "{down:.3f}"}
)
def mirrors(sheet: Sheet, checkpoints: Checkpoints) -> None:
    """Score the mirror in a table of positions, left and right, and top and bottom.

    The score is the mean cosine of positions that mirror each other, minus that of others as far
    apart.
    """
    names = [stem(each) for each in checkpoints]
    check_each_once(names)
    loaded = [load_checkpoint(each) for each in checkpoints]
    subject = loaded[0].provenance.get("dataset", "digits")
    sheet.expect(subject)
    rows = []
    for name, each in zip(names, loaded, strict=True):
        try:
            across, down = (mirror_score(each.model, upside_down=down) for down in (False, True))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        rows.append({"run": name, "model": each.model.spec.name, "across": across, "down": down})
    settings = {"score": "mean cosine of mirrored positions, minus that of others as far apart"}
    sheet.write(subject, settings, rows)


def mirror_score(model: nn.Module, upside_down: bool) -> float:
    """Of the one table of a model.

    Raises:
        ValueError: none, more than one, or one whose positions mirror nothing.
    """
    tables = position_tables(model)
    if len(tables) > 1:
        raise ValueError(f"{len(tables)} tables of positions: expected one, at the stem")
    (table,) = tables.values()
    found = mirror_similarity(*table, upside_down=upside_down)
    if not isfinite(found.mirrored - found.others):
        raise ValueError("positions without a direction, such as zeros: they mirror nothing")
    return round(found.mirrored - found.others, 5)


def lines_of_sizes(rows: list[dict]) -> list[dict[str, str]]:
    return [
        {"run": row["run"], "way": row["way"]}
        | {f"{size} px": f"{read:.1%}" for size, read in zip(SIZES, row["accuracy"], strict=True)}
        for row in rows
    ]


@measurement(resolutions=lines_of_sizes)
def resolutions(sheet: Sheet, checkpoints: Checkpoints) -> None:
    """Say how many digits models read that are larger or smaller than those that they learned.

    Tables are interpolated and angles stretched over the new grid; angles are continued, too. The
    control shuffles the patches, all images alike, as if each token had another position.
    """
    names = [stem(each) for each in checkpoints]
    check_each_once(names)
    sheet.expect("digits")
    test = datasets.load("digits", "test")
    rows = []
    for name, checkpoint in zip(names, checkpoints, strict=True):
        models = [load_checkpoint(checkpoint, image_size=(size, size)).model for size in SIZES]
        learned = load_checkpoint(checkpoint).model.grid_size
        about = {"run": name, "model": models[0].spec.name}
        ways = {"carried": [share_read(model, test) for model in models]}
        ways["shuffled"] = [share_read(model, test, shuffled=True) for model in models]
        if any(isinstance(part, RotaryPosition2D) for part in models[0].modules()):
            ways["continued"] = [share_read(continued(model, learned), test) for model in models]
        rows += [about | {"way": way, "accuracy": shares} for way, shares in ways.items()]
    settings = {"sizes": list(SIZES), "images": len(test), "enlarged": "bilinear, antialiased"}
    sheet.write("digits", settings, rows)


@torch.no_grad()
def share_read(model: nn.Module, test: datasets.Dataset, shuffled: bool = False) -> float:
    """Of images enlarged, or made smaller, to the model's size."""
    size, (rows, columns) = model.spec.image_size, model.grid_size
    images = F.interpolate(test.images.float(), size, mode="bilinear", antialias=True)
    if shuffled:
        order = torch.randperm(rows * columns, generator=torch.Generator().manual_seed(0))
        patches = rearrange(images, "n c (r p) (k q) -> n (r k) c p q", r=rows, k=columns)
        images = rearrange(patches[:, order], "n (r k) c p q -> n c (r p) (k q)", r=rows)
    model, device = model.eval(), next(model.parameters()).device
    batches = (batch.to(device) / 127.5 - 1 for batch in images.split(500))
    answers = torch.cat([model(batch).argmax(1).cpu() for batch in batches])
    return round((answers == test.labels).float().mean().item(), 6)


def continued(model: nn.Module, learned: tuple[int, int]) -> nn.Module:
    """The model, its angles now in steps as large as on the grid that it learned on."""
    for part in model.modules():
        if isinstance(part, RotaryPosition2D):
            grid = part.grid_size
            part.resize(learned)
            part.resize(grid, "continued")
    return model


@torch.no_grad()
def changes(
    photo: Tensor, order: list[int], told: Float[Tensor, "65 1"] | int
) -> tuple[float, float]:
    """How far the logits, and the token of a patch, go when the patches of a photograph move.

    Args:
        photo: "3 32 32" of uint8.
        order: of its 64 patches.
        told: by what the table's rows are multiplied: 0 tells nothing.

    Returns:
        Largest change of a logit, and of a number of the token that was patch 11.
    """
    model = vitbook.load_checkpoint("cifar10-vit_mini_patch4_32-quick-seed0").model.double()
    model.position.table.mul_(told)
    both = torch.stack([photo, rearranged(photo, order, (8, 8))])
    tokens = model.features(datasets.normalize(both).double())
    logits, patches, patch = model.head(tokens), tokens[:, 1:], 8 * 1 + 3
    token = patches[1, order.index(patch)] - patches[0, patch]
    return (logits[1] - logits[0]).abs().max().item(), token.abs().max().item()


@torch.no_grad()
def positions_read(real: Pretrained, images: Tensor, order: Tensor) -> dict[str, float]:
    """How far a linear head misses where a token stood, in patches; fitted on other photographs.

    Args:
        real: a ViT with a table.
        images: "n 3 224 224", uint8, two or more.
        order: in which the table's rows of the patches are shuffled.

    Returns:
        With the model's own table; with shuffled rows, its own position; with shuffled rows, the
        position that it was told.
    """
    goal = torch.cartesian_prod(*(torch.arange(float(n)) for n in real.model.grid_size))
    own = real.model.position.table.clone()
    tokens = real.model.features(real.normalize(images))[:, 1:]
    real.model.position.table.copy_(torch.cat([own[:1], own[1:][order]]))
    try:
        shuffled = real.model.features(real.normalize(images))[:, 1:]
    finally:
        real.model.position.table.copy_(own)
    return {
        "its own table, its own position": _misses(tokens, goal),
        "a shuffled table, its own position": _misses(shuffled, goal),
        "a shuffled table, the position told": _misses(shuffled, goal[order]),
    }


def _misses(tokens: Float[Tensor, "n patches width"], goal: Float[Tensor, "patches 2"]) -> float:
    """Mean distance; each image is read by a head that was fitted on the others."""
    missed = []
    for left_out in range(len(tokens)):
        rest = torch.cat([tokens[:left_out], tokens[left_out + 1 :]])
        x, y = rest.flatten(0, 1), goal.repeat(len(rest), 1)
        head = Ridge(alpha=300).fit(x / x.std(0), y)
        read = torch.from_numpy(head.predict(tokens[left_out] / x.std(0)))
        missed.append((read - goal).norm(dim=1).mean().item())
    return sum(missed) / len(missed)


def grey_values_read() -> float:
    """Share of the test digits that a random forest reads from counts of their grey values."""

    def counts(digits: datasets.Dataset) -> Tensor:
        levels = (digits.images.flatten(1) / 255 * 16).round().long()
        return torch.stack([image.bincount(minlength=17) for image in levels])

    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    forest = RandomForestClassifier(100, random_state=0).fit(counts(train), train.labels)
    return forest.score(counts(test), test.labels)
