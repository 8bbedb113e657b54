"""Canvases: what lies where, whose digits, and what is refused."""

import pytest
import torch

from vitbook import datasets
from vitbook.studies.detection.canvases import (
    COVERED,
    SIDE,
    Objects,
    _covered,
    check_objects,
    make_canvases,
)


@pytest.fixture(scope="module")
def canvases():
    return make_canvases("train", 60, seed=3)


def test_a_seed_and_a_split_decide_the_canvases(canvases):
    again = make_canvases("train", 60, seed=3)
    assert torch.equal(canvases.images, again.images)
    assert all(
        torch.equal(a.boxes, b.boxes)
        for a, b in zip(canvases.objects, again.objects, strict=True)
    )  # fmt: skip
    for other in (make_canvases("train", 60, seed=4), make_canvases("test", 60, seed=3)):
        assert not torch.equal(canvases.images, other.images)


def test_boxes_hold_all_ink_and_end_where_it_does(canvases):
    assert {len(each) for each in canvases.objects} == {1, 2, 3, 4, 5}
    for (image,), there in zip(canvases.images, canvases.objects, strict=True):
        inside = torch.zeros(SIDE, SIDE, dtype=torch.bool)
        centre, size = (part * SIDE for part in there.boxes.split(2, dim=1))
        pixels = torch.cat([centre - size / 2, centre + size / 2], dim=1)
        torch.testing.assert_close(pixels, pixels.round())
        for left, top, right, bottom in pixels.round().int().tolist():
            inside[top:bottom, left:right] = True
            box = image[top:bottom, left:right]
            assert all(edge.any() for edge in (box[0], box[-1], box[:, 0], box[:, -1]))
        assert not image[~inside].any()


def test_digits_hardly_cover_one_another_and_are_once_to_twice_as_large(canvases):
    for there in canvases.objects:
        centre, size = (part * SIDE for part in there.boxes.split(2, dim=1))
        boxes = torch.cat([centre - size / 2, centre + size / 2], dim=1).tolist()
        assert size[:, 1].min() >= 7 and size.max() <= 16
        for place, box in enumerate(boxes):
            assert all(
                _covered(tuple(box), tuple(other)) <= COVERED + 1e-5 for other in boxes[:place]
            )


def test_held_out_canvases_show_held_out_digits_alone(monkeypatch):
    asked = []
    load = datasets.load
    monkeypatch.setattr(datasets, "load", lambda *given: asked.append(given) or load(*given))
    make_canvases("test", 2)
    assert asked == [("digits", "test")]


def test_those_with_few_objects(canvases):
    few = canvases.with_at_most(2)
    assert {len(each) for each in few.objects} == {1, 2}
    place = [len(each) <= 2 for each in canvases.objects]
    assert torch.equal(few.images, canvases.images[place])


BOX = [0.5, 0.5, 0.2, 0.2]


@pytest.mark.parametrize(
    ("boxes", "labels", "told"),
    [
        ([[0.95, 0.5, 0.2, 0.2]], [1], r"box \(0.95, 0.5, 0.2, 0.2\) reaches beyond the canvas"),
        ([[20.0, 20.0, 8.0, 8.0]], [1], "divide pixels by its sides"),
        ([[0.5, float("nan"), 0.2, 0.2]], [1], "reaches beyond the canvas"),
        ([[0.5, 0.5, 0.0, 0.2]], [1], r"box \(0.5, 0.5, 0, 0.2\) has no area"),
        ([[0.5, 0.5, 0.2, -0.2]], [1], "has no area"),
        ([BOX], [-1], "label -1: expected 0 or more"),
        ([BOX], [1, 2], r"labels of shape \(2,\) for 1 boxes: expected one for each"),
        ([BOX[:3]], [1], r"boxes of shape \(1, 3\): expected \(objects, 4\)"),
    ],
)
def test_objects_that_are_none(boxes, labels, told):
    with pytest.raises(ValueError, match=told):
        Objects(torch.tensor(boxes), torch.tensor(labels))


def test_what_a_detector_cannot_answer():
    three = Objects(torch.tensor([BOX] * 3), torch.tensor([1, 2, 10]))
    with pytest.raises(ValueError, match="3 objects on a canvas and 2 queries.*more queries"):
        check_objects([three], 2, 11)
    with pytest.raises(ValueError, match="label 10: expected 0 to 9 for 10 classes"):
        check_objects([three], 3, 10)
    with pytest.raises(ValueError, match="number 0: expected a whole number, 1 or more"):
        make_canvases("train", 0)
