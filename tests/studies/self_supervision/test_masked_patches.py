import math

import pytest
import torch
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.datasets import normalize
from vitbook.studies.self_supervision import (
    MaskedPatches,
    choose_masked,
    color_classes,
    mean_colors,
)
from vitbook.training.objectives.masks import KEPT, MASKED, SWAPPED, UNCHANGED

PLAIN = ("vit_micro_patch2_8", "deit_micro_distilled_patch2_8", "axial_vit_micro_patch2_8")


def chance(seed=0):
    return torch.Generator().manual_seed(seed)


def masked(name="vit_micro_patch2_8", **sizes):
    """Weights that are no zeros, in evaluation mode."""
    torch.manual_seed(0)
    model = MaskedPatches(vitbook.create_model(name, **sizes))
    for weight in (model.mask, model.model.prefix, model.predictor.weight):
        nn.init.normal_(weight)
    return model.eval()


def some_digits(n=6):
    return datasets.load("digits", "train").images[:n]


@pytest.mark.parametrize("patches, share, count", [(16, 0.5, 8), (9, 0.5, 4), (64, 0.75, 48)])
def test_the_same_share_of_every_image_is_corrupted(patches, share, count):
    chosen = choose_masked(50, patches, chance(), share)
    assert ((chosen.kinds != KEPT).sum(dim=1) == count).all()
    assert chosen.places.shape == (50, count)
    assert (chosen.kinds.gather(1, chosen.places) != KEPT).all()
    assert (chosen.places.diff(dim=1) > 0).all()


def test_the_shares_are_those_of_the_paper():
    chosen = choose_masked(20_000, 16, chance())
    counts = chosen.kinds.flatten().bincount()
    n = 20_000 * 8
    for kind, share in ((MASKED, 0.8), (SWAPPED, 0.1), (UNCHANGED, 0.1)):
        deviation = math.sqrt(n * share * (1 - share))
        assert abs(counts[kind] - n * share) < 4 * deviation
    assert counts[KEPT] == n


def test_a_swapped_patch_shows_any_other_and_the_rest_show_themselves():
    chosen = choose_masked(40_000, 5, chance(), share=0.6)
    own = torch.arange(5).expand_as(chosen.shown)
    swapped = chosen.kinds == SWAPPED
    assert torch.equal(chosen.shown[~swapped], own[~swapped])
    away = ((chosen.shown - own) % 5)[swapped].bincount(minlength=5)
    assert away[0] == 0
    expected = swapped.sum() / 4
    assert (away[1:] - expected).abs().max() < 4.5 * math.sqrt(expected)


def test_the_same_seed_draws_the_same_and_another_one_does_not():
    once, again, other = (choose_masked(4, 16, chance(seed)) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    assert not torch.equal(once.kinds, other.kinds)


@pytest.mark.parametrize("name", PLAIN)
def test_a_naive_loop_gives_the_same_logits_and_loss(name):
    ours, images = masked(name), some_digits()
    body, floats = ours.model, normalize(some_digits())
    chosen = choose_masked(len(images), ours.num_patches, chance())
    assert set(chosen.kinds.unique().tolist()) == {KEPT, MASKED, SWAPPED, UNCHANGED}
    guesses = ours(floats, chosen)
    losses, side = [], body.patch_size
    colors = color_classes(mean_colors(images, side))
    for image in range(len(images)):
        patches = body.tokenizer(floats[image : image + 1])[0]
        tokens = list(body.prefix)
        for place in range(ours.num_patches):
            kind = chosen.kinds[image, place]
            if kind == MASKED:
                tokens.append(ours.mask)
            elif kind == SWAPPED:
                tokens.append(patches[chosen.shown[image, place]])
            else:
                tokens.append(patches[place])
        final = body.encoder(body.position(torch.stack(tokens)[None]))[0]
        row = 0
        for place in range(ours.num_patches):
            if chosen.kinds[image, place] == KEPT:
                continue
            logits = ours.predictor(final[len(body.prefix) + place])
            torch.testing.assert_close(guesses.logits[image, row], logits, rtol=1e-4, atol=1e-4)
            assert guesses.targets[image, row] == colors[image, place]
            losses.append(logits.logsumexp(dim=0) - logits[colors[image, place]])
            row += 1
    torch.testing.assert_close(guesses.loss, torch.stack(losses).mean(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PLAIN)
def test_the_pixels_behind_a_mask_reach_nothing(name):
    ours, images = masked(name), normalize(some_digits())
    chosen = choose_masked(len(images), ours.num_patches, chance())
    visible = torch.zeros_like(chosen.kinds).scatter_add(
        1, chosen.shown, (chosen.kinds != MASKED).long()
    )
    hidden = visible == 0
    assert 0.3 < hidden.double().mean() < 0.5
    before = ours(images, chosen).logits
    assert torch.equal(ours(recolored(images, hidden, ours), chosen).logits, before)
    # The same change of the patches that are shown is seen.
    assert not torch.equal(ours(recolored(images, ~hidden, ours), chosen).logits, before)


def recolored(images, patches, ours):
    """Other pixels in some patches."""
    side = ours.model.patch_size
    rows, columns = ours.model.grid_size
    where = patches.view(len(images), 1, rows, columns)
    where = where.repeat_interleave(side, dim=2).repeat_interleave(side, dim=3)
    return torch.where(where, -images * 0.7 + 0.1, images)


def test_colours_in_three_channels_and_patches_that_are_not_square():
    ours = masked("vit_mini_patch4_32", image_size=(8, 12))
    images = torch.randint(0, 256, (3, 3, 8, 12), dtype=torch.uint8, generator=chance())
    chosen = choose_masked(3, 6, chance())
    guesses = ours(normalize(images), chosen)
    assert guesses.logits.shape == (3, 3, 512)
    assert torch.equal(
        guesses.targets, color_classes(mean_colors(images, 4)).gather(1, chosen.places)
    )


def test_it_learns_what_a_patch_is_from_the_patches_around_it():
    """Images of one grey each: the visible patches tell all, and the commonest grey is 1 in 8."""
    ours = masked("vit_micro_d1_patch2_8").train()
    optimizer = torch.optim.AdamW(ours.parameters(), lr=5e-3)
    greys = torch.arange(8, dtype=torch.uint8).mul(32).add(16)
    images = normalize(greys.repeat(4).view(-1, 1, 1, 1).expand(-1, 1, 8, 8))
    generator = chance()
    for _ in range(80):
        loss = ours(images, choose_masked(32, 16, generator)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    guesses = ours.eval()(images, choose_masked(32, 16, chance(1)))
    assert (guesses.logits.argmax(dim=-1) == guesses.targets).float().mean() > 0.9
