"""Masked autoencoding: what the encoder is given, the loss by hand, nulls, and pictures."""

import pytest
import torch

import vitbook
from vitbook import datasets
from vitbook.datasets import normalize
from vitbook.models.papers.vit import Body, vit
from vitbook.runs import Recipe
from vitbook.studies.self_supervision import MaskedAutoencoder
from vitbook.training import train

SMALL = dict(channels=1, num_classes=2, body=Body(16, 1, num_heads=2, mlp_width=32))


def chance(seed=0):
    return torch.Generator().manual_seed(seed)


def random_learner(name="vit_micro_patch2_8", **options):
    """Weights that are no zeros: every visible patch weighs in."""
    torch.manual_seed(0)
    learner = MaskedAutoencoder(vitbook.create_model(name), **options)
    for weight in learner.parameters():
        weight.data += 0.1 * torch.randn_like(weight)
    return learner.eval()


def some_digits(n=6, split="train"):
    return normalize(datasets.load("digits", split).images[:n])


def change_patch(images, place):
    changed = images.clone()
    row, column = 2 * (place // 4), 2 * (place % 4)
    changed[..., row : row + 2, column : column + 2] += 0.5
    return changed


@pytest.mark.parametrize("name", ["deit_micro_distilled_patch2_8", "vit_pos2d_micro_patch2_8"])
@torch.no_grad()
def test_pixels_behind_a_mask_change_no_bit_of_the_prediction(name):
    learner, images = random_learner(name), some_digits(1)
    hidden = learner.choose_hidden(1, chance())
    before = learner(images, hidden)
    for place in range(16):
        after = learner(change_patch(images, place), hidden)
        behind = place in hidden[0].tolist()
        assert torch.equal(after.predicted, before.predicted) == behind


@torch.no_grad()
def test_the_encoder_is_given_visible_patches_alone_each_with_its_place():
    learner, images = random_learner(), some_digits(3)
    hidden, given = learner.choose_hidden(3, chance()), []
    handle = learner.model.encoder.register_forward_pre_hook(lambda _, args: given.append(args[0]))
    learner(images, hidden)
    handle.remove()
    whole = learner.model.embed(images)
    assert given[0].shape == (3, 1 + 4, 64)
    for row, tokens, every in zip(hidden.tolist(), given[0], whole, strict=True):
        seen = [place for place in range(16) if place not in row]
        assert torch.equal(tokens, every[[0, *(1 + place for place in seen)]])


@torch.no_grad()
def test_the_decoder_finds_each_token_at_its_place_and_the_mask_elsewhere():
    learner, images = random_learner(), some_digits(2)
    hidden, given = learner.choose_hidden(2, chance()), []
    learner.decoder.register_forward_pre_hook(lambda _, args: given.append(args[0]))
    tokens = learner.encode(images, hidden)
    learner.decode(tokens, hidden)
    entered = learner.enter(tokens)
    for row, found, each in zip(hidden.tolist(), given[0], entered, strict=True):
        assert torch.equal(found[0], each[0])
        seen = iter(each[1:])
        for place in range(16):
            stands = learner.mask if place in row else next(seen)
            assert torch.equal(found[1 + place], stands + learner.places[place])


@pytest.mark.parametrize("normalized", [False, True])
@torch.no_grad()
def test_the_loss_is_that_of_a_loop(normalized):
    learner, images = random_learner(normalized=normalized), some_digits()
    hidden = learner.choose_hidden(len(images), chance())
    found = learner(images, hidden)
    errors = []
    for image, row, predicted in zip(images, hidden.tolist(), found.predicted, strict=True):
        for place, guess in zip(row, predicted, strict=True):
            top, left = 2 * (place // 4), 2 * (place % 4)
            pixels = image[0, top : top + 2, left : left + 2].flatten().double()
            if normalized:
                mean = pixels.sum() / 4
                variance = (pixels - mean).square().sum() / 3
                pixels = (pixels - mean) / (variance + 1e-6) ** 0.5
            errors += [(float(p) - float(g)) ** 2 for p, g in zip(pixels, guess, strict=True)]
    assert len(errors) == 6 * 12 * 4
    assert found.loss.item() == pytest.approx(sum(errors) / len(errors), rel=1e-4)


@pytest.mark.parametrize("share, count", [(0.75, 12), (0.1, 2)])
def test_the_share_is_hidden_of_every_image(share, count):
    learner = random_learner(share=share)
    hidden = learner.choose_hidden(50, chance())
    assert hidden.shape == (50, count) and (hidden.diff(dim=1) > 0).all()
    assert torch.equal(hidden, learner.choose_hidden(50, chance()))
    assert not torch.equal(hidden, learner.choose_hidden(50, chance(1)))


def test_it_learns_what_no_mean_tells():
    """Of four digits a quarter of the patches tells which one it is, and so the rest."""
    whole = datasets.load("digits", "train")
    four = [
        tensor[:4].repeat(8, *[1] * (tensor.ndim - 1)) for tensor in (whole.images, whole.labels)
    ]
    data = datasets.Dataset(*four, whole.class_names, {})
    torch.manual_seed(0)
    body = vit(image_size=8, patch_size=2, **SMALL)
    learner = MaskedAutoencoder(body, normalized=False)
    recipe = Recipe("mae", 100, 32, 1e-2, weight_decay=0.0, objective="mae")
    outcome = train(learner, data, recipe, device="cpu", progress=False)
    patches = learner.targets(normalize(data.images))
    null = (patches - patches.mean(dim=0)).square().mean()  # each is the mean of its place
    scores = learner.score(data)
    assert scores["held_out_loss"] < 0.5 * null, outcome.curve[-1]
    in_parts = learner.score(data, batch_size=10)
    assert in_parts == pytest.approx(scores, rel=1e-4)
    assert scores["accuracy"] == 1  # each digit has its own copies nearest


def test_a_body_of_doubles_learns():
    learner = MaskedAutoencoder(vitbook.create_model("vit_micro_patch2_8").double()).double()
    hidden = learner.choose_hidden(2, torch.Generator().manual_seed(0))
    assert learner(torch.zeros(2, 1, 8, 8).double(), hidden).loss.isfinite()
