import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.analysis import (
    bootstrap_interval,
    centre_maps,
    deletion,
    edge_maps,
    insertion,
    integrated_gradients,
    pointing,
    random_maps,
)
from vitbook.analysis.attribution.faithfulness import order


class Ink(nn.Module):
    """Two classes; the first one's odds grow by a known factor with each patch's ink."""

    def __init__(self, weights):
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, images):
        patches = images.unfold(2, 2, 2).unfold(3, 2, 2).mean((1, 4, 5))
        first = (patches * self.weights).sum((1, 2))
        return torch.stack([first, torch.zeros_like(first)], dim=1)


WEIGHTS = torch.tensor([[1.0, 4.0, 2.0], [8.0, -3.0, 0.5]])
MODEL, IMAGES, TARGETS = Ink(WEIGHTS), torch.ones(1, 1, 4, 6), torch.tensor([0])
PERFECT = WEIGHTS[None]


def chance(logit):
    return 1 / (1 + math.exp(-logit))


def test_deletion_by_hand():
    curve = deletion(MODEL, IMAGES, TARGETS, PERFECT, baseline=0.0, steps=6)
    left = [12.5, 4.5, 0.5, -1.5, -2.5, -3, 0]  # without 8, 4, 2, 1, 0.5, -3
    assert curve.shares.tolist() == pytest.approx([i / 6 for i in range(7)])
    assert curve.scores[0].tolist() == pytest.approx([chance(logit) for logit in left])
    chances = [chance(logit) for logit in left]
    area = (sum(chances) - (chances[0] + chances[-1]) / 2) / 6
    assert curve.areas.tolist() == pytest.approx([area])


def test_insertion_by_hand():
    curve = insertion(MODEL, IMAGES, TARGETS, PERFECT, baseline=0.0, steps=3)
    there = [0, 12, 15, 12.5]  # with 8 and 4, 2 and 1, 0.5 and -3
    assert curve.scores[0].tolist() == pytest.approx([chance(logit) for logit in there])


def test_no_order_of_a_linear_model_beats_the_perfect_one_nor_is_worse_than_its_inverse():
    maps = torch.cat([PERFECT, -PERFECT, random_maps(60, (2, 3))])
    images, targets = IMAGES.expand(62, -1, -1, -1), TARGETS.expand(62)
    gone = deletion(MODEL, images, targets, maps, baseline=0.0, steps=6).areas
    come = insertion(MODEL, images, targets, maps, baseline=0.0, steps=6).areas
    assert (gone[0] <= gone + 1e-6).all() and (gone[1] >= gone - 1e-6).all()
    assert (come[0] >= come - 1e-6).all() and (come[1] <= come + 1e-6).all()
    assert gone[0] < gone[1] - 0.2 and come[0] > come[1] + 0.2


def test_insertion_is_deletion_backwards():
    maps = random_maps(1, (2, 3))
    gone = deletion(MODEL, IMAGES, TARGETS, maps, baseline=0.3, steps=6)
    come = insertion(MODEL, IMAGES, TARGETS, -maps, baseline=0.3, steps=6)
    assert torch.allclose(gone.scores, come.scores.flip(1))


def test_the_default_baselines():
    generator = torch.Generator().manual_seed(0)
    images, maps = torch.rand(2, 1, 4, 6, generator=generator), random_maps(2, (2, 3))
    targets = torch.tensor([0, 1])
    gone = deletion(MODEL, images, targets, maps, steps=6)
    mean = images.mean((2, 3), keepdim=True).expand_as(images)
    told = MODEL(mean).softmax(1).gather(1, targets[:, None])[:, 0]
    assert torch.allclose(gone.scores[:, -1], told)
    come = insertion(MODEL, images, targets, maps, steps=6)
    assert torch.allclose(come.scores[:, -1], gone.scores[:, 0])
    assert not torch.allclose(come.scores[:, 0], told)  # blurred is not mean


def test_pixels_are_cells_too():
    maps = PERFECT.repeat_interleave(2, 1).repeat_interleave(2, 2)
    patches = deletion(MODEL, IMAGES, TARGETS, PERFECT, baseline=0.0, steps=6)
    pixels = deletion(MODEL, IMAGES, TARGETS, maps, baseline=0.0, steps=6)
    assert torch.allclose(pixels.scores, patches.scores, atol=1e-6)


def test_a_batch_is_its_singles_and_a_model_is_left_as_it_came():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_micro_patch2_8", image_size=(4, 8)).train()
    model.encoder.norm.eval()
    images, targets, maps = torch.randn(5, 1, 4, 8), torch.arange(5), random_maps(5, (2, 4))
    for score in (deletion, insertion):
        curve = score(model, images, targets, maps, steps=4, batch_size=2)
        assert model.training and not model.encoder.norm.training
        assert all(p.grad is None for p in model.parameters())
        for i in range(5):
            one = slice(i, i + 1)
            single = score(model, images[one], targets[one], maps[one], steps=4)
            assert torch.allclose(single.scores[0], curve.scores[i], atol=1e-6)


def test_equal_cells_go_in_one_order_that_is_no_reading_order():
    flat = torch.zeros(3, 4, 5)
    places = order(flat)
    assert (places == places[0]).all() and places[0].sort().values.tolist() == list(range(20))
    assert places[0].tolist() != list(range(20))
    flat[:, 2, 3] = 1
    assert (order(flat)[:, 13] == 0).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_order_is_the_ranks(rows, columns, seed):
    maps = random_maps(2, (rows, columns), seed)
    for places, values in zip(order(maps), maps.flatten(1), strict=True):
        assert values[places.argsort()].tolist() == sorted(values.tolist(), reverse=True)


def test_pointing_by_hand():
    """Cells of 2 x 2 pixels; the mask is the two pixels (2, 2) and (2, 3)."""
    masks = torch.zeros(5, 4, 6, dtype=torch.bool)
    masks[:, 2, 2:4] = True
    maps = torch.zeros(5, 2, 3)
    maps[0, 1, 1] = 1  # its centre, (3, 3), is on the lower edge of the mask
    maps[1, 0, 1] = 1  # (1, 3): one pixel above it
    maps[2, 1, 2] = 1  # (3, 5): one pixel to its right
    maps[3, 0, 0] = 1  # (1, 1): one pixel up and one to the left
    hits = pointing(maps, masks)
    assert hits.tolist() == pytest.approx([1, 0, 0, 0, 1 / 6])  # the last says nothing
    assert pointing(maps, masks, 1).tolist() == pytest.approx([1, 1, 1, 0, 4 / 6])
    assert pointing(maps, masks, 1.5).tolist() == pytest.approx([1, 1, 1, 1, 1])


def test_pointing_with_pixels():
    masks = torch.zeros(1, 9, 9, dtype=torch.bool)
    masks[0, 4, 4] = True
    maps = torch.zeros(1, 9, 9)
    maps[0, 4, 7] = 1  # from its centre to the pixel's edge: 2.5 px
    assert [pointing(maps, masks, t).item() for t in (0, 2.4, 2.5)] == [0, 0, 1]


def test_bootstrap_is_the_normal_interval_of_a_large_sample():
    values = torch.randn(2000, generator=torch.Generator().manual_seed(0)) * 3 + 1
    found = bootstrap_interval(values)
    half = 1.96 * values.std().item() / math.sqrt(2000)
    assert found.mean == pytest.approx(values.mean().item())
    assert found.low == pytest.approx(found.mean - half, abs=0.02)
    assert found.high == pytest.approx(found.mean + half, abs=0.02)
    assert found == bootstrap_interval(values)
    narrow = bootstrap_interval(values, level=0.5)
    assert found.low < narrow.low < narrow.high < found.high


def test_nulls():
    random = random_maps(3, (2, 5), seed=4)
    assert torch.equal(random, random_maps(3, (2, 5), seed=4)) and random.unique().numel() == 30
    assert centre_maps(2, (3, 5)).flatten(1).argmax(1).tolist() == [7, 7]
    even = centre_maps(1, (4, 6))[0]
    assert torch.allclose(even, even.flip(0)) and torch.allclose(even, even.flip(1))
    images = torch.zeros(1, 2, 4, 6)
    images[0, 0, :, 3:] = 1  # one upright edge, 4 steps of 1, left of the pixels of column 3
    assert edge_maps(images, (2, 3)).tolist() == [[[0, 2, 0], [0, 2, 0]]]


def test_on_digits_whose_place_is_known():
    """A model that reads them, an explanation that finds them, and two that cannot know."""
    model = vitbook.load_checkpoint("cluttered_digits-vit_micro_r5_s4_32-cluttered-seed0").model
    data = datasets.load("cluttered_digits", "test")
    images, targets = datasets.normalize(data.images[:24]), data.labels[:24]
    masks = datasets.answer_masks("cluttered_digits", "test", 24)
    real = integrated_gradients(model, images, targets, steps=8)
    nulls = random_maps(24, (8, 8)), centre_maps(24, (8, 8))
    assert pointing(real, masks).mean() > 0.85
    assert all(pointing(null, masks).mean() < 0.3 for null in nulls)
    gone = deletion(model, images, targets, real, steps=8).areas
    come = insertion(model, images, targets, real, steps=8).areas
    for null in nulls:
        assert gone.mean() < deletion(model, images, targets, null, steps=8).areas.mean() - 0.1
        assert come.mean() > insertion(model, images, targets, null, steps=8).areas.mean() + 0.1
