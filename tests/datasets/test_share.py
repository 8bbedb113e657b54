import pytest
import torch

from vitbook import datasets
from vitbook.datasets import Dataset, DatasetError, take_share


def counted(*per_class):
    labels = torch.cat([torch.full((n,), label) for label, n in enumerate(per_class)])
    images = torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None].clone()
    names = tuple("abcdef"[: len(per_class)])
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(7))
    return Dataset(images[order], labels[order], names, {"name": "letters"})


def shown(dataset):
    return set(dataset.images.flatten().tolist())


def test_each_class_gives_the_same_share():
    part = take_share(counted(40, 20, 100), 0.25)
    assert part.labels.bincount().tolist() == [10, 5, 25]
    assert part.provenance == {
        "name": "letters, 25 % of each class",
        "pictures": 40,
        "share": "0.25 of each class, 40 of 160, seed 0",
    }


def test_a_smaller_share_lies_inside_a_larger_one():
    whole = counted(40, 20, 100)
    small, large = (shown(take_share(whole, share, 3)) for share in (0.1, 0.5))
    assert small < large < shown(whole)
    assert small != shown(take_share(whole, 0.1, 4))
    assert small == shown(take_share(whole, 0.1, 3))


def test_the_images_keep_their_labels_and_their_order():
    whole = counted(40, 20, 100)
    label_of = dict(zip(whole.images.flatten().tolist(), whole.labels.tolist(), strict=True))
    part = take_share(whole, 0.3)
    kept = part.images.flatten().tolist()
    assert [label_of[image] for image in kept] == part.labels.tolist()
    assert kept == [image for image in whole.images.flatten().tolist() if image in shown(part)]


def test_all_is_the_data_set_itself():
    whole = datasets.load("digits", "train")
    assert take_share(whole, 1) is whole and take_share(whole, 1.0) is whole


def test_shares_that_cannot_be():
    told = r"0.01 leaves no image of b .it has 20 in letters.: .*0.05"
    with pytest.raises(DatasetError, match=told):
        take_share(counted(100, 20), 0.01)
    for share in (0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="expected more than 0, up to 1"):
            take_share(counted(4, 4), share)


def test_what_comes_in_packages_is_here_and_what_has_no_files_is_not(tmp_path):
    assert datasets.is_here("photos", tmp_path)
    assert not datasets.is_here("cifar10", tmp_path)
    with pytest.raises(KeyError, match="unknown data set 'cifar'"):
        datasets.is_here("cifar")
