"""Boxes, matching and the loss: against brute force, hand numbers, torchvision, and laws."""

from itertools import permutations
from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook.studies.detection import matching
from vitbook.studies.detection.boxes import corners, overlaps
from vitbook.studies.detection.canvases import Objects
from vitbook.studies.detection.detector import Answers
from vitbook.studies.detection.matching import (
    costs,
    match_best,
    match_from_left,
    set_loss,
)


def some(*counts, queries=5, classes=4, seed=0):
    """Answers and objects drawn at random: so many objects on each image."""
    dice = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(counts), queries, classes + 1, generator=dice)
    boxes = 0.1 + 0.4 * torch.rand(len(counts), queries, 4, generator=dice)
    objects = [
        Objects(
            0.3 + 0.2 * torch.rand(count, 4, generator=dice),
            torch.randint(classes, (count,), generator=dice),
        )
        for count in counts
    ]
    return Answers(logits, boxes), objects


def test_overlaps_by_hand():
    ours = torch.tensor([[0.0, 0, 2, 2]])
    theirs = torch.tensor([[1.0, 1, 3, 3], [0, 0, 2, 2], [3, 0, 5, 2], [1, 1, 1, 1]])
    iou, giou = overlaps(ours, theirs)
    torch.testing.assert_close(iou, torch.tensor([1 / 7, 1, 0, 0]))
    # Around the first pair 9, of which 7 are covered; around the third 10, of which 8 are.
    torch.testing.assert_close(giou, torch.tensor([1 / 7 - 2 / 9, 1, -0.2, 0]))
    nothing = torch.zeros(1, 4)
    assert not any(each.isnan().any() for each in overlaps(nothing, nothing))
    torch.testing.assert_close(
        corners(torch.tensor([0.5, 0.4, 0.2, 0.4])), torch.tensor([0.4, 0.2, 0.6, 0.6])
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 6))
def test_overlaps_as_torchvision_has_them(seed, ours, theirs):
    ops = pytest.importorskip("torchvision.ops")
    dice = torch.Generator().manual_seed(seed)
    a, b = (corners(0.01 + torch.rand(n, 4, generator=dice)) for n in (ours, theirs))
    iou, giou = overlaps(a[:, None], b)
    torch.testing.assert_close(iou, ops.box_iou(a, b))
    torch.testing.assert_close(giou, ops.generalized_box_iou(a, b))


def test_costs_by_hand():
    answers = Answers(
        torch.tensor([[[0.0, log(3), 0], [log(8), 0, 0]]]),
        torch.tensor([[[0.5, 0.5, 0.2, 0.2], [0.2, 0.2, 0.2, 0.2]]]),
    )
    there = Objects(torch.tensor([[0.5, 0.5, 0.2, 0.2]]), torch.tensor([1]))
    (found,) = costs(answers, [there])
    apart = 0.04 + 0.04  # two boxes in a square of 0.5 x 0.5, which is to be 0.25
    second = -0.1 + 5 * 0.6 + 2 * (0.25 - apart) / 0.25
    torch.testing.assert_close(found, torch.tensor([[-0.6 - 2], [second]]))


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**31), st.integers(0, 4))
def test_the_matching_is_the_best_of_all(seed, count):
    answers, objects = some(count, seed=seed)
    (cost,), (found,) = costs(answers, objects), match_best(answers, objects)
    assert len(set(found.tolist())) == len(found) == count
    least = min(
        sum(cost[query, place] for place, query in enumerate(way))
        for way in permutations(range(5), count)
    )
    torch.testing.assert_close(cost[found, torch.arange(count)].sum(), torch.as_tensor(least) + 0.0)


def test_more_images_in_a_batch_change_no_cost():
    """Objects are padded to the most of a batch: the padding counts for nothing."""
    answers, objects = some(2, 0, 5, 1)
    together = costs(answers, objects)
    for place, there in enumerate(objects):
        alone = costs(Answers(*(part[place : place + 1] for part in answers)), [there])[0]
        assert together[place].shape == (5, len(there))
        torch.testing.assert_close(together[place], alone)


def test_a_list_from_left_to_right_instead_of_a_set():
    answers, _ = some(3)
    boxes = torch.tensor([[0.7, 0.5, 0.1, 0.1], [0.2, 0.5, 0.1, 0.1], [0.5, 0.5, 0.1, 0.1]])
    objects = [Objects(boxes, torch.tensor([0, 1, 2]))]
    assert match_from_left(answers, objects)[0].tolist() == [2, 0, 1]
    order = torch.tensor([1, 0, 2, 3, 4])
    mixed = Answers(*(part[:, order] for part in answers))
    losses = [set_loss(each, objects, match_from_left).item() for each in (answers, mixed)]
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)  # the order of the queries counts


def test_the_loss_by_hand():
    answers = Answers(
        torch.tensor([[[0.0, log(3), 0], [log(8), 0, 0]]]),
        torch.tensor([[[0.5, 0.5, 0.2, 0.4], [0.2, 0.2, 0.2, 0.2]]]),
    )
    there = [Objects(torch.tensor([[0.5, 0.5, 0.2, 0.2]]), torch.tensor([1]))]
    of_class = (-log(0.6) - 0.1 * log(0.1)) / 1.1
    expected = of_class + 5 * 0.2 + 2 * (1 - 0.5)
    assert set_loss(answers, there, no_object=0.1).item() == pytest.approx(expected, rel=1e-5)
    alone = -log(0.6) + 5 * 0.2 + 2 * (1 - 0.5)  # "no object" counts nothing
    assert set_loss(answers, there, no_object=0.0).item() == pytest.approx(alone, rel=1e-5)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**31))
def test_neither_the_order_of_objects_nor_that_of_queries_counts(seed):
    answers, objects = some(3, 4, seed=seed)
    loss = set_loss(answers, objects)
    dice = torch.Generator().manual_seed(seed)
    mixed = []
    for there in objects:
        order = torch.randperm(len(there), generator=dice)
        mixed.append(Objects(there.boxes[order], there.labels[order]))
    torch.testing.assert_close(set_loss(answers, mixed), loss)
    order = torch.randperm(5, generator=dice)
    torch.testing.assert_close(set_loss(Answers(*(p[:, order] for p in answers)), mixed), loss)


def test_a_batch_without_objects_learns_to_say_so():
    answers, objects = some(0, 0)
    answers.logits.requires_grad_()
    loss = set_loss(answers, objects)
    expected = -answers.logits.log_softmax(-1)[..., -1].mean()
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert (answers.logits.grad[..., -1] < 0).all()
    assert set_loss(answers, objects, no_object=0.0) == 0


def test_gradients_reach_the_boxes_of_matched_queries_alone():
    answers, objects = some(2)
    answers.boxes.requires_grad_()
    set_loss(answers, objects).backward()
    moved = answers.boxes.grad[0].any(dim=-1).nonzero().flatten()
    assert sorted(match_best(answers, objects)[0].tolist()) == moved.tolist()


def test_what_comes_is_checked_once_at_the_door():
    answers, objects = some(2, 5)
    with pytest.raises(ValueError, match="objects of 1 images for 2: expected as many"):
        set_loss(answers, objects[:1])
    with pytest.raises(ValueError, match="5 objects on a canvas and 4 queries"):
        set_loss(Answers(*(part[:, :4] for part in answers)), objects)
    with pytest.raises(ValueError, match="label 3: expected 0 to 2 for 3 classes"):
        high = Objects(objects[0].boxes, torch.tensor([3, 0]))
        set_loss(Answers(answers.logits[..., :4], answers.boxes), [high, objects[1]])


@pytest.mark.parametrize("ask", [costs, match_best, set_loss])
def test_objects_that_no_query_can_tell_are_refused(ask):
    answers, objects = some(2, 5)
    with pytest.raises(ValueError, match="5 objects on a canvas and 4 queries"):
        ask(Answers(*(part[:, :4] for part in answers)), objects)
    with pytest.raises(ValueError, match="objects of 1 images for 2"):
        ask(answers, objects[:1])
    none = Objects(objects[0].boxes, torch.tensor([4, 0]))
    with pytest.raises(ValueError, match="label 4: expected 0 to 3"):
        ask(answers, [none, objects[1]])


def test_answers_that_are_not_finite_are_refused():
    answers, objects = some(2)
    with pytest.raises(ValueError, match="answers hold NaN or infinity"):
        set_loss(Answers(answers.logits * float("nan"), answers.boxes), objects)


def test_half_precision_is_matched():
    answers, objects = some(2, 5)
    half = Answers(*(part.bfloat16() for part in answers))
    exact = Answers(*(part.float() for part in half))
    pairs = [each.tolist() for each in match_best(half, objects)]
    assert pairs == [each.tolist() for each in match_best(exact, objects)]
    assert set_loss(half, objects).item() == pytest.approx(
        set_loss(exact, objects).item(), rel=0.02
    )


def test_scipy_comes_with_the_data_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.optimize", None)
    answers, objects = some(1)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "vitbook\[data\]"'):
        matching.match_best(answers, objects)
