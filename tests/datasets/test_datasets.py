from pathlib import Path

import pytest
import torch

from vitbook import datasets
from vitbook.datasets import Dataset, normalize
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


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="unknown data set 'digit': did you mean digits"):
        datasets.load("digit", "train")
    with pytest.raises(UnknownNameError, match="unknown split of digits 'tests': did you mean"):
        datasets.load("digits", "tests")

    with pytest.raises(UnknownNameError, match="split of tiny_imagenet 'test': .*validation"):
        datasets.load("tiny_imagenet", "test")


def test_held_out_splits():
    held_out = {
        name: datasets.held_out_split(name) for name in set(datasets.list_datasets()) - {"photos"}
    }
    assert held_out.pop("tiny_imagenet") == "validation"
    assert set(held_out.values()) == {"test"} and len(held_out) == 10
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


def test_normalize():
    pixels = torch.tensor([[[[0, 255]]]], dtype=torch.uint8)
    assert normalize(pixels).flatten().tolist() == [-1, 1]
    assert normalize(pixels.float() / 255).flatten().tolist() == [-1, 1]


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


@pytest.mark.parametrize(
    ("images", "labels", "error", "words"),
    [
        ("float32", [0, 1], TypeError, "images are float32: expected uint8 from 0 to 255"),
        ("uint8", [0, 2], ValueError, "labels from 0 to 2: expected 0 to 1 for 2 class names"),
        ("uint8", [-1, 0], ValueError, "labels from -1 to 0: expected 0 to 1"),
        ("uint8", [0], ValueError, "1 labels for 2 images: expected one for each"),
    ],
)
def test_a_data_set_that_cannot_be(images, labels, error, words, plain_vitbook):
    plain_vitbook(
        f"""
        import pytest, torch
        from vitbook.datasets import Dataset
        with pytest.raises({error.__name__}, match={words!r}):
            Dataset(torch.zeros(2, 1, 4, 4, dtype=torch.{images}), torch.tensor({labels}),
                    ("a", "b"), {{}})
        """
    )


@pytest.mark.parametrize(
    "labels",
    [
        *(f"torch.tensor([2, 0, 1], dtype=torch.{kind})"
          for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16")),
        *("np.array([2, 0, 1])", "np.array([2, 0, 1], np.uint8)", "[2, 0, 1]", "(2, 0, 1)"),
    ],
)  # fmt: skip
def test_whole_numbers_of_any_kind_are_labels(labels, plain_vitbook):
    plain_vitbook(
        f"""
        import numpy as np, torch
        from vitbook.datasets import Dataset, take_share
        made = Dataset(torch.zeros(3, 1, 2, 2).byte(), {labels}, ["a", "b", "c"], {{"name": "x"}})
        for each in (made, take_share(made, 1)):
            assert each.labels.dtype == torch.int64 and each.labels.tolist() == [2, 0, 1]
            assert each.class_names == ("a", "b", "c")
        """
    )


@pytest.mark.parametrize(
    ("labels", "error", "words"),
    [
        ("torch.tensor([0.0, 1.0])", "TypeError", "labels are float32: expected whole numbers"),
        ("torch.tensor([0.5, 0.5]).half()", "TypeError", "labels are float16: .*labels.long()"),
        ("torch.tensor([True, False])", "TypeError", "labels are bool: expected whole numbers"),
        ("[True, False]", "TypeError", "labels are bool"),
        ("np.array([0.0, 1.0])", "TypeError", "labels are float64"),
        ("['a', 'b']", "TypeError", "labels are list .*: expected whole numbers in a row"),
        ("3", "TypeError", "labels are int .*: expected whole numbers in a row"),
        ("torch.tensor([[0], [1]])", "ValueError", r"shape \\(2, 1\\): .*; use labels.squeeze"),
        ("torch.eye(2).long()", "ValueError", r"shape \\(2, 2\\): .* labels.argmax\\(1\\) of one"),
        ("torch.eye(2)", "ValueError", "labels.argmax"),
        ("torch.tensor(1)", "ValueError", "expected one whole number an image"),
        ("np.array([0, 2], np.uint8)", "ValueError", "labels from 0 to 2: expected 0 to 1"),
        ("[-1, 0]", "ValueError", "labels from -1 to 0"),
    ],
)
def test_labels_that_are_none(labels, error, words, plain_vitbook):
    plain_vitbook(
        f"""
        import numpy as np, pytest, torch
        from vitbook.datasets import Dataset
        with pytest.raises({error}, match="{words}"):
            Dataset(torch.zeros(2, 1, 2, 2).byte(), {labels}, ("a", "b"), {{}})
        """
    )


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        ("'ab'", "TypeError", "class names are 'ab': expected one text for each class"),
        ("('a', 1)", "TypeError", "the name of class 1 is 1: expected a text"),
        ("{'a', 'b'}", "TypeError", "expected one text for each class"),
        ("()", "ValueError", "no class names: expected one for each class"),
        ("('a', ' ')", "ValueError", "the name of class 1 is empty"),
        ("('a', 'b', 'a')", "ValueError", "classes 0 and 2 are both called 'a'"),
    ],
)
def test_class_names_that_are_none(names, error, words, plain_vitbook):
    plain_vitbook(
        f"""
        import pytest, torch
        from vitbook.datasets import Dataset
        with pytest.raises({error}, match="{words}"):
            Dataset(torch.zeros(2, 1, 2, 2).byte(), torch.tensor([0, 1]), {names}, {{}})
        """
    )


@pytest.mark.parametrize(
    ("images", "error", "words"),
    [
        ("torch.zeros(2, 4, 4).byte()", "ValueError", r"shape \\(2, 4, 4\\): .*unsqueeze\\(1\\)"),
        ("torch.zeros(2, 16).byte()", "ValueError", "expected .images, channels, height, width"),
        ("np.zeros((2, 1, 4, 4), np.uint8)", "TypeError", "images are ndarray: expected a tensor"),
        ("torch.zeros(2, 1, 4, 4).long()", "TypeError", "images are int64: expected uint8"),
    ],
)
def test_images_that_are_none(images, error, words, plain_vitbook):
    plain_vitbook(
        f"""
        import numpy as np, pytest, torch
        from vitbook.datasets import Dataset
        with pytest.raises({error}, match="{words}"):
            Dataset({images}, torch.tensor([0, 1]), ("a", "b"), {{}})
        """
    )


def test_an_empty_data_set_is_one():
    empty = Dataset(torch.zeros(0, 1, 4, 4, dtype=torch.uint8), torch.zeros(0).long(), ("a",), {})
    assert len(empty) == 0
