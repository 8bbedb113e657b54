"""Next pixels: what reaches a prediction, and the loss by hand."""

import math

import pytest
import torch

import vitbook
from vitbook import datasets
from vitbook.datasets import Dataset, normalize
from vitbook.models.papers.igpt import IGPT
from vitbook.models.papers.vit import Body, vit
from vitbook.runs import Recipe
from vitbook.studies.self_supervision import NextPixels, continue_pixels
from vitbook.studies.self_supervision.next_pixels import grey_levels, level_bytes
from vitbook.training import train

BODY = dict(channels=1, num_classes=3, body=Body(16, 2, num_heads=2, mlp_width=16)) | IGPT


def some_digits(n=6, split="train"):
    return datasets.load("digits", split).images[:n]


def as_data(images):
    labels = torch.zeros(len(images), dtype=torch.int64)
    return Dataset(images, labels, ("one",), {"name": "some"})


def random_learner(levels=17, **sizes):
    """Weights that are no zeros: every pixel weighs in what comes behind it."""
    torch.manual_seed(0)
    body = vit(**BODY | sizes) if sizes else vitbook.create_model("igpt_micro_patch1_8")
    learner = NextPixels(body, levels)
    for weight in learner.parameters():
        weight.data += 0.2 * torch.randn_like(weight)
    return learner.eval()


@pytest.mark.parametrize("levels", [2, 17, 256])
def test_levels_are_the_nearest_of_equal_steps(levels):
    every = torch.arange(levels)
    assert torch.equal(grey_levels(level_bytes(every, levels), levels), every)
    bytes_ = torch.arange(256, dtype=torch.uint8)
    shown = grey_levels(bytes_, levels) * 255 / (levels - 1)
    assert (shown - bytes_.double()).abs().max() <= 255 / (levels - 1) / 2 + 1e-4


@pytest.mark.parametrize("sizes", [{}, {"image_size": (3, 5)}])
@pytest.mark.parametrize("training", [False, True])
@torch.no_grad()
def test_no_prediction_hears_of_its_pixel_or_of_one_behind_it(sizes, training):
    learner = random_learner(**sizes).train(training)
    rows, columns = learner.model.grid_size
    chance = torch.Generator().manual_seed(0)
    greys = torch.randint(17, (3, rows * columns), generator=chance)

    def read(greys):
        images = normalize(level_bytes(greys).unflatten(1, (1, rows, columns)))
        return learner(images).logits, learner.model.features(images)

    before, tokens = read(greys)
    for pixel in range(rows * columns):
        changed = greys.clone()
        changed[:, pixel] = (changed[:, pixel] + 8) % 17
        after, theirs = read(changed)
        assert torch.equal(after[:, : pixel + 1], before[:, : pixel + 1])
        assert (after[:, pixel + 1 :] != before[:, pixel + 1 :]).any(dim=-1).all()
        # So a probe that reads a token reads no pixel behind it: the class token none at all.
        assert torch.equal(theirs[:, : pixel + 1], tokens[:, : pixel + 1])


@torch.no_grad()
def test_the_loss_is_that_of_a_loop():
    learner, images = random_learner(levels=5), some_digits()
    guesses = learner(normalize(images))
    total, right = 0.0, 0
    for image in images:
        levels = [round(int(byte) * 4 / 255) for byte in image.flatten()]
        shown = torch.tensor([round(level * 255 / 4) for level in levels], dtype=torch.uint8)
        tokens = learner.model.features(normalize(shown.view(1, 1, 8, 8)))[0]
        for token, level in zip(tokens, levels, strict=False):  # the last token has none
            logits = learner.predictor(token).double()
            total -= math.log(logits.exp()[level] / logits.exp().sum())
            right += int(logits.argmax()) == level
    pixels = images.numel()
    assert guesses.loss.item() == pytest.approx(total / pixels, rel=1e-5)
    assert learner.score(as_data(images)) == pytest.approx(
        {"accuracy": right / pixels, "held_out_loss": total / pixels}, rel=1e-5
    )


def test_images_whose_pixels_follow_from_the_first_are_learned():
    # Of two images, each pixel but the first is told by those in front of it.
    images = torch.stack([torch.full((1, 3, 4), 255), torch.zeros(1, 3, 4)]).to(torch.uint8)
    data = as_data(images.repeat(16, 1, 1, 1))
    learner = random_learner(image_size=(3, 4))
    recipe = Recipe("two images", 60, 16, 1e-2, weight_decay=0.0, objective="next_pixels")
    outcome = train(learner, data, recipe, test=data, device="cpu", progress=False)
    assert outcome.curve[-1]["held_out_loss"] == pytest.approx(math.log(2) / 12, rel=0.1)


def test_images_are_gone_on_with_behind_their_first_rows():
    learner, images = random_learner(image_size=8), some_digits(3, "test")
    made = continue_pixels(learner, images, 5, torch.Generator().manual_seed(0))
    assert torch.equal(made[:, :, :5], images[:, :, :5]) and not torch.equal(made, images)
    hidden = images.clone()
    hidden[:, :, 5:] = 77  # what stands below is not looked at
    again = continue_pixels(learner, hidden, 5, torch.Generator().manual_seed(0))
    assert torch.equal(again, made)
    other = continue_pixels(learner, images, 5, torch.Generator().manual_seed(1))
    assert not torch.equal(other, made)
    assert torch.equal(continue_pixels(learner, images, 8, torch.Generator()), images)


@torch.no_grad()
def test_pixels_are_drawn_by_their_probabilities():
    learner = random_learner(image_size=(1, 2))
    nothing = torch.zeros(20_000, 1, 1, 2, dtype=torch.uint8)
    made = continue_pixels(learner, nothing, 0, torch.Generator().manual_seed(0))
    first = learner(normalize(nothing[:1])).logits[0, 0].softmax(dim=-1)
    counts = grey_levels(made)[:, 0, 0, 0].bincount(minlength=17)
    deviation = (20_000 * first * (1 - first)).sqrt()
    assert ((counts - 20_000 * first).abs() < 4.5 * deviation).all()
