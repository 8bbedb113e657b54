"""Next pixels: what reaches a prediction, the loss by hand, the null, and images gone on with."""

import math
from collections import Counter

import pytest
import torch
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.datasets import Dataset, normalize
from vitbook.models.igpt import igpt
from vitbook.training import Recipe, train
from vitbook.training.objectives.next_pixels import (
    NextPixels,
    PixelGuesses,
    commonest_level,
    continue_pixels,
    evaluate_pixels,
    grey_levels,
    level_bytes,
)

BODY = dict(channels=1, width=16, depth=2, num_heads=2, mlp_width=16, num_classes=3)


def some_digits(n=6, split="train"):
    return datasets.load("digits", split).images[:n]


def as_data(images):
    labels = torch.zeros(len(images), dtype=torch.int64)
    return Dataset(images, labels, ("one",), {"name": "some"})


def random_learner(levels=17, **sizes):
    """Weights that are no zeros: every pixel weighs in what comes behind it."""
    torch.manual_seed(0)
    body = igpt(**BODY | sizes) if sizes else vitbook.create_model("igpt_micro_patch1_8")
    learner = NextPixels(body, levels)
    for weight in learner.parameters():
        weight.data += 0.2 * torch.randn_like(weight)
    return learner.eval()


def test_digits_have_seventeen_greys_that_come_back():
    images = datasets.load("digits", "train").images
    assert grey_levels(images).unique().tolist() == list(range(17))
    assert torch.equal(level_bytes(grey_levels(images)), images)


@pytest.mark.parametrize("levels", [2, 3, 17, 255, 256])
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


def test_the_last_pixel_alone_is_read_by_none():
    learner = random_learner()
    images = normalize(some_digits()).requires_grad_()
    features = learner.model.features(images)
    (gradient,) = torch.autograd.grad(learner.predictor(features[:, :-1]).sum(), images)
    assert (gradient.flatten(1)[:, -1] == 0).all() and (gradient.flatten(1)[:, :-1] != 0).all()


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
    assert guesses.accuracy == pytest.approx(right / pixels)
    for size in (4, 100):
        accuracy, loss = evaluate_pixels(learner, as_data(images), batch_size=size)
        assert (accuracy, loss) == pytest.approx((right / pixels, total / pixels), rel=1e-5)


def test_who_knows_all_loses_nothing_and_who_knows_nothing_log_17():
    targets = grey_levels(some_digits()).flatten(1)
    knows = PixelGuesses(200.0 * nn.functional.one_hot(targets, 17), targets)
    assert (knows.loss.item(), knows.accuracy) == (0, 1)
    guesses = PixelGuesses(torch.zeros(*targets.shape, 17), targets)
    assert guesses.loss.item() == pytest.approx(math.log(17), rel=1e-5)


def test_images_whose_pixels_follow_from_the_first_are_learned():
    # Of two images, each pixel but the first is told by those in front of it.
    images = torch.stack([torch.full((1, 3, 4), 255), torch.zeros(1, 3, 4)]).to(torch.uint8)
    data = as_data(images.repeat(16, 1, 1, 1))
    learner = random_learner(image_size=(3, 4))
    recipe = Recipe("two images", 60, 16, 1e-2, weight_decay=0.0, objective="next_pixels")
    outcome = train(learner, data, recipe, test=data, device="cpu", progress=False)
    assert outcome.curve[-1]["held_out_loss"] == pytest.approx(math.log(2) / 12, rel=0.1)
    white, black = continue_pixels(learner, images, 1)
    assert torch.equal(white, images[0]) and torch.equal(black, images[1])
    made = continue_pixels(
        learner, images[:1].expand(40, -1, -1, -1), 0, torch.Generator().manual_seed(0)
    ).flatten(1)
    alike = (made == made[:, :1]).all(dim=1)
    assert alike.sum() >= 36 and {0, 255} <= set(made[alike, 0].tolist())


@torch.no_grad()
def test_images_are_gone_on_with_pixel_by_pixel():
    learner, images = random_learner(), some_digits(3)
    made = continue_pixels(learner, images, 5)
    assert torch.equal(made[:, :, :5], images[:, :, :5])
    likeliest = learner(normalize(made)).logits.argmax(dim=-1)  # each from what is there now
    assert torch.equal(grey_levels(made).flatten(1)[:, 40:], likeliest[:, 40:])
    # What stands below is not looked at, and the same generator draws the same.
    hidden = images.clone()
    hidden[:, :, 5:] = 77
    assert torch.equal(continue_pixels(learner, hidden.permute(0, 1, 3, 2).mT, 5), made)
    once, again, other = (
        continue_pixels(learner, images, 5, torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    )
    assert torch.equal(once, again) and not torch.equal(once, other)
    assert torch.equal(continue_pixels(learner, images, 8), images)


@torch.no_grad()
def test_pixels_are_drawn_by_their_probabilities():
    learner = random_learner(image_size=(1, 2))
    nothing = torch.zeros(20_000, 1, 1, 2, dtype=torch.uint8)
    drawn = grey_levels(continue_pixels(learner, nothing, 0, torch.Generator().manual_seed(0)))
    first = learner(normalize(nothing[:1])).logits[0, 0].softmax(dim=-1)
    counts = drawn[:, 0, 0, 0].bincount(minlength=17)
    deviation = (20_000 * first * (1 - first)).sqrt()
    assert ((counts - 20_000 * first).abs() < 4.5 * deviation).all()


def test_the_null_answers_place_by_place():
    training = level_bytes(torch.tensor([[0, 3], [0, 3], [0, 5], [1, 5], [1, 3]]))
    held_out = level_bytes(torch.tensor([[0, 3], [1, 9]]))
    null = commonest_level(training.view(5, 1, 1, 2), held_out.view(2, 1, 1, 2))
    assert null.accuracy == 0.5
    shares = [4 / 22, 3 / 22, 4 / 22, 1 / 22]  # one more than was counted, of 5 + 17
    assert null.cross_entropy == pytest.approx(-sum(map(math.log, shares)) / 4)
    images, others = some_digits(200), some_digits(50, "test")
    null, right = commonest_level(images, others), 0
    for place in range(64):
        levels = Counter(grey_levels(images).flatten(1)[:, place].tolist())
        most = max(levels.values())
        best = min(level for level, count in levels.items() if count == most)
        right += int((grey_levels(others).flatten(1)[:, place] == best).sum())
    assert null.accuracy == pytest.approx(right / 64 / 50)


@pytest.mark.parametrize(
    "name, sizes",
    [
        ("vit_micro_patch1_8", {}),
        ("axial_vit_micro_patch1_8", {}),
        ("igpt_micro_patch1_8", {"channels": 3}),
        ("resnet8_digits", {}),
    ],
)
def test_a_model_that_sees_ahead_or_reads_no_greys(name, sizes):
    with pytest.raises(ValueError, match="expected a causal Vision Transformer, one token for"):
        NextPixels(vitbook.create_model(name, **sizes))


def test_what_is_no_grey_image():
    learner = random_learner()
    with pytest.raises(ValueError, match="one token for each pixel"):
        NextPixels(igpt(image_size=8, patch_size=2, **BODY))
    for levels in (1, 257):
        with pytest.raises(
            ValueError, match=f"{levels} levels of grey: expected a whole number from"
        ):
            NextPixels(learner.model, levels)
    with pytest.raises(ValueError, match="images range from -1 to 3: expected -1 to 1"):
        learner(torch.tensor([-1.0, 3.0]).repeat(32).view(1, 1, 8, 8))
    for rows in (-1, 9):
        with pytest.raises(ValueError, match="rows given: expected a whole number from 0 to 8"):
            continue_pixels(learner, some_digits(), rows)
    with pytest.raises(ValueError, match=r"shape .6, 1, 4, 8.: expected .batch, 1, 8, 8."):
        continue_pixels(learner, some_digits()[:, :, :4], 2)


def test_no_images():
    learner, none = random_learner(), some_digits(0)
    with pytest.raises(ValueError, match="no images to score: expected one at least"):
        evaluate_pixels(learner, as_data(none))
    with pytest.raises(ValueError, match="no images: expected one at least"):
        learner(normalize(none))


def test_what_has_another_type_or_shape(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.training import NextPixels, commonest_level, continue_pixels, grey_levels
        model = vitbook.create_model("igpt_micro_patch1_8")
        with pytest.raises(ValueError, match="2.5 levels of grey: expected a whole number"):
            NextPixels(model, 2.5)
        with pytest.raises(TypeError, match="images are float32: expected uint8, 0 to 255"):
            grey_levels(torch.zeros(1, 1, 8, 8))
        some = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
        with pytest.raises(ValueError, match="no held-out patches"):
            commonest_level(some, some[:0])
        with pytest.raises(ValueError, match="expected one size, so that both have the same"):
            commonest_level(some, some[:, :, :4])
        with pytest.raises(ValueError, match="2.5 rows given: expected a whole number from 0 to 8"):
            continue_pixels(NextPixels(model), some, 2.5)
        """
    )


@pytest.mark.parametrize("shape", [(2, 1, 4, 16), (2, 1, 10, 10)])
def test_images_of_another_grid_are_not_read(shape):
    learner = NextPixels(vitbook.create_model("igpt_micro_patch1_8"))
    with pytest.raises(ValueError, match=r"expected \(batch, 1, 8, 8\), as the model reads them"):
        learner(torch.zeros(shape))
