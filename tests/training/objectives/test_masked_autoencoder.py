"""Masked autoencoding: what the encoder is given, the loss by hand, nulls, and pictures."""

import pytest
import torch
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.datasets import normalize
from vitbook.models.vit import MICRO_BODY, vit
from vitbook.training import MaskedAutoencoder, Recipe, train
from vitbook.training.objectives.masked_autoencoder import Reconstruction, mean_patch_nulls
from vitbook.training.objectives.patch_pixels import cut

OTHERS = (
    "vit_overlap_micro_patch2_8", "sl_vit_micro_patch2_8", "t2t_vit_micro_patch2_8",
    "resnet8_digits",
)  # fmt: skip
FIXED = (
    "linformer_vit_micro_patch2_8", "axial_vit_micro_patch2_8", "vit_relpos_micro_patch2_8",
    "vit_layerpos_micro_patch2_8", "block_local_vit_micro_patch2_8",
)  # fmt: skip


SMALL_BODY = dict(channels=1, width=16, depth=1, num_heads=2, mlp_width=32, num_classes=2)


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


@pytest.mark.parametrize(
    "name", ["vit_micro_patch2_8", "deit_micro_distilled_patch2_8", "vit_pos2d_micro_patch2_8"]
)
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


def test_who_knows_all_loses_nothing():
    targets = torch.randn(2, 3, 4, generator=chance())
    assert Reconstruction(targets.clone(), targets).loss == 0


@pytest.mark.parametrize("share, count", [(0.75, 12), (0.5, 8), (0.1, 2)])
def test_the_share_is_hidden_of_every_image(share, count):
    learner = random_learner(share=share)
    hidden = learner.choose_hidden(50, chance())
    assert hidden.shape == (50, count) and (hidden.diff(dim=1) > 0).all()
    assert torch.equal(hidden, learner.choose_hidden(50, chance()))
    assert not torch.equal(hidden, learner.choose_hidden(50, chance(1)))


@torch.no_grad()
def test_images_are_filled_in_where_they_are_hidden_alone():
    images = some_digits(3)
    for normalized in (False, True):
        learner = random_learner(normalized=normalized)
        hidden = learner.choose_hidden(3, chance())
        filled = learner.fill_in(images, hidden)
        everywhere = learner.targets(filled)
        kept = torch.ones(3, 16, dtype=torch.bool).scatter(1, hidden, False)
        before = cut(images, learner.model)
        assert torch.equal(cut(filled, learner.model)[kept], before[kept])
        assert not torch.equal(cut(filled, learner.model)[~kept], before[~kept])
        if not normalized:
            predicted = learner(images, hidden).predicted
            assert torch.equal(everywhere[~kept], predicted.flatten(0, 1))
    # Who knows the targets gets the images back.
    learner.decode = lambda tokens, hidden: learner.targets(images).gather(
        1, hidden[..., None].expand(-1, -1, 4)
    )
    assert torch.allclose(learner.fill_in(images, hidden), images, atol=1e-6)


@torch.no_grad()
def test_the_nulls_know_the_mean_of_what_is_seen_and_of_each_place():
    learner = random_learner(normalized=False)
    training, held_out = some_digits(50), some_digits(4, "test")
    hidden = learner.choose_hidden(4, chance())
    nulls = mean_patch_nulls(learner, training, held_out, hidden)
    places, by_visible, by_place = cut(training, learner.model).mean(dim=0), [], []
    for patches, row in zip(cut(held_out, learner.model), hidden.tolist(), strict=True):
        seen = torch.stack([patches[place] for place in range(16) if place not in row]).mean(dim=0)
        for place in row:
            by_visible += (patches[place] - seen).square().tolist()
            by_place += (patches[place] - places[place]).square().tolist()
    assert nulls.visible == pytest.approx(sum(by_visible) / len(by_visible), rel=1e-4)
    assert nulls.place == pytest.approx(sum(by_place) / len(by_place), rel=1e-4)
    # Images that are one: who knows the places knows them.
    same = held_out[:1].expand(4, -1, -1, -1)
    assert mean_patch_nulls(learner, same, same, hidden).place == pytest.approx(0, abs=1e-10)


def test_it_learns_what_no_mean_tells():
    """Of four digits a quarter of the patches tells which one it is, and so the rest."""
    whole = datasets.load("digits", "train")
    four = [
        tensor[:4].repeat(8, *[1] * (tensor.ndim - 1)) for tensor in (whole.images, whole.labels)
    ]
    data = datasets.Dataset(*four, whole.class_names, {})
    torch.manual_seed(0)
    body = vit(image_size=8, patch_size=2, **SMALL_BODY)
    learner = MaskedAutoencoder(body, normalized=False, decoder_width=16, decoder_depth=1)
    recipe = Recipe("mae", 200, 32, 1e-2, weight_decay=0.0, objective="mae")
    outcome = train(learner, data, recipe, device="cpu", progress=False)
    images = normalize(data.images)
    nulls = mean_patch_nulls(learner, images, images, learner.choose_hidden(32, chance()))
    scores = learner.score(data)
    assert scores["held_out_loss"] < 0.5 * min(nulls), outcome.curve[-1]
    in_parts = learner.score(data, batch_size=10)
    assert in_parts == pytest.approx(scores, rel=1e-4)
    assert scores["accuracy"] == 1  # each digit has its own copies nearest


@pytest.mark.parametrize("name", OTHERS)
def test_a_model_whose_tokens_see_more_than_a_patch(name):
    with pytest.raises(ValueError, match="a masked autoencoder of a model with .*: expected a Vis"):
        MaskedAutoencoder(vitbook.create_model(name))


@pytest.mark.parametrize("name", FIXED)
def test_an_encoder_that_takes_all_tokens_or_none(name):
    with pytest.raises(ValueError, match="does not take . of its tokens: expected attention that"):
        MaskedAutoencoder(vitbook.create_model(name))


@pytest.mark.parametrize(
    "options, told",
    [
        (dict(share=0.0), "share 0.0: expected more than 0"),
        (dict(share=1.0), "share 1.0: expected more than 0 and less than 1"),
        (dict(share=0.99), "a share of 0.99 of 16 patches is 16: expected 1 to 15"),
        (dict(decoder_width=30), "width 30 is not divisible by 4 heads"),
        (dict(decoder_width=0), "decoder_width 0: expected a whole number, 1 or more"),
        (dict(decoder_depth=-1), "decoder_depth -1: expected a whole number, 1 or more"),
    ],
)
def test_what_cannot_be_hidden_or_decoded(options, told):
    with pytest.raises(ValueError, match=told):
        MaskedAutoencoder(vitbook.create_model("vit_micro_patch2_8"), **options)


def test_a_grid_or_a_patch_that_is_too_small():
    body = MICRO_BODY | dict(image_size=8, channels=1, num_classes=2)
    with pytest.raises(ValueError, match="a grid of 1 patch: expected 2 or more"):
        MaskedAutoencoder(vit(patch_size=8, **body))
    with pytest.raises(ValueError, match="normalized patches of one number.*: set normalized=Fals"):
        MaskedAutoencoder(vit(patch_size=1, **body))
    assert isinstance(MaskedAutoencoder(vit(patch_size=1, **body), normalized=False), nn.Module)


def test_hidden_patches_of_other_images(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.training import MaskedAutoencoder
        learner = MaskedAutoencoder(vitbook.create_model("vit_micro_patch2_8"))
        hidden = learner.choose_hidden(2, torch.Generator())
        with pytest.raises(ValueError, match="hidden patches of 2 images for 3: expected some"):
            learner(torch.zeros(3, 1, 8, 8), hidden)
        """
    )


@pytest.mark.parametrize(
    "hidden, told",
    [
        ([[], []], r"shape \(2, 0\): expected \(images, 1 to 15\)"),
        ([list(range(16))] * 2, "so that some are hidden and some are not"),
        ([[1, 1], [1, 2]], "came twice for one image"),
        ([[1, 1], [2, 2]], "came twice for one image"),
        ([[1], [16]], "hidden patches from 1 to 16: expected 0 to 15"),
        ([[-1], [3]], "hidden patches from -1 to 3: expected 0 to 15"),
    ],
)
def test_hidden_patches_of_which_nothing_can_be_asked(hidden, told):
    learner = MaskedAutoencoder(vitbook.create_model("vit_micro_patch2_8"))
    with pytest.raises(ValueError, match=told):
        learner(torch.zeros(2, 1, 8, 8), torch.tensor(hidden, dtype=torch.int64))


def test_a_body_of_doubles_learns():
    learner = MaskedAutoencoder(vitbook.create_model("vit_micro_patch2_8").double()).double()
    hidden = learner.choose_hidden(2, torch.Generator().manual_seed(0))
    assert learner(torch.zeros(2, 1, 8, 8).double(), hidden).loss.isfinite()
