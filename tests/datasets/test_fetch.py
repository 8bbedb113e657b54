"""From the official archive, over a real line, to pixels: all four sets."""

import io
import os
import threading
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from vitbook import datasets
from vitbook.datasets import DatasetError
from vitbook.datasets.catalog import IMAGE_SETS
from vitbook.datasets.fetched import fetch as fetching
from vitbook.datasets.fetched.fetch import fetch
from vitbook.datasets.stored.shards import find_shards


def images_of(dataset):
    """How often each image comes with each label, as the order is a shuffled one."""
    pairs = zip(dataset.images.numpy(), dataset.labels.tolist(), strict=True)
    return Counter((image.tobytes(), label) for image, label in pairs)


@pytest.mark.parametrize(("name", "title"), [("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")])
def test_cifar_keeps_every_bit(name, title, request, mirror, offer, tmp_path, capsys):
    archive, truth = request.getfixturevalue(name)
    offer(name, archive)
    for split, (images, labels) in truth.items():
        dataset = datasets.load(name, split, root=tmp_path)
        expected = zip(images, labels.tolist(), strict=True)
        assert images_of(dataset) == Counter((image.tobytes(), label) for image, label in expected)
        assert dataset.labels.tolist() != labels.tolist()  # shuffled
        about = dataset.provenance
        assert about["name"] == f"{title} ({len(images)} images)"  # the official set has more
        assert (about["format"], about["pictures"]) == ("PNG", len(images))
        assert about["shards"] == "1 of 1" and "missing" not in about
    assert dataset.class_names[3] == {"cifar10": "cat", "cifar100": "class 03"}[name]
    assert mirror.statuses == [200]  # once for both splits
    said = capsys.readouterr().err
    assert f"{title} is not in {tmp_path / name}: fetching" in said and mirror.url in said
    assert os.listdir(tmp_path / "downloads") == [f"{name}.lock"]
    assert sorted(os.listdir(tmp_path / name)) == [
        "test-00000-of-00001.parquet",
        "train-00000-of-00001.parquet",
    ]


def test_tf_flowers_is_split_by_every_fifth_photo(offer, tf_flowers, tmp_path):
    archive, truth = tf_flowers
    offer("tf_flowers", archive)
    train, test = (datasets.load("tf_flowers", s, root=tmp_path) for s in ("train", "test"))
    assert test.class_names == ("daisy", "dandelion", "roses", "sunflowers", "tulips")
    held_out = {level for path, level in truth.items() if path[-10:-6] in ("0004", "0009")}
    assert len(held_out) == 5  # one of 6, one of 5, two of 11, none of 4, one of 5
    # Each photo has its own grey, once the red beside the centre square is gone.
    greys = {tuple(image.flatten().unique().tolist()) for image in test.images}
    assert greys == {(level,) for level in held_out}
    greys = {tuple(image.flatten().unique().tolist()) for image in train.images}
    assert greys == {(level,) for level in truth.values() if level not in held_out}
    assert test.labels.bincount().tolist() == [1, 1, 2, 0, 1]
    assert train.images.shape[1:] == (3, 160, 160)
    assert train.provenance["name"] == "TF-Flowers (26 images)"
    assert train.provenance["rule"].endswith("is held out; centre square, resized to 160 px")
    assert (tmp_path / "tf_flowers" / "LICENSE.txt").read_bytes().startswith(b"thanks to")
    (shard,) = find_shards(tmp_path / "tf_flowers", "test").found  # as they came
    sizes = {row.path: Image.open(io.BytesIO(row.encoded)).size for row in shard.rows()}
    assert sizes["roses/0009_n.jpg"] == (320, 189)


def test_tiny_imagenet(offer, tiny_imagenet, tmp_path):
    archive, truth = tiny_imagenet
    offer("tiny_imagenet", archive)
    wnids = ["n01443537", "n02124075", "n04067472"]  # sorted, as the archive's own list is not
    for split, images in truth.items():
        dataset = datasets.load("tiny_imagenet", split, root=tmp_path)
        assert dataset.class_names == ("goldfish", "Egyptian cat", "reel")
        expected = Counter()
        for content, wnid in images.values():
            image = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
            expected[image.transpose(2, 0, 1).tobytes(), wnids.index(wnid)] += 1
        assert images_of(dataset) == expected
    files = sorted(path.name for path in (tmp_path / "tiny_imagenet").iterdir())
    shards = [f"train-0000{i}-of-00003.parquet" for i in range(3)]
    assert files == ["class_names.json", *shards, "validation-00000-of-00001.parquet"]
    assert find_shards(tmp_path / "tiny_imagenet", "train").class_names == tuple(wnids)
    (row, *_) = find_shards(tmp_path / "tiny_imagenet", "validation").found[0].rows()
    assert row.encoded == truth["validation"][row.path.replace("val/", "val/images/")][0]


def test_the_same_archive_makes_the_same_bytes(offer, cifar10, tmp_path):
    image_set = offer("cifar10", cifar10[0])
    first, second = (fetch(image_set, tmp_path / name) for name in "ab")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


def test_an_archive_put_there_by_hand_is_used_if_it_is_the_one_and_stays(
    mirror, offer, cifar10, tmp_path
):
    by_hand = tmp_path / "downloads" / offer("cifar10", cifar10[0]).archive.name
    by_hand.parent.mkdir()
    by_hand.write_bytes(b"something else")
    with pytest.raises(DatasetError, match="has sha256 .*, expected .*: it was damaged or is an"):
        datasets.load("cifar10", "test", root=tmp_path)
    assert by_hand.read_bytes() == b"something else" and not (tmp_path / "cifar10").exists()
    by_hand.write_bytes(cifar10[0])
    datasets.load("cifar10", "test", root=tmp_path)
    assert not mirror.requests and by_hand.read_bytes() == cifar10[0]


def test_of_two_at_once_one_fetches_and_the_second_says_that_it_waits(
    mirror, offer, cifar10, tmp_path, monkeypatch
):
    image_set = offer("cifar10", cifar10[0])
    mirror.hold = 1000
    waits = threading.Event()
    words = "another process is fetching CIFAR-10: waiting for it"
    monkeypatch.setattr(fetching, "_say", lambda said: waits.set() if said == words else None)
    threads = [threading.Thread(target=fetch, args=(image_set, tmp_path)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert waits.wait(60)
    mirror.released.set()
    for thread in threads:
        thread.join()
    assert mirror.statuses == [200]


def test_what_a_killed_conversion_left_is_not_taken_for_a_set(offer, cifar10, tmp_path):
    image_set = offer("cifar10", cifar10[0])
    left = tmp_path / "downloads" / "cifar10.making"
    left.mkdir(parents=True)
    (left / "train-00000-of-00001.parquet").write_bytes(b"half")
    assert len(datasets.load("cifar10", "train", root=tmp_path)) == 20
    assert not left.exists()
    assert fetch(image_set, tmp_path) == tmp_path / "cifar10"  # and does nothing


def test_a_folder_that_holds_something_else_is_left_alone(offer, cifar10, tmp_path):
    offer("cifar10", cifar10[0])
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "thesis.tex").write_text("mine")
    with pytest.raises(DatasetError, match="holds other files .thesis.tex.: expected .*; move"):
        datasets.load("cifar10", "train", root=tmp_path)
    assert os.listdir(tmp_path / "cifar10") == ["thesis.tex"]


def test_a_folder_that_cannot_be_written(mirror, offer, cifar10, tmp_path):
    offer("cifar10", cifar10[0])
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match="CIFAR-10 is not in .*file.*, and .* cannot be written"):
        datasets.load("cifar10", "train", root=tmp_path / "file")
    assert not mirror.requests


def test_every_set_can_be_fetched():
    assert fetching._CONVERT.keys() == IMAGE_SETS.keys()
