"""The real files, where there are any: under VITBOOK_DATA, or beside the checkout."""

import os
from functools import cache
from pathlib import Path

import pytest
import torch

from vitbook import datasets
from vitbook.datasets.stored.shards import find_shards

ROOT = Path(
    os.environ.get("VITBOOK_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data"
)


def real(name):
    there = any((ROOT / name).glob("*.parquet"))
    return pytest.mark.skipif(not there, reason=f"no {name} in {ROOT}: set VITBOOK_DATA")


@cache
def load(name, split):
    return datasets.load(name, split, root=ROOT)


@real("cifar10")
@pytest.mark.parametrize(
    ("split", "per_class"), [pytest.param("train", 5000, marks=pytest.mark.slow), ("test", 1000)]
)
def test_cifar10(split, per_class):
    dataset = load("cifar10", split)
    assert dataset.images.shape == (10 * per_class, 3, 32, 32)
    assert dataset.labels.bincount().tolist() == 10 * [per_class]
    assert dataset.class_names[0] == "airplane" and dataset.class_names[9] == "truck"
    kind = dataset.provenance["format"]
    assert dataset.provenance["name"] == "CIFAR-10" + " (JPEG copy)" * (kind == "JPEG")
    # The means of the channels that everyone prints for CIFAR-10: 0.491, 0.482, 0.447.
    means = dataset.images[:5000].double().mean((0, 2, 3)) / 255
    assert torch.allclose(means, torch.tensor([0.491, 0.482, 0.447]).double(), atol=0.015)


@real("tf_flowers")
def test_tf_flowers():
    train, test = load("tf_flowers", "train"), load("tf_flowers", "test")
    assert (len(train), len(test)) == (2939, 731)
    both = train.labels.bincount() + test.labels.bincount()
    assert train.class_names == ("daisy", "dandelion", "roses", "sunflowers", "tulips")
    assert both.tolist() == [633, 898, 641, 699, 799]
    assert test.labels.bincount().tolist() == [126, 179, 128, 139, 159]
    assert train.images.shape[1:] == (3, 160, 160)
    assert train.provenance["name"] in ("TF-Flowers (160 px copy)", "TF-Flowers")


@real("tf_flowers")
def test_tf_flowers_are_split_as_we_would():
    photos = {}
    for split in ("train", "test"):
        for shard in find_shards(ROOT / "tf_flowers", split).found:
            for row in shard.rows():
                photos.setdefault(row.label, {})[row.path] = split
    for of_class in photos.values():
        for turn, path in enumerate(sorted(of_class)):
            assert of_class[path] == ("test" if turn % 5 == 4 else "train")


@pytest.mark.slow
@real("tiny_imagenet")
def test_tiny_imagenet_to_validate_on():
    dataset = load("tiny_imagenet", "validation")
    assert dataset.labels.bincount().tolist() == 200 * [50]
    assert dataset.images.shape == (10_000, 3, 64, 64)
    assert dataset.class_names[0] == "goldfish"
    assert dataset.provenance["name"] == "Tiny-ImageNet"
