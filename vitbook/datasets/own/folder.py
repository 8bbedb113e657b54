"""What is in a folder of anyone's pictures: its classes, its splits, and what is left out."""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vitbook.datasets.dataset import DatasetError
from vitbook.datasets.own.visit import Visit, as_text, children, read_plain
from vitbook.errors import first_few

SPLITS = {"train": "train", "validation": "validation", "val": "validation"} | {
    "valid": "validation",
    "test": "test",
}
LAYOUTS = (
    "FOLDER/CLASS/picture.jpg, or FOLDER/train/CLASS and FOLDER/test/CLASS, or a table (.csv, "
    ".parquet) of path,label[,split]"
)
HELD_OUT = 0.2  # of each class, where nobody has split them


class Picture(NamedTuple):
    """A picture that has not been opened: its class, its name below its split, where it lies."""

    class_name: str
    name: str
    path: Path


class Unread(NamedTuple):
    """A picture as it will be kept: its name below its split, its label, and what reads it."""

    name: str
    label: int
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Listing:
    """What is at a path.

    Attributes:
        class_names: in the order of the labels.
        counts: split -> its pictures; the held-out split is the last.
        pictures: of a split, in the order in which they are kept.
        rule: how they were split.
        stamp: of paths, sizes and times of change: another when anything was touched.
        told: what was left out, in words.
    """

    class_names: tuple[str, ...]
    counts: dict[str, int]
    pictures: Callable[[str], Iterable[Unread]]
    rule: str
    stamp: str
    told: tuple[str, ...] = ()


def list_folder(folder: Path, seed: int = 0) -> Listing:
    """The pictures of ``folder/CLASS``, or of ``folder/train/CLASS`` with ``test`` (``val``,
    ``valid``, ``validation``) beside it; none is opened.

    Args:
        seed: draws a fifth of each class where nobody has split them.
    """
    visit = Visit()
    inside = [each for each in children(folder) if each.is_dir()]
    found: dict[str, Path] = {}
    for each in inside:
        split = SPLITS.get(each.name.lower())
        if split and (other := found.setdefault(split, each)) != each:
            raise DatasetError(
                f"{folder} has {other.name} and {each.name} for one split: expected one; join "
                "them, or remove one"
            )
    if "train" not in found or (len(found) == 1 < len(inside)):
        found = {"": folder}
    elif len(found) == 1:
        found = {"": found["train"]}
    else:
        visit.skipped["folders beside train"] += len(inside) - len(found)
    every = {split: _pictures(each, folder, visit) for split, each in found.items()}
    splits = {split: pictures for split, (pictures, _) in every.items()}
    empty = {name for _, names in every.values() for name in names}
    return make_listing(folder, splits, visit, "the folder's own split", seed, empty)


def make_listing(
    path: Path,
    splits: dict[str, list[Picture]],
    visit: Visit,
    rule: str,
    seed: int,
    empty: Iterable[str] = (),
    as_given: bool = False,
) -> Listing:
    """Check what was found at a path, and split it if nobody has.

    Args:
        splits: the one split "" where nobody has.
        rule: how somebody has.
        empty: classes without a picture, somewhere.
        as_given: keep the pictures in this order, and classes that are whole numbers in theirs;
            else they are shuffled, always alike, and the classes sorted as text.
    """
    classes = {split: {each.class_name for each in some} for split, some in splits.items()}
    names = sorted(set().union(*classes.values()))
    if as_given and all(re.fullmatch(r"[0-9]{1,18}", name) for name in names):
        names.sort(key=int)
    told = [f"{count} {kind}" for kind, count in visit.skipped.most_common() if count]
    if not names:
        left = f" ({first_few(told, 8)})" if told else ""
        raise DatasetError(f"{path} has no pictures in classes{left}: expected {LAYOUTS}")
    if len(names) == 1:
        raise DatasetError(
            f"{path} has one class, {names[0]}: expected two or more, {LAYOUTS}; if its classes "
            "lie deeper, give the folder that they are in"
        )
    by_case: dict[str, str] = {}
    for name in names:
        if (other := by_case.setdefault(name.casefold(), name)) != name:
            raise DatasetError(
                f"{path} has the classes {other} and {name}, which are one on many file systems: "
                "rename or join them"
            )
    for split, own in classes.items():
        if lacking := [name for name in names if name not in own]:
            raise DatasetError(
                f"{path} has no picture of {first_few(lacking)} in {split}, and has elsewhere: "
                "expected the same classes in each split; add pictures, or remove the class"
            )
    if splits.keys() == {""}:
        rule = f"{HELD_OUT:.0%} of each class held out, drawn by seed {seed}"
        splits = _drawn(path, splits[""], seed)
    if "train" not in splits or len(splits) < 2:
        raise DatasetError(
            f"{path} has only {first_few(splits)}: expected train, and test or validation beside it"
        )
    for split, pictures in splits.items():
        for each in pictures:
            visit.note(each.path, f"{split}/{each.class_name}")
    left = [f"left out as no pictures: {first_few(told, 8)}"] if told else []
    if without := sorted(set(empty) - set(names)):
        left.append(f"left out, without a picture: {first_few(without)}")
    labels = {name: label for label, name in enumerate(names)}

    def kept(split: str) -> Iterable[Unread]:
        for each in splits[split] if as_given else _shuffled(splits[split]):
            yield Unread(each.name, labels[each.class_name], partial(read_plain, each.path))

    return Listing(
        class_names=tuple(names),
        counts={
            split: len(splits[split]) for split in dict.fromkeys(SPLITS.values()) if split in splits
        },
        pictures=kept,
        rule=rule,
        stamp="\n".join(sorted(visit.stamp)),
        told=tuple(left),
    )


def _pictures(folder: Path, top: Path, visit: Visit) -> tuple[list[Picture], list[str]]:
    """Those of the classes in a folder, by name, and the names of classes that have none."""
    found: list[Picture] = []
    names: dict[str, Path] = {}
    loose = 0
    for each in children(folder):
        if not each.is_dir():
            loose += visit.is_picture(each)
        elif not visit.is_hidden(each):
            name = as_text(each.name)
            if name in names:
                raise DatasetError(
                    f"{each} and {names[name]} have one name, written in two ways: join them"
                )
            names[name] = each
            for path in visit.below(each, (top, folder)):
                found.append(Picture(name, f"{name}/{as_text(path.relative_to(each))}", path))
    visit.skipped["pictures outside of a class"] += loose
    has = {each.class_name for each in found}
    return found, [name for name in names if name not in has]


def _drawn(path: Path, pictures: list[Picture], seed: int) -> dict[str, list[Picture]]:
    """By a digest of seed and name, so that a picture which comes later moves few others."""
    own: dict[str, list[Picture]] = {}
    for each in pictures:
        own.setdefault(each.class_name, []).append(each)
    held_out = set()
    for name, some in own.items():
        if len(some) < 2:
            raise DatasetError(
                f"{path} has one picture of {name}: expected two or more, as one is held out; add "
                "some, or remove the class"
            )
        by_lot = sorted(
            some, key=lambda each: hashlib.sha256(f"{seed} {each.name}".encode()).digest()
        )
        held_out |= set(by_lot[: max(1, round(HELD_OUT * len(some)))])
    parts = {"train": False, "test": True}
    return {
        split: [each for each in pictures if (each in held_out) == is_test]
        for split, is_test in parts.items()
    }


def _shuffled(pictures: list[Picture]) -> list[Picture]:
    """As :func:`.fetched.conversion.write_converted` shuffles."""
    return [pictures[place] for place in np.random.RandomState(0).permutation(len(pictures))]
