"""Sizes of one family on another task: what is asked, without weights that are fetched."""

import pytest
import torch

from vitbook import datasets
from vitbook.studies.fine_tuning import sizes

NAMES = ("red", "green", "blue")


def coloured(number: int) -> datasets.Dataset:
    """Images of one of three colours, and noise."""
    generator = torch.Generator().manual_seed(number)
    images = torch.randint(60, (number, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.arange(number) % 3
    images[torch.arange(number), labels] += 150
    about = {"name": "colours", "digest": "0", "source": "here", "license": "none"}
    return datasets.Dataset(images, labels, NAMES, about)


@pytest.fixture
def row(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "weights_folder", lambda: None)  # so both are fresh
    monkeypatch.setattr(sizes, "LITES", {"efficientnet_lite0": None})
    monkeypatch.setattr(
        sizes.datasets, "load", lambda name, split, **_: coloured(60 if split == "train" else 30)
    )
    given = dict(share=0.5, test_share=1.0, epochs=1, rate=1e-3, image_size=32, threads=1)
    (row,) = sizes.pretrained_sizes(dataset="tf_flowers", device="cpu", out=tmp_path, **given)
    return row


def test_three_draws_are_read_and_tuned_beside_a_fresh_network(row):
    assert [each["model"] for each in row.rows] == ["efficientnet_lite0", sizes.FRESH]
    for each in row.rows:
        assert len(each["frozen"]) == len(each["tuned"]) == 3
        assert each["speed"] == [1.0, 1.0, 1.0]
        # Without classes of ImageNet: the head has three.
        assert each["parameters"] == 3_371_008 + 3 * 1281
    assert row.settings["training_images"] == 30 and row.settings["test_images"] == 30
    assert max(row.rows[0]["frozen"]) > 0.9  # colours are told apart by random features, too


def test_a_network_begins_with_a_head_that_answers_nothing():
    torch.manual_seed(0)
    with torch.no_grad():
        assert not sizes.lite(sizes.FRESH, 5).eval()(torch.randn(2, 3, 64, 64)).any()
