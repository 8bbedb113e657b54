import re
from pathlib import Path

import pytest
import torch

from vitbook import datasets
from vitbook.datasets import normalize
from vitbook.errors import UnknownNameError


def test_digits_are_split_by_class_and_whole():
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    assert (len(train), len(test)) == (1442, 355)
    assert train.images.shape[1:] == (1, 8, 8)
    assert train.images.max() == 255 and train.images.min() == 0
    shares = test.labels.bincount() / (train.labels.bincount() + test.labels.bincount())
    assert shares.min() > 0.19 and shares.max() < 0.21
    ours = {tuple(image.flatten().tolist()) for image in train.images}
    theirs = {tuple(image.flatten().tolist()) for image in test.images}
    assert not ours & theirs


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    source = load_digits()
    first = source.images[0]  # the first zero is not a fifth one, so it is to train on
    image = datasets.load("digits", "train").images[0, 0]
    assert ((image.double() * 16 / 255).round() == torch.from_numpy(first)).all()


def test_photos_are_colour_photographs():
    photos = datasets.load("photos", "all")
    assert photos.images.shape == (len(photos.class_names), 3, 224, 224)
    colourful = (photos.images[:, 0].float() - photos.images[:, 2].float()).abs().mean((1, 2))
    assert (colourful > 2).all()
    assert "Eileen Collins" in photos.provenance["source"]


def test_a_photograph_is_had_in_its_own_shape_too():
    whole = datasets.whole_photo("coffee")
    assert whole.shape == (3, 400, 600) and whole.dtype == torch.uint8
    assert datasets.whole_photo("astronaut", 224).shape == (3, 224, 224)
    small = datasets.whole_photo("coffee", 100).float()
    blocks = whole.float().unflatten(1, (100, 4)).unflatten(3, (150, 4)).mean((2, 4))
    assert small.shape == blocks.shape and (small - blocks).abs().mean() < 4
    with pytest.raises(UnknownNameError, match="coffe.*did you mean coffee"):
        datasets.whole_photo("coffe")
    with pytest.raises(ValueError, match="short 0: expected a whole number, 1 or more"):
        datasets.whole_photo("coffee", 0)


@pytest.mark.parametrize(
    ("name", "split", "words"),
    [
        ("digit", "train", "unknown data set 'digit': did you mean digits"),
        ("digits", "tests", "unknown split of digits 'tests': did you mean"),
        ("cluttered_digits", "tests", "split of cluttered_digits 'tests': did you mean"),
        ("moved_digits", "all", "split of moved_digits 'all'"),
        ("tiny_imagenet", "test", "split of tiny_imagenet 'test': .*validation"),
    ],
)
def test_unknown_names(name, split, words):
    with pytest.raises(UnknownNameError, match=words):
        datasets.load(name, split)


def test_held_out_splits():
    held_out = {
        name: datasets.held_out_split(name) for name in set(datasets.list_datasets()) - {"photos"}
    }
    assert held_out.pop("tiny_imagenet") == "validation"
    assert set(held_out.values()) == {"test"} and len(held_out) == 11
    with pytest.raises(ValueError, match="photos has only 'all', no held-out split"):
        datasets.held_out_split("photos")
    with pytest.raises(UnknownNameError, match="unknown data set 'cifar'"):
        datasets.held_out_split("cifar")


def test_embedded_sets_of_another_size():
    small = datasets.load("photos", "all", image_size=112)
    whole = datasets.load("photos", "all")
    assert small.images.shape == (len(whole), 3, 112, 112)
    halved = torch.nn.functional.avg_pool2d(whole.images.float(), 2)
    assert (small.images.float() - halved).abs().mean() < 3  # the same image, not aliased
    assert small.provenance["rule"].endswith("resized to 112 px")
    digits = datasets.load("digits", "test", image_size=16)
    assert digits.images.shape[1:] == (1, 16, 16)
    with pytest.raises(ValueError, match="image_size 0: expected at least 1 pixel"):
        datasets.load("digits", "test", image_size=0)


def test_where_data_are_looked_for(tmp_path, monkeypatch):
    from vitbook.datasets import folders

    assert folders.data_root("~/x") == Path.home() / "x"
    assert folders.data_root() == Path(__file__).parents[2] / "data"
    monkeypatch.setenv("VITBOOK_DATA", str(tmp_path))
    assert folders.data_root() == tmp_path and folders.data_root("here") == Path("here")
    monkeypatch.delenv("VITBOOK_DATA")
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "site-packages/vitbook/datasets/x.py"))
    assert folders.data_root() == Path.home() / ".cache" / "vitbook"


@pytest.mark.parametrize(
    ("images", "error", "words"),
    [
        (torch.full((1, 1, 2, 2), 200.0), ValueError, "range from 200 to 200: .*divide by 255"),
        (torch.full((1, 1, 2, 2), -0.5), ValueError, "they may be normalised already"),
        (torch.full((1, 1, 2, 2), float("nan")), ValueError, "range from nan to nan"),
        (torch.zeros(1, 1, 2, 2, dtype=torch.int64), TypeError, "images are int64: expected uint8"),
    ],
)
def test_images_of_another_range(images, error, words):
    with pytest.raises(error, match=words):
        normalize(images)


def test_whole_numbers_of_any_kind_are_labels(plain_vitbook):
    plain_vitbook(
        """
        import numpy as np, torch
        from vitbook.datasets import Dataset, take_share
        row = [2, 0, 1]
        kinds = [torch.tensor(row, dtype=kind) for kind in (torch.int8, torch.int64, torch.uint16)]
        for labels in (*kinds, np.array(row), np.array(row, np.uint8), row, tuple(row)):
            made = Dataset(torch.zeros(3, 1, 2, 2).byte(), labels, ["a", "b", "c"], {"name": "x"})
            for each in (made, take_share(made, 1)):
                assert each.labels.dtype == torch.int64 and each.labels.tolist() == row
                assert each.class_names == ("a", "b", "c")
        """
    )


IMAGES = "torch.zeros(2, 1, 4, 4).byte()"
LABELS = "torch.tensor([0, 1])"
NAMES = "('a', 'b')"
NO_DATA_SET = [
    (IMAGES, "torch.tensor([0.0, 1.0])", NAMES, "TypeError: labels are float32: expected whole"),
    (IMAGES, "[True, False]", NAMES, "TypeError: labels are bool"),
    (IMAGES, "['a', 'b']", NAMES, "TypeError: labels are list .*: expected whole numbers in a row"),
    (IMAGES, "3", NAMES, "TypeError: labels are int .*: expected whole numbers in a row"),
    (IMAGES, "torch.tensor([[0], [1]])", NAMES, r"ValueError: .*\(2, 1\): .*; use labels.squeeze"),
    (IMAGES, "torch.eye(2)", NAMES, r"ValueError: .*\(2, 2\): .* labels.argmax\(1\) of one"),
    (IMAGES, "torch.tensor(1)", NAMES, "ValueError: .*expected one whole number an image"),
    (IMAGES, "[-1, 2]", NAMES, "ValueError: labels from -1 to 2: expected 0 to 1"),
    (IMAGES, "[0]", NAMES, "ValueError: 1 labels for 2 images: expected one for each"),
    (IMAGES, LABELS, "'ab'", "TypeError: class names are 'ab': expected one text for each class"),
    (IMAGES, LABELS, "('a', 1)", "TypeError: the name of class 1 is 1: expected a text"),
    (IMAGES, LABELS, "()", "ValueError: no class names: expected one for each class"),
    (IMAGES, LABELS, "('a', ' ')", "ValueError: the name of class 1 is empty"),
    (IMAGES, LABELS, "('a', 'b', 'a')", "ValueError: classes 0 and 2 are both called 'a'"),
    ("torch.zeros(2, 4, 4).byte()", LABELS, NAMES, r"ValueError: .*\(2, 4, 4\): .*unsqueeze\(1\)"),
    ("np.zeros((2, 1, 4, 4), np.uint8)", LABELS, NAMES, "TypeError: images are ndarray: expected"),
    ("torch.zeros(2, 1, 4, 4)", LABELS, NAMES, "TypeError: images are float32: expected uint8 fr"),
]


def test_what_is_no_data_set_is_refused(plain_vitbook):
    """In a process that checks no shapes, all of them at once."""
    said = plain_vitbook(
        f"""
        import numpy as np, torch
        from vitbook.datasets import Dataset
        for images, labels, names in {[case[:3] for case in NO_DATA_SET]}:
            try:
                Dataset(eval(images), eval(labels), eval(names), {{}})
            except (TypeError, ValueError) as error:
                print(f"{{type(error).__name__}}: {{error}}")
            else:
                print("taken:", labels)
        """
    ).splitlines()
    for (*given, words), sentence in zip(NO_DATA_SET, said, strict=True):
        assert re.match(words, sentence), given
