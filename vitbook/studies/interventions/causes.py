"""What the answers of a pretrained ViT rest on: patched, read early, and taken apart."""

from dataclasses import replace
from typing import Annotated

import torch
import typer
from torch import Tensor, nn

from vitbook import datasets, measure
from vitbook.analysis import list_blocks, logit_contributions, logit_lens, patched_logits
from vitbook.analysis.capture.outputs import outputs_of
from vitbook.datasets.resizing import resize
from vitbook.models.catalog import fresh_twin
from vitbook.models.weights.pretrained import Pretrained, load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.interventions.classes import CLASSES, DATASET, SIZE, among, check_classes
from vitbook.studies.interventions.head_sets import interval_of
from vitbook.studies.interventions.swaps import swapped_logits
from vitbook.training.asked import Seed, stem
from vitbook.training.transfer.linear_probe import accuracy_interval, fit_linear_probe

TAUGHT = 50  # training images of each class, for a probe of each block
AT_ONCE = 10
FEW = 2  # images at a time, where costs are compared


Model = Annotated[str, typer.Option(help="A name from `vitbook weights list`.")]


@measurement(
    lens={"behind block": "{block}", "lens": "{lens:.3f}", "probe": "{probe:.3f}"},
    probe_cost={"probe": "{probe}", "forward passes": "{forwards:.2f}"},
)
def lens_by_block(sheet: Sheet, model: Model = "vit_small_patch14_focus") -> None:
    """Read a pretrained ViT behind each block with its own head, beside a probe of that block."""
    loaded, test, about = load_among(sheet, model)
    subject = f"{stem(model)}-{DATASET}"
    train = of_classes(datasets.load(DATASET, "train"), CLASSES, TAUGHT)
    sheet.write(subject, about | {"rounds": 20, "batch": FEW}, _costs(loaded), "probe_cost")
    fresh = fresh_twin(loaded.model).to(sheet.device)
    fresh.head = loaded.model.head
    sheet.write(subject, about | {
        "held_out_images": len(test), "training_images": len(train),
        "lens": "the class token beside the mean of the patches, behind the block, by the last "
        "norm and the head", "patches": "share of patches whose own answer is right",
        "probe": "logistic regression on the same 768 numbers, fitted behind the block",
        "untrained": "lens of a body of fresh weights, seed 0, under the same head",
        "interval": "Wilson, 95 %"}, _by_block(loaded, fresh, train, test))  # fmt: skip


@measurement(
    patched={"behind block": "{block}", "tokens": "{tokens}", "the other's": "{other:.2f}"},
    added={"part": "{part}", "direct": "{direct:.2f}", "patched": "{patched:.2f}"},
)
def patched_pairs(
    sheet: Sheet,
    pairs: Annotated[int, typer.Option(min=2, help="Of images of two classes.")] = 60,
    model: Model = "vit_small_patch14_focus",
    seed: Seed = 0,
) -> None:
    """Swap tokens and parts of pairs of images in a pretrained ViT, and read its answers."""
    loaded, test, about = load_among(sheet, model)
    subject, body = f"{stem(model)}-{DATASET}", loaded.model
    ones, others, same = _pairs(loaded, test, pairs, seed)
    about |= {"pairs": len(ones), "drawn": "images that the model answers rightly", "seed": seed,
              "interval": "bootstrap over pairs, 95 %"}  # fmt: skip
    ready = [loaded.normalize(_large(test.images[each])) for each in (ones, others, same)]
    labels = test.labels[ones], test.labels[others]
    sheet.write(subject, about | {"control": "tokens of another image of the same class"},
                _by_tokens(body, ready, labels))  # fmt: skip
    some = [each[: pairs // 2] for each in (*ready, *labels)]
    sheet.write(subject, about | {"pairs": pairs // 2,
        "score": "logit of the image's class less that of the other's",
        "direct": "what the part adds to the score, less what it adds for the other image",
        "patched": "what the score falls by when the part answers as for the other image",
        "same_class": "and as for another image of the same class"},
        _by_parts(body, *some), "added")  # fmt: skip


def load_among(sheet: Sheet, model: str) -> tuple[Pretrained, datasets.Dataset, dict]:
    """The model, which chooses among the chapter's classes, their held-out images, and settings."""
    sheet.expect(f"{stem(model)}-{DATASET}")
    loaded = load_pretrained(model, head=DATASET, image_size=SIZE)
    held_out = datasets.load(DATASET, datasets.held_out_split(DATASET))
    check_classes(loaded, held_out)
    about = {
        "dataset": held_out.provenance["name"], "classes": list(CLASSES), "image_size": SIZE,
        "chosen": "ten classes of 200 that do not resemble one another; the head's own rows",
        "weights": loaded.provenance["digest"],
    }  # fmt: skip
    loaded = among(loaded, CLASSES)
    loaded.model.to(sheet.device)
    return loaded, of_classes(held_out, CLASSES), about


def of_classes(
    dataset: datasets.Dataset, names: tuple[str, ...], most: int | None = None
) -> datasets.Dataset:
    """The images of some classes, numbered as they are named."""
    numbers = [dataset.class_names.index(name) for name in names]
    found = [(dataset.labels == number).nonzero().flatten()[:most] for number in numbers]
    labels = torch.arange(len(names)).repeat_interleave(torch.tensor([len(each) for each in found]))
    return replace(dataset, images=dataset.images[torch.cat(found)], labels=labels,
                   class_names=names)  # fmt: skip


def _large(images: Tensor) -> Tensor:
    return resize(images, SIZE)


def _costs(loaded: Pretrained) -> list[dict]:
    """How many forward passes each probe takes, in interleaved rounds."""
    model, first = loaded.model, list_blocks(loaded.model)[0]
    images = loaded.normalize(_large(datasets.load("photos", "all").images))
    ones, others = images[:FEW], images[FEW : 2 * FEW]
    forward = torch.no_grad()(model)
    probes = {
        "patched_logits": lambda: patched_logits(model, ones, others, first),
        "logit_lens": lambda: logit_lens(model, ones),
        "logit_contributions": lambda: logit_contributions(model, ones),
    }  # fmt: skip
    plain, *seconds = measure.interleaved_seconds([lambda: forward(ones), *probes.values()])
    found = [measure.ratio_of(each, plain) for each in seconds]
    return [
        {
            "probe": name,
            "forwards": [round(each, 3) for each in (ratio.median, ratio.low, ratio.high)],
        }
        for name, ratio in zip(probes, found, strict=True)
    ]


@torch.no_grad()
def _by_block(
    loaded: Pretrained, fresh: nn.Module, train: datasets.Dataset, test: datasets.Dataset
) -> list[dict]:
    """A line for each block."""
    paths = list_blocks(loaded.model)
    read_by = loaded.model.head.classifier

    def read(model: nn.Module, data: datasets.Dataset) -> tuple[dict[str, Tensor], ...]:
        """By block: what the head would read, its answers, and the share of patches right."""
        found = [{path: [] for path in paths} for _ in range(3)]
        norm, device = model.encoder.norm, next(model.parameters()).device
        batches = zip(data.images.split(AT_ONCE), data.labels.split(AT_ONCE), strict=True)
        for images, labels in batches:
            given = loaded.normalize(_large(images)).to(device)
            normed = outputs_of(model, given, paths, lambda _, tokens: norm(tokens).cpu())
            for path, tokens in normed.items():
                first, patches = tokens[:, :1], tokens[:, 1:]
                whole = torch.cat([first[:, 0], patches.mean(1)], dim=1)
                of_each = read_by(torch.cat([first.expand_as(patches), patches], dim=2))
                right = (of_each.argmax(-1) == labels[:, None]).float().mean(1)
                for kept, value in zip(found, (whole, read_by(whole), right), strict=True):
                    kept[path].append(value)
        return tuple({path: torch.cat(of[path]) for path in paths} for of in found)

    taught, _, _ = read(loaded.model, train)
    features, answers, patches = read(loaded.model, test)
    _, untrained, _ = read(fresh, test)
    rows = []
    for block, path in enumerate(paths, start=1):
        probe = fit_linear_probe(taught[path], train.labels)
        rows.append({
            "block": block, "lens": accuracy_interval(answers[path], test.labels),
            "patches": interval_of(patches[path]),
            "probe": accuracy_interval(probe.logits(features[path]), test.labels),
            "untrained": accuracy_interval(untrained[path], test.labels),
        })  # fmt: skip
    return rows


@torch.no_grad()
def _pairs(
    loaded: Pretrained, test: datasets.Dataset, number: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers of images; for each one of another class, and another one of its class."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(len(test), generator=generator)[: 2 * number]
    device = next(loaded.model.parameters()).device
    answers = [
        loaded.model(loaded.normalize(_large(test.images[some])).to(device)).argmax(1).cpu()
        for some in drawn.split(AT_ONCE)
    ]
    known = drawn[torch.cat(answers) == test.labels[drawn]]
    found = []
    for one in known[:number].tolist():
        label = test.labels[one]
        luck = known[torch.randperm(len(known), generator=generator)]
        others = luck[test.labels[luck] != label]
        same = luck[(test.labels[luck] == label) & (luck != one)]
        if not len(others) or not len(same):
            raise ValueError(
                f"{number} pairs: of {len(known)} images that are answered rightly one has none of "
                "its class, or of another class, beside it; ask for more"
            )
        found.append((one, others[0].item(), same[0].item()))
    return tuple(torch.tensor(found).T)


def _by_tokens(body: nn.Module, ready: list[Tensor], labels: tuple[Tensor, Tensor]) -> list[dict]:
    """In front of each block the class token, or all patches, of the other image."""
    first = torch.arange(body.num_prefix_tokens + body.grid_size[0] * body.grid_size[1]) == 0
    sets, device = torch.stack([first, ~first]), next(body.parameters()).device
    answers = []
    for which in (1, 2):
        batches = zip(ready[0].split(AT_ONCE), ready[which].split(AT_ONCE), strict=True)
        found = [
            torch.stack([logits.argmax(-1).cpu() for logits in
                         swapped_logits(body, one.to(device), other.to(device), sets)])
            for one, other in batches
        ]  # fmt: skip
        answers.append(torch.cat(found, dim=-1))
    different, same = answers
    own, others = labels
    return [
        {"block": block, "tokens": name,
         "other": interval_of((different[block, part] == others).float()),
         "own": interval_of((different[block, part] == own).float()),
         "same_class": interval_of((same[block, part] == own).float())}
        for block in range(len(different)) for part, name in enumerate(("class token", "patches"))
    ]  # fmt: skip


def _by_parts(
    body: nn.Module, images: Tensor, others: Tensor, same: Tensor, own: Tensor, theirs: Tensor
) -> list[dict]:
    """What each attention and each MLP adds to the score directly, and what a patch of it costs."""
    device = next(body.parameters()).device

    def score(logits: Tensor, rows: slice) -> Tensor:
        at = torch.arange(len(logits))
        return logits.cpu()[at, own[rows]] - logits.cpu()[at, theirs[rows]]

    direct, lost, control = {}, {}, {}
    for start in range(0, len(images), AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        one, other, alike = (each[rows].to(device) for each in (images, others, same))
        added, beside = (logit_contributions(body, each) for each in (one, other))
        before = score(sum(added.values()), rows)
        for name in added:
            direct.setdefault(name, []).append(score(added[name] - beside[name], rows))
            path = name.replace(" attention", ".attention").replace(" MLP", ".mlp")
            if path != name:
                for found, given in ((lost, other), (control, alike)):
                    patched = score(patched_logits(body, one, given, path), rows)
                    found.setdefault(name, []).append(before - patched)
    return [
        {"part": name, "direct": interval_of(torch.cat(direct[name])),
         "patched": interval_of(torch.cat(lost[name])),
         "same_class": interval_of(torch.cat(control[name]))}
        for name in lost
    ]  # fmt: skip
