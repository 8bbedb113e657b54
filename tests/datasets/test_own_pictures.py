"""A folder of one's own as a data set: its layouts, what it refuses, and that it is read once."""

import io
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from vitbook import datasets
from vitbook.datasets import DatasetError
from vitbook.datasets.fetched.conversion import Converted, write_converted
from vitbook.datasets.images import ANYONES, as_shown, open_image, pixels, square
from vitbook.datasets.own import kept
from vitbook.datasets.stored.shards import Row
from vitbook.errors import UnknownNameError


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """The folder of the data sets, empty."""
    monkeypatch.setenv("VITBOOK_DATA", str(tmp_path / "root"))
    return tmp_path / "root"


def picture(seed, size=(20, 12), mode="RGB", kind="PNG", **options):
    shape = (size[1], size[0], len(mode)) if len(mode) > 1 else (size[1], size[0])
    noise = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise, mode).save(buffer, kind, **options)
    return buffer.getvalue()


def fill(folder, names, start=0, **options):
    """A picture of noise at each name."""
    for seed, name in enumerate(names, start):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture(seed, **options))
    return folder


def classes(split="", count=5, names=("cat", "dog")):
    return [f"{split}{name}/{number}.png" for name in names for number in range(count)]


@pytest.fixture
def split_folder(tmp_path):
    fill(tmp_path / "pets", classes("train/"))
    return fill(tmp_path / "pets", classes("test/", 2), 50)


def both(path):
    return datasets.load(path, "train"), datasets.load(path, datasets.held_out_split(path))


def refused(path):
    with pytest.raises(DatasetError) as caught:
        datasets.name_of(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_is_the_data_set_that_its_archive_would_be(split_folder, tmp_path):
    train, test = both(split_folder)
    rows = {
        split: [
            Row((split_folder / split / name).read_bytes(), name, label)
            for label, each in enumerate(("cat", "dog"))
            for name in classes(count=count, names=(each,))
        ]
        for split, count in (("train", 5), ("test", 2))
    }
    (tmp_path / "archive" / "tf_flowers").mkdir(parents=True)
    write_converted(tmp_path / "archive" / "tf_flowers", Converted(("cat", "dog"), rows), {})
    for own, split in ((train, "train"), (test, "test")):
        theirs = datasets.load("tf_flowers", split, tmp_path / "archive", image_size=12)
        assert torch.equal(own.images, theirs.images) and torch.equal(own.labels, theirs.labels)
        assert own.class_names == theirs.class_names == ("cat", "dog")
    assert train.provenance["rule"] == "the folder's own split; centre square, resized to 12 px"
    assert train.provenance["pictures"] == 10


def test_of_three_splits_the_test_is_held_out(split_folder, tmp_path):
    fill(tmp_path / "few", [*classes("train/"), *classes("Valid/", 2)])
    assert datasets.held_out_split(tmp_path / "few") == "validation"
    fill(split_folder, classes("val/", 3), 90)
    assert datasets.held_out_split(split_folder) == "test"
    assert len(datasets.load(split_folder, "validation")) == 6


@pytest.mark.parametrize("below", ["", "train/"])
def test_one_folder_is_split_by_a_seed_that_is_said(below, tmp_path, capsys):
    folder = fill(tmp_path / "pets", [*classes(below, 10, ("cat",)), *classes(below, 20, ("dog",))])
    train, test = both(folder)
    assert train.labels.bincount().tolist() == [8, 16] and test.labels.bincount().tolist() == [2, 4]
    rule = "20% of each class held out, drawn by seed 0"
    assert train.provenance["rule"].startswith(rule)
    assert f"pictures 24 of train and 6 of test, 2 classes; {rule}" in capsys.readouterr().err
    other = datasets.name_of(folder, seed=1)
    assert other != datasets.name_of(folder)
    assert not torch.equal(datasets.load(other, "test").images, test.images)
    every = {image.numpy().tobytes() for part in (train, test) for image in part.images}
    assert len(every) == 30


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("columns", [2, 3])
def test_a_table_of_paths_keeps_its_order(ending, columns, split_folder, tmp_path):
    names = [*classes("test/", 2), *classes("train/")]
    rows = [
        [f"pets/{name}", 7 if "cat" in name else 10, name.split("/")[0]][:columns] for name in names
    ]
    frame = pd.DataFrame(rows, columns=["path", "label", "split"][:columns])
    getattr(frame, f"to_{ending}")(table := tmp_path / f"pets.{ending}", index=False)
    train, test = both(table)
    assert train.class_names == ("7", "10")
    assert (len(train), len(test)) == ((10, 4) if columns == 3 else (12, 2))
    if columns == 3:
        assert train.labels.tolist() == [0] * 5 + [1] * 5
        first = square(open_image((split_folder / "train/cat/0.png").read_bytes()), 12)
        assert (train.images[0].numpy() == pixels(first)).all()


def test_parquet_of_the_hub_is_read_as_it_is(split_folder, tmp_path):
    rows = {
        split: [Row(picture(n), f"{n}.png", n % 3) for n in range(9)]
        for split in ("train", "validation")
    }
    (folder := tmp_path / "hub").mkdir()
    write_converted(folder, Converted(("a", "b", "c"), rows), {"train": 2})
    train, held_out = both(folder)
    assert train.class_names == ("a", "b", "c") and len(train) == len(held_out) == 9
    (folder / "validation-00000-of-00001.parquet").unlink()
    assert "Parquet files of train alone: expected train, and test or" in refused(folder)


def test_pictures_of_every_kind_and_size(tmp_path):
    folder = tmp_path / "all"
    turned = Image.Exif()
    turned[0x0112] = 6
    kinds = {
        "turned.JPG": picture(0, (30, 10), kind="JPEG", exif=turned),
        "clear.png": picture(2, mode="RGBA"),
        "print.jpeg": picture(3, mode="CMYK", kind="JPEG"),
        "a.webp": picture(5, kind="WEBP"),
        "a.tif": picture(6, kind="TIFF"),
        "a.bmp": picture(7, (40, 41), kind="BMP"),
    }
    for split in ("train", "test"):
        for name, content in kinds.items():
            for each in ("one", "two"):
                (folder / split / each).mkdir(parents=True, exist_ok=True)
                (folder / split / each / name).write_bytes(content)
    data = datasets.load(folder, "train", image_size=8)
    expected = {
        pixels(square(as_shown(open_image(each, ANYONES)), 8)).tobytes() for each in kinds.values()
    }
    assert {image.numpy().tobytes() for image in data.images} == expected
    assert data.images.shape == (12, 3, 8, 8)


def test_what_is_no_picture_is_left_out_and_told(split_folder, capsys):
    for name in ("Thumbs.db", "notes.txt", "more.txt", ".hidden.png", ".DS_Store", "README"):
        (split_folder / "train" / "cat" / name).write_bytes(b"")
    outside = ["train/.git/cat/0.png", "train/loose.png", "labels/0.png", "train/__MACOSX/a.png"]
    fill(split_folder, outside, 70)
    (split_folder / "train" / "bird").mkdir()
    (split_folder / "test" / "bird").mkdir()
    assert len(datasets.load(split_folder, "train")) == 10
    said = capsys.readouterr().err.splitlines()[-1]
    left_out = "4 hidden", "1 .db", "2 .txt", "1 without ending", "1 pictures outside of a class"
    for told in (*left_out, "1 folders beside train", "left out, without a picture: bird"):
        assert told in said


def test_nested_folders_belong_to_their_class_and_links_in_a_circle_are_met_once(
    split_folder, capsys
):
    fill(split_folder, ["train/cat/below/0.png"], 70)
    for name, leads_to in (("up", "train"), ("back", "train/cat/below")):
        (split_folder / "train/cat/below" / name).symlink_to(split_folder / leads_to)
    assert datasets.load(split_folder, "train").labels.bincount().tolist() == [6, 5]
    assert "2 folders that lead back" in capsys.readouterr().err


def test_one_file_in_two_places_is_refused(split_folder):
    os.link(split_folder / "train/cat/0.png", split_folder / "test/dog/more.png")
    said = refused(split_folder)
    assert "more.png" in said and "are one file, in" in said and "remove one" in said


def test_broken_pictures_are_named(split_folder, monkeypatch, root):
    (split_folder / "train/cat/0.png").write_bytes(picture(0)[:90])
    (split_folder / "train/cat/1.png").write_text("no picture")
    (split_folder / "train/dog/gone.png").symlink_to(split_folder / "nowhere")
    os.mkfifo(split_folder / "train/dog/pipe.png")
    (split_folder / "test/dog/0.png").write_bytes(b"")
    told = ": 5 of 16 pictures cannot be read: .*and 2 more: expected whole JPEG"
    assert re.search(told, refused(split_folder))
    assert [each.name for each in (root / "folders").iterdir() if each.is_dir()] == ["met"]


def test_what_may_not_be_read_is_named(split_folder, monkeypatch):
    read, look = Path.read_bytes, Path.iterdir

    def shut(path):
        if path.name in ("3.png", "dog"):
            raise PermissionError(13, "Permission denied", str(path))
        return (look if path.is_dir() else read)(path)

    monkeypatch.setattr(Path, "read_bytes", shut)
    assert re.search(
        r": 2 of 14 pictures cannot be read: .*3.png \(Permission denied\)", refused(split_folder)
    )
    monkeypatch.setattr(Path, "iterdir", shut)
    assert "test/dog cannot be read (Permission denied): mend its permissions" in refused(
        split_folder
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "has no pictures in classes: expected FOLDER/CLASS/picture.jpg, or"),
        (["a.png", "b.txt"], r"has no pictures in classes \(.*1 pictures outside of a class"),
        (classes(names=("cat",)), "has one class, cat: expected two or more"),
        (classes("flowers/"), "has one class, flowers: .*if its classes lie deeper, give"),
        (classes(names=("Cat", "cat", "dog")), "classes Cat and cat, which are one on many file"),
        (classes(names=("re\u0301", "r\u00e9", "dog")), "have one name, written in two ways"),
        (
            [*classes("train/", names=("cat", "dog", "eel", "fox")), *classes("val/")],
            "has no picture of eel, fox in validation, and has elsewhere: expected the same",
        ),
        ([*classes("train/"), "test/notes.txt"], "no picture of cat, dog in test"),
        ([*classes("train/"), *classes("val/"), *classes("valid/")], "has val and valid for one"),
        ([*classes(), "eel/0.png"], "has one picture of eel: expected two or more"),
    ],
)  # fmt: skip
def test_folders_that_are_refused(names, message, tmp_path, root):
    (folder := tmp_path / "pets").mkdir()
    fill(folder, names)
    assert re.search(message, refused(folder))
    assert not (root / "folders" / ".making").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("file,label\na.png,1\n", "has the columns file, label: expected path,label"),
        ("path;label\na.png;1\n", "has the columns path;label: expected path,label"),
        ("path,label\na.png,\n", "row 1 of .* lacks a path or a label"),
        ("path,label\na.png,1\na.png,2\n", "row 2 of .* names a.png a second time"),
        (
            "path,label,split\na.png,1,dev\n",
            "row 1 of .* has the split 'dev': expected one of train",
        ),
        ("path,label,split\na.png,1,train\nb.png,2,\n", "says no split of 1 rows, and one of the"),
        ("path,label,split\na.png,1,train\nb.png,2,train\n", "has only train: expected train, and"),
        ("path,label\n", "has no pictures in classes"),
        ("path,label\na.png,1,2\n", "is no table to read"),
        ("", "is no table to read"),
    ],
)
def test_tables_that_are_refused(content, message, tmp_path):
    (tmp_path / "pets.csv").write_text(content)
    assert re.search(message, refused(tmp_path / "pets.csv"))


def test_a_path_at_which_nothing_is_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.zip").write_bytes(b"PK")
    assert "x.zip is no folder and no table: expected FOLDER/CLASS" in refused("x.zip")
    for path in ("/no/such/folder", "~nobody-here/x", "no/such"):
        assert "no folder or table" in refused(path)


def test_a_registered_name_wins_and_a_folder_comes_before_unknown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "digits", classes())
    fill(tmp_path / "pets", classes())
    assert datasets.name_of("digits") == "digits" and len(datasets.load("digits", "test")) == 355
    assert datasets.name_of("./digits").startswith("digits@")
    assert datasets.name_of("pets").startswith("pets@")
    with pytest.raises(UnknownNameError, match="unknown data set 'pet': known: centred_digits"):
        datasets.name_of("pet")
    with pytest.raises(
        DatasetError, match="pets@00000000 is a folder of somebody's that is not kept"
    ):
        datasets.load("pets@00000000", "train")


def test_a_second_start_opens_no_picture(split_folder, monkeypatch):
    first, _ = both(split_folder)

    def opened(*_):
        raise AssertionError("a picture was opened")

    for module in ("own.kept", "stored.reading"):
        monkeypatch.setattr(f"vitbook.datasets.{module}.open_image", opened)
    again = datasets.load(split_folder, "train")
    assert torch.equal(again.images, first.images) and torch.equal(again.labels, first.labels)
    assert (again.class_names, again.provenance) == (first.class_names, first.provenance)


def test_what_changes_changes_the_name(split_folder):
    def renamed_class():
        for split in ("train", "test"):
            (split_folder / split / "dog").rename(split_folder / split / "hound")

    names = [datasets.name_of(split_folder)]
    dog = split_folder / "train/dog"
    for change in (
        lambda: (split_folder / "train/cat/0.png").write_bytes(picture(99)),
        lambda: fill(split_folder, ["test/dog/9.png"]),
        lambda: (dog / "1.png").rename(dog / "one.png"),
        renamed_class,
    ):
        change()
        names.append(datasets.name_of(split_folder))
    assert len({*names}) == 5 and all(re.fullmatch(r"pets@[0-9a-f]{8}", name) for name in names)
    os.utime(split_folder / "train/cat/1.png", (0, 0))
    assert datasets.name_of(split_folder) == names[-1]
    split_folder.rename(split_folder.with_name("a b_ü"))
    assert datasets.name_of(split_folder.with_name("a b_ü")) == names[-1].replace("pets", "a_b")


def test_squares_that_are_damaged_are_made_again(split_folder, root):
    first = datasets.load(split_folder, "train")
    (kept,) = root.glob("folders/pets@*/train-12px.safetensors")
    whole = kept.read_bytes()
    for damage in (whole[:-9], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        kept.write_bytes(damage)
        assert torch.equal(datasets.load(split_folder, "train").images, first.images)
        assert kept.stat().st_size == len(whole)


def test_a_kill_while_reading_leaves_nothing_that_is_taken_for_whole(
    split_folder, root, monkeypatch
):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kept, "write_atomically", killed)
        patch.setattr(kept.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            datasets.name_of(split_folder)
    assert (root / "folders" / ".making").exists() and not [*root.glob("folders/*@*")]
    assert len(datasets.load(split_folder, "train")) == 10


def test_the_name_of_a_set_that_is_damaged(split_folder, root):
    name = datasets.name_of(split_folder)
    (root / "folders" / name / "about.json").write_text(json.dumps({"splits": {}}))
    with pytest.raises(DatasetError, match="is damaged .*: remove it, and give the folder"):
        datasets.load(name, "train")
