"""Tiny-ImageNet from its official archive: 200 classes of ImageNet at 64 pixels."""

import json
from pathlib import Path

from vitbook.datasets.fetched.archives import read_members
from vitbook.datasets.fetched.conversion import Converted
from vitbook.datasets.stored.shards import Row

_TOP = "tiny-imagenet-200/"


def convert_tiny_imagenet(archive: Path) -> Converted:
    """A label indexes the sorted WordNet ids. The test images have none and stay behind."""
    contents = {
        name.removeprefix(_TOP): content
        for name, content in read_members(archive, lambda name: not name.startswith(_TOP + "test/"))
    }
    class_names = tuple(sorted(contents["wnids.txt"].decode().split()))
    words = dict(line.split("\t", 1) for line in contents["words.txt"].decode().splitlines())
    annotations = contents["val/val_annotations.txt"].decode().splitlines()
    labels = {wnid: label for label, wnid in enumerate(class_names)}
    train = [
        Row(content, f"train/{wnid}/{file}", labels[wnid])
        for name, content in sorted(contents.items())
        if name.endswith(".JPEG") and name.startswith("train/")
        for _, wnid, _, file in [name.split("/")]
    ]
    validation = [
        Row(contents[f"val/images/{file}"], f"val/{file}", labels[wnid])
        for file, wnid in sorted(line.split("\t")[:2] for line in annotations)
    ]
    readable = {wnid: words[wnid] for wnid in class_names}
    table = json.dumps(readable, indent=0).encode() + b"\n"
    return Converted(
        class_names, {"train": train, "validation": validation}, {"class_names.json": table}
    )
