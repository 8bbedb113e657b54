"""Four images in one: each in its quarter, each used once."""

import pytest
import torch

from vitbook.datasets import load
from vitbook.studies.interventions import make_collages


def of_one_brightness(classes: int, each: int):
    """Image i is everywhere i."""
    number = classes * each
    images = torch.arange(number, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 6, 6)
    return images.contiguous(), torch.arange(classes).repeat_interleave(each)


def test_each_quarter_is_the_image_that_it_says():
    images, labels = of_one_brightness(5, 4)
    made = make_collages(images, labels, 5, image_size=8)
    assert made.images.shape == (5, 1, 8, 8) and made.images.dtype == torch.uint8
    for image, mine, sources in zip(made.images, made.labels, made.sources, strict=True):
        for quarter, mask in enumerate(made.masks):
            assert (image[0][mask] == sources[quarter]).all()
        assert torch.equal(labels[sources], mine) and len(mine.unique()) == 4
    assert len(made.sources.unique()) == 20  # all images, each once
    assert torch.equal(made.masks.sum(0), torch.ones(8, 8, dtype=torch.long))
    assert made.masks[1].nonzero().min(0).values.tolist() == [0, 4]  # the upper right


def test_a_class_stands_in_every_quarter_and_a_seed_decides():
    digits = load("digits", "train")
    made, again, other = (
        make_collages(digits.images, digits.labels, 60, image_size=16, seed=seed)
        for seed in (0, 0, 1)
    )
    assert torch.equal(made.sources, again.sources)
    assert not torch.equal(made.sources, other.sources)
    for quarter in range(4):
        assert len(made.labels[:, quarter].unique()) == 10


def test_uneven_classes_are_used_up_as_far_as_they_go():
    images, labels = of_one_brightness(1, 8)[0], torch.tensor([0, 0, 0, 1, 1, 2, 2, 3])
    assert len(make_collages(images, labels, 1, image_size=4).labels) == 1
    with pytest.raises(ValueError, match="8 images of 4 classes fill 1; ask for fewer"):
        make_collages(images, labels, 2, image_size=4)
    with pytest.raises(ValueError, match="of 1 classes fill 0"):
        make_collages(images, torch.zeros(8, dtype=torch.long), 1)
