"""Parquet files that are whole, incomplete, damaged, or of another kind."""

import io
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from vitbook import datasets
from vitbook.datasets import DatasetError
from vitbook.datasets.images import ImageError, encode_png, open_image, pixels, square
from vitbook.datasets.stored.shard_writer import write_shard
from vitbook.datasets.stored.shards import Row, Shard, shard_name


def rewrite(path, change):
    """Change a Parquet file's table, as a program that is not ours would."""
    pq.write_table(change(pq.read_table(path)), path)


@pytest.fixture
def first(small):
    return small / "cifar10" / "train-00000-of-00002.parquet"


def load(root, split="train", **how):
    return datasets.load("cifar10", split, root=root, **how)


def test_missing_files_are_named_and_counted(small):
    whole = load(small, "test").provenance
    for index in range(3):
        rows = [Row(encode_png(np.zeros((3, 32, 32), np.uint8)), "", label) for label in range(10)]
        if index != 1:
            write_shard(small / "cifar10" / shard_name("test", index, 3), rows, list("abcdefghij"))
    (small / "cifar10" / "test-00000-of-00001.parquet").unlink()
    about = load(small, "test").provenance
    assert about["name"] == "CIFAR-10 (20 images)" and about["pictures"] == 20
    assert about["shards"] == "2 of 3"
    assert about["missing"] == "test-00001-of-00003.parquet (9,980 of 10,000 images)"
    assert about["digest"] != whole["digest"]


def test_the_digest_is_of_what_the_files_hold_not_of_how(small):
    before = load(small)
    names = before.class_names
    rows = [row for path in sorted(small.glob("cifar10/train*")) for row in Shard(path).rows()]
    for path in small.glob("cifar10/train*"):
        path.unlink()
    write_shard(small / "cifar10" / shard_name("train", 0, 1), rows, names)
    after = load(small)
    assert torch.equal(before.images, after.images)
    assert before.provenance["digest"] == after.provenance["digest"]
    rows[0], rows[1] = rows[1], rows[0]
    write_shard(small / "cifar10" / shard_name("train", 0, 1), rows, names)
    assert load(small).provenance["digest"] != before.provenance["digest"]


def test_the_names_of_the_hub(small, first):
    def as_on_the_hub(table):
        features = {"img": {}, "fine_label": {"names": list("abcdefghij")}, "coarse_label": {}}
        about = json.dumps({"info": {"features": features}})
        table = table.rename_columns(["img", "fine_label"])
        table = table.append_column("coarse_label", pa.array([0] * len(table)))
        return table.replace_schema_metadata({"huggingface": about})

    before = load(small)
    for path in small.glob("cifar10/train*"):
        rewrite(path, as_on_the_hub)
    first.rename(first.with_name(f"{first.stem}-0123456789abcdef.parquet"))
    after = load(small)
    assert after.class_names == tuple("abcdefghij")
    assert torch.equal(before.images, after.images) and torch.equal(before.labels, after.labels)


def test_a_jpeg_copy_is_called_one(small, first):
    def as_jpeg(table):
        rows = table.to_pylist()
        for row in rows:
            buffer = io.BytesIO()
            Image.open(io.BytesIO(row["image"]["bytes"])).save(buffer, "JPEG")
            row["image"]["bytes"] = buffer.getvalue()
        return pa.Table.from_pylist(rows, schema=table.schema)

    for path in small.glob("cifar10/train*"):
        rewrite(path, as_jpeg)
    assert load(small).provenance["name"] == "CIFAR-10 (JPEG copy, 20 images)"
    assert load(small, "test").provenance["name"] == "CIFAR-10 (10 images)"


def as_text(column):
    def change(table):
        place = table.schema.get_field_index(column)
        return table.set_column(place, column, pa.array(["x"] * len(table)))

    return lambda path: rewrite(path, change)


def without_names(path):
    rewrite(path, lambda table: table.replace_schema_metadata({}))


def cut_short(share):
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def flipped_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: pq.write_table(pa.table({"pixels": [b"x"], "label": [0]}), path),
         r"2.parquet has the columns pixels \(binary\), label \(int64\): expected image or img"),
        (as_text("image"), r"image \(string\).*: expected image or "),
        (as_text("label"), r"label \(string\).*: expected label or "),
        (without_names, "does not name its classes: expected them in the sch"),
        (cut_short(0), "2.parquet is damaged or cut short .*: remove it and"),
        (cut_short(0.999), "2.parquet is damaged or cut short .*: remove it and"),
        (flipped_bit, "2.parquet is damaged or cut short"),
        (lambda path: shutil.copy(path, path.with_name("train-00000-of-00001.parquet")),
         "does not fit the other train files of its folder"),
        (lambda path: write_shard(path, list(Shard(path).rows()), list("abcdefghij")),
         "names other classes than train-00000-of-00002.parquet"),
    ],
)  # fmt: skip
def test_a_file_that_is_damaged_or_of_another_kind(damage, words, small, first):
    damage(first)
    with pytest.raises(DatasetError, match=words):
        load(small)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"image": b"GIF89a......"}, "12 bytes that begin with 47 49 46 .* are no JPEG or PNG"),
        ({"image": encode_png(np.zeros((3, 32, 32), np.uint8))[:60]}, "60 bytes do not decode"),
        ({"image": None}, "holds no image: expected its bytes"),
        ({"label": 10}, "has label 10: expected 0 to 9"),
        ({"label": None}, "has label None: expected 0 to 9"),
    ],
)
def test_a_bad_row_is_named(changed, words, small, first):
    def change(table):
        rows = table.to_pylist()
        if "image" in changed:
            rows[7]["image"] = {"bytes": changed["image"], "path": "a.png"}
        else:
            rows[7] |= changed
        return pa.Table.from_pylist(rows, schema=table.schema)

    rewrite(first, change)
    with pytest.raises(DatasetError, match=f"row 7 of .*00000-of-00002.parquet.* {words}"):
        load(small)


def test_a_class_that_is_missing(small):
    def without_ships(table):
        return pa.Table.from_pylist(
            [row for row in table.to_pylist() if row["label"] != 8], schema=table.schema
        )

    for path in small.glob("cifar10/*.parquet"):
        rewrite(path, without_ships)
    with pytest.raises(DatasetError, match="has no image of ship to train on: expected all 10 "):
        load(small)
    assert len(load(small, "test")) == 9  # a test set may lack one


def test_a_split_of_which_nothing_is_there(small, mirror):
    (small / "cifar10" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(DatasetError, match="holds other files of CIFAR-10, but none of test: exp"):
        load(small, "test")
    assert not mirror.requests  # two halves of different origin would not make a set


def test_names_in_words(small):
    table = small / "cifar10" / "class_names.json"
    table.write_text(
        json.dumps({"ship": "crane, a ship", "bird": "crane, a bird", "cat": "cat, tom"})
    )
    names = load(small, "test").class_names
    assert names[8] == "crane, a ship" and names[2] == "crane, a bird"  # else both were "crane"
    assert names[3] == "cat" and names[0] == "airplane"
    table.write_text(json.dumps({"ship": "crane", "bird": "crane"}))
    names = load(small, "test").class_names
    assert names[8] == "crane (ship)" and names[2] == "crane (bird)"
    for broken in ["{", "[]"]:
        table.write_text(broken)
        with pytest.raises(DatasetError, match="class_names.json is no table of names"):
            load(small, "test")


def test_images_of_another_size(small):
    large = load(small, "test", image_size=128)
    assert large.images.shape == (10, 3, 128, 128)
    assert large.provenance["rule"] == "the official split; centre square, resized to 128 px"
    assert large.provenance["name"] == "CIFAR-10 (10 images)"
    assert large.provenance["digest"] == load(small, "test").provenance["digest"]


def test_squares_are_taken_from_the_centre_and_not_aliased():
    photo = np.zeros((40, 120, 3), np.uint8)
    photo[:, 40:80] = 255 * (np.indices((40, 40)).sum(0) % 2)[..., None]  # a chessboard of pixels
    photo[:, :40] = photo[:, 80:] = (255, 0, 0)
    image = pixels(square(Image.fromarray(photo), 10)).astype(int)
    assert image.shape == (3, 10, 10)
    assert abs(image - 127).max() <= 3  # grey, as every second pixel is white; no red


def test_a_image_as_large_as_a_bomb(monkeypatch):
    encoded = encode_png(np.zeros((3, 64, 64), np.uint8))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ImageError, match="do not decode .*decompression bomb"):
        open_image(encoded)
