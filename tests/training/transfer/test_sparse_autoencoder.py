"""A sparse autoencoder finds a dictionary that was planted, and keeps its promises."""

import pytest
import torch
import torch.nn.functional as F

from vitbook.training import fit_sparse_autoencoder


def planted(number: int, features: int = 24, width: int = 16, active: int = 2):
    """Tokens that are sums of few directions, and the directions."""
    generator = torch.Generator().manual_seed(0)
    directions = F.normalize(torch.randn(features, width, generator=generator), dim=1)
    chosen = torch.rand(number, features, generator=generator).topk(active, dim=1).indices
    strengths = 0.5 + torch.rand(number, active, generator=generator)
    codes = torch.zeros(number, features).scatter(1, chosen, strengths)
    return codes @ directions + 3, directions


def test_it_finds_the_directions_that_tokens_were_made_of():
    tokens, directions = planted(6000)
    fit = fit_sparse_autoencoder(tokens, 32, 2, steps=1500, batch_size=256, rate=3e-3)
    found = (fit.model.directions @ directions.T).amax(0)
    assert found.min() > 0.99 and fit.explained > 0.95
    noise = torch.randn(6000, 16, generator=torch.Generator().manual_seed(0))
    alone = fit_sparse_autoencoder(noise, 32, 2, steps=1500, batch_size=256)
    by_chance = (alone.model.directions @ directions.T).amax(0)
    assert by_chance.median() < 0.9 and alone.explained < 0.6  # where nothing was planted


def test_few_features_unit_directions_and_what_is_rebuilt():
    tokens, _ = planted(500)
    fit = fit_sparse_autoencoder(tokens, 40, 3, steps=50, batch_size=64)
    codes = fit.model.encode(tokens)
    assert (codes >= 0).all() and (codes.count_nonzero(dim=1) <= 3).all()
    assert torch.allclose(fit.model.directions.norm(dim=1), torch.ones(40), atol=1e-5)
    rebuilt = fit.model(tokens)
    missed = (tokens - rebuilt).square().sum() / (tokens - tokens.mean(0)).square().sum()
    assert fit.explained == pytest.approx(1 - missed.item(), abs=1e-4)
    assert fit.dead == pytest.approx((codes == 0).all(0).float().mean().item())


def test_one_seed_gives_the_same_bits_and_leaves_torchs_alone():
    tokens, _ = planted(300)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, same, other = (
        fit_sparse_autoencoder(tokens, 32, 2, steps=20, batch_size=32, seed=seed).model
        for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.directions, same.directions)
    assert not torch.equal(one.directions, other.directions)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_tokens_of_a_model_are_fitted_wherever_they_came_from_and_it_learns_nothing(mode):
    tokens, _ = planted(200)
    body = torch.nn.Linear(16, 16)
    with mode():
        given = body(tokens)
        found = fit_sparse_autoencoder(given, 20, 20, steps=5, batch_size=32)
    expected = fit_sparse_autoencoder(body(tokens).detach(), 20, 20, steps=5, batch_size=32)
    assert torch.equal(found.model.directions, expected.model.directions)
    assert body.weight.grad is None


@pytest.mark.parametrize("precision", [torch.float16, torch.float64])
def test_tokens_of_another_precision_have_the_same_codes(precision):
    tokens, _ = planted(200)
    model = fit_sparse_autoencoder(tokens.to(precision), 20, 2, steps=5, batch_size=32).model
    rounded = tokens.to(precision)
    assert torch.allclose(model.encode(rounded), model.encode(rounded.float()))


def test_a_scale_and_a_shift_of_the_tokens_change_nothing():
    tokens, _ = planted(300)
    one = fit_sparse_autoencoder(tokens, 32, 2, steps=30, batch_size=32)
    other = fit_sparse_autoencoder(8 * tokens - 16, 32, 2, steps=30, batch_size=32)
    assert other.explained == pytest.approx(one.explained, abs=0.02)


@pytest.mark.parametrize(
    ("tokens", "features", "active", "error", "words"),
    [
        (torch.randn(1, 3), 8, 2, ValueError, r"\(1, 3\): expected two at least"),
        (torch.full((4, 3), torch.nan), 8, 2, ValueError, "all finite"),
        (torch.ones(4, 3), 8, 2, ValueError, "all alike"),
        (1 + 1e-12 * torch.randn(4, 3).double(), 8, 2, ValueError, "all alike"),
        (1e300 * torch.randn(4, 3).double(), 8, 2, ValueError, "all finite"),
        (torch.randn(4, 3), 8, 9, ValueError, "active 9 of 8 features: expected no more"),
        (torch.randn(4, 3), 0, 1, ValueError, "num_features"),
    ],
)
def test_what_cannot_be_fitted_is_refused(tokens, features, active, error, words):
    with pytest.raises(error, match=words):
        fit_sparse_autoencoder(tokens, features, active)


def test_a_user_reads_what_came(plain_vitbook):
    said = plain_vitbook("""
        import torch
        from vitbook.training import fit_sparse_autoencoder
        for tokens in (torch.ones(4, 3, dtype=torch.uint8), torch.randn(4, 3, 2)):
            try:
                fit_sparse_autoencoder(tokens, 8, 2)
            except (TypeError, ValueError) as error:
                print(type(error).__name__, error)
    """).splitlines()
    assert said == [
        "TypeError tokens are torch.uint8: expected floating point, in a tensor",
        "ValueError tokens of shape (4, 3, 2): expected two at least, (tokens, width), all finite",
    ]
