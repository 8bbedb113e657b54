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


def test_files_of_another_layout(small, first):
    pq.write_table(pa.table({"pixels": [b"x"], "label": [0]}), first)
    words = r"2.parquet has the columns pixels \(binary\), label \(int64\): expected image or img"
    with pytest.raises(DatasetError, match=words):
        load(small)


@pytest.mark.parametrize("column", ["image", "label"])
def test_columns_of_another_type(column, small, first):
    rewrite(first, lambda table: table.set_column(
        table.schema.get_field_index(column), column, pa.array(["x"] * len(table))
    ))  # fmt: skip
    with pytest.raises(DatasetError, match=rf"{column} \(string\).*: expected {column} or "):
        load(small)


def test_no_names_of_classes(small, first):
    rewrite(first, lambda table: table.replace_schema_metadata({}))
    with pytest.raises(DatasetError, match="does not name its classes: expected them in the sch"):
        load(small)


@pytest.mark.parametrize("share", [0, 0.5, 0.999])
def test_a_file_cut_short(share, small, first):
    whole = first.read_bytes()
    first.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DatasetError, match="2.parquet is damaged or cut short .*: remove it and"):
        load(small)


def test_a_flipped_bit_is_found(small, first):
    content = bytearray(first.read_bytes())
    content[len(content) // 3] ^= 1
    first.write_bytes(content)
    with pytest.raises(DatasetError, match="2.parquet is damaged or cut short"):
        load(small)


def change_row(path, index, **values):
    def change(table):
        rows = table.to_pylist()
        rows[index].update(values)
        return pa.Table.from_pylist(rows, schema=table.schema)

    rewrite(path, change)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"image": b"GIF89a......"}, "12 bytes that begin with 47 49 46 .* are no JPEG or PNG"),
        ({"image": b""}, "0 bytes that begin with nothing are no JPEG or PNG"),
        ({"image": encode_png(np.zeros((3, 32, 32), np.uint8))[:60]}, "60 bytes do not decode"),
        ({"image": None}, "holds no image: expected its bytes"),
        ({"label": -1}, "has label -1: expected 0 to 9"),
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


def test_files_of_two_divisions(small, first):
    shutil.copy(first, first.with_name("train-00000-of-00001.parquet"))
    with pytest.raises(DatasetError, match="does not fit the other train files of its folder"):
        load(small)


def test_files_of_two_sets(small, first):
    write_shard(first, list(Shard(first).rows()), [f"flower {i}" for i in range(10)])
    with pytest.raises(DatasetError, match="names other classes than train-00000-of-00002.parquet"):
        load(small)


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


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1"])
def test_every_mode_becomes_rgb(mode):
    assert pixels(square(Image.new(mode, (8, 8)), 8)).shape == (3, 8, 8)


def test_a_image_as_large_as_a_bomb(monkeypatch):
    encoded = encode_png(np.zeros((3, 64, 64), np.uint8))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ImageError, match="do not decode .*decompression bomb"):
        open_image(encoded)
