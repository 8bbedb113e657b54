"""Epochs of a stated number of images: pass after pass, without a break."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from vitbook.datasets import Dataset
from vitbook.runs import Recipe
from vitbook.training import train
from vitbook.training.engine.batches import Batches

RECIPE = Recipe(name="r", epochs=2, batch_size=4, learning_rate=1e-3)


def numbered(n):
    images = torch.arange(n, dtype=torch.uint8)[:, None, None, None]
    return Dataset(images, torch.zeros(n).long(), ("a",), {"name": "numbers"})


def batches(n, **changes):
    return Batches(numbered(n), replace(RECIPE, **changes), 0, torch.device("cpu"))


def shown(made, steps):
    return [made.shown_at(step).tolist() for step in range(steps)]


def flat_list(made, steps):
    return [image for batch in shown(made, steps) for image in batch]


def test_each_pass_shows_every_image_once_across_the_batches():
    made = batches(10, epoch_images=40)
    assert made.steps_an_epoch == 10
    flat = flat_list(made, 10)
    for number in range(4):
        assert flat[number * 10 : (number + 1) * 10] == made.order(number).tolist()
        assert sorted(flat[number * 10 : (number + 1) * 10]) == list(range(10))
    assert flat[:10] != flat[10:20]


def test_a_batch_may_be_larger_than_the_data():
    made = batches(3, epoch_images=16, batch_size=8)
    flat = flat_list(made, 6)
    assert made.steps_an_epoch == 2 and len(flat) == 48
    assert all(times == 16 for times in Counter(flat).values())


def test_repeats_stand_side_by_side():
    flat = flat_list(batches(5, epoch_images=20, repeats=2), 5)
    assert all(first == second for first, second in zip(flat[::2], flat[1::2], strict=True))


def test_a_step_is_a_function_of_its_number():
    forwards = shown(batches(10, epoch_images=40), 10)
    made = batches(10, epoch_images=40)
    assert [made.shown_at(step).tolist() for step in reversed(range(10))] == forwards[::-1]


def test_without_it_an_epoch_is_a_pass_and_leaves_a_short_batch_out():
    made = batches(10)
    assert made.steps_an_epoch == 2
    assert shown(made, 4) == [
        made.order(epoch).tolist()[place : place + 4] for epoch in (0, 1) for place in (0, 4)
    ]


def test_fewer_images_than_a_batch():
    with pytest.raises(ValueError, match="batch_size 4 is more than the 3 images of an epoch"):
        batches(10, epoch_images=3)


def test_small_and_large_data_take_the_same_steps():
    runs = []
    for n in (12, 96):
        recipe = replace(RECIPE, epoch_images=48, batch_size=12)
        runs.append(train(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1, 1)),
                          numbered(n), recipe, progress=False))  # fmt: skip
    assert [run.data_passes for run in runs] == [8, 1]
    assert [len(run.curve) for run in runs] == [2, 2]
    rates = [[row["learning_rate"] for row in run.curve] for run in runs]
    assert rates[0] == rates[1]
