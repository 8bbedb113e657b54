"""Answers of a network that is too slow to ask in every step: asked once, read by a linear head."""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

from vitbook import datasets
from vitbook.colors import recoloring
from vitbook.datasets import Dataset
from vitbook.datasets.share import rows_of_share
from vitbook.model_utilities import weights_digest
from vitbook.models.weights.efficientnet_lite import SIZES, efficientnet_lite
from vitbook.training.objectives.kept_answers import About, KeptAnswers, keep_answers
from vitbook.training.transfer.ridge import RidgePath

FOLDS = 10
NAME = "efficientnet_lite0"
SIZE = SIZES[NAME]


def keep_teachers_answers(
    folder: Path, weights: Path, name: str = "tf_flowers", share: float = 0.1
) -> list[Path]:
    """Ask EfficientNet-Lite0 with ImageNet's weights and a fresh one, and write what they answer.

    Args:
        folder: of the answers.
        weights: folder of the fetched weights.
        name: of the data set.
        share: of its labels that a head is fitted to, drawn by seed 0.
    """
    written = []
    for kind, kept_at in ((NAME, weights), (f"fresh_{NAME}", None)):
        torch.manual_seed(0)
        model = efficientnet_lite(NAME, kept_at)
        splits = [
            datasets.load(name, split, image_size=SIZE)
            for split in ("train", datasets.held_out_split(name))
        ]
        seen = [pooled(model, split.images) for split in splits]
        about = {"teacher": kind, "weights": weights_digest(model)[:16], "image_size": SIZE}
        kept = answer(*splits, *seen, name, share, about)
        written.append(keep_answers(folder, f"{name}-{kind}", kept))
    return written


@torch.no_grad()
def pooled(model: nn.Module, images: Tensor, batch_size: int = 32) -> Float[Tensor, "n features"]:
    """What a timm network hands to its head: the mean of its last map over the image."""
    own = recoloring(model)
    model = model.to(memory_format=torch.channels_last)  # nearly twice as fast on a CPU
    found = []
    for batch in tqdm(images.split(batch_size), desc="features"):
        seen = own(datasets.normalize(batch)).to(memory_format=torch.channels_last)
        found.append(model.forward_head(model.forward_features(seen), pre_logits=True))
    return torch.cat(found)


def answer(
    train: Dataset,
    test: Dataset,
    train_seen: Float[Tensor, "images features"],
    test_seen: Float[Tensor, "held_out features"],
    name: str,
    share: float,
    about: dict,
) -> KeptAnswers:
    """A ridge layer fitted to a share of the training labels, and its answers to all images.

    Args:
        train_seen: the frozen network's numbers for the training images.
        test_seen: likewise for the held-out ones, on which the head is scored and nothing chosen.
        about: the network, for the file.
    """
    rows = rows_of_share(train, share)
    labels = train.labels[rows]
    folds = torch.empty_like(labels)
    for label in labels.unique():  # each fold holds as many of every class
        own = labels == label
        folds[own] = torch.arange(own.sum()) % FOLDS
    layer = RidgePath(train_seen[rows], labels, train.num_classes).best(folds)
    answers = layer.logits(train_seen).float()
    right = (answers.argmax(1) == train.labels).float()
    unlabelled = torch.ones(len(train), dtype=bool).index_fill(0, rows, False)
    held_out = (layer.logits(test_seen).argmax(1) == test.labels).float().mean().item()
    return KeptAnswers(
        answers,
        About(
            train.provenance["name"],
            train.provenance["digest"],
            list(train.class_names),
            about
            | {
                "head": f"ridge on pooled features, penalty {layer.penalty:.3g}, chosen in "
                f"{FOLDS} folds",
                "dataset": name,
                "share": share,
                "share_seed": 0,
                "labels": len(rows),
                "accuracy_labelled": round(right[rows].mean().item(), 4),
                "accuracy_unlabelled": round(right[unlabelled].mean().item(), 4),
                "accuracy_held_out": round(held_out, 4),
            },
        ),
    )
