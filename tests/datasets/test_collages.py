"""Four images in one: each in its quarter, each used once."""

import pytest
import torch

from vitbook.datasets import load, make_collages


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


def test_the_masks_share_the_image_among_them():
    masks = make_collages(*of_one_brightness(4, 1), 1, image_size=4).masks
    assert torch.equal(masks.sum(0), torch.ones(4, 4, dtype=torch.long))
    assert masks[1].nonzero().tolist() == [[0, 2], [0, 3], [1, 2], [1, 3]]  # the upper right


def test_a_class_stands_in_every_quarter_and_a_seed_decides():
    digits = load("digits", "train")
    made = make_collages(digits.images, digits.labels, 60, image_size=16)
    again = make_collages(digits.images, digits.labels, 60, image_size=16)
    other = make_collages(digits.images, digits.labels, 60, image_size=16, seed=1)
    assert torch.equal(made.sources, again.sources)
    assert not torch.equal(made.sources, other.sources)
    for quarter in range(4):
        assert len(made.labels[:, quarter].unique()) == 10


def test_uneven_classes_are_used_up_as_far_as_they_go():
    images, labels = of_one_brightness(1, 8)
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3])
    assert len(make_collages(images, labels, 1, image_size=4).labels) == 1
    with pytest.raises(ValueError, match="8 images of 4 classes fill 1; ask for fewer"):
        make_collages(images, labels, 2, image_size=4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image_size": 7}, "collages of 7 px: expected an even number"),
        ({"image_size": 0}, "collages of 0 px"),
        ({"number": 0}, "0 collages of 5 classes: expected one collage or more"),
        ({"number": -1}, "-1 collages"),
        ({"labels": torch.zeros(20, dtype=torch.long)}, "of 1 classes: .* four classes or more"),
        ({"number": 6}, "fill 5"),
    ],
)
def test_what_cannot_be_is_one_sentence(change, said):
    images, labels = of_one_brightness(5, 4)
    given = {"images": images, "labels": labels, "number": 2, "image_size": 8} | change
    with pytest.raises(ValueError, match=said):
        make_collages(**given)
