import pytest
import torch

from vitbook.layers.attention.performer import PerformerAttention


def naive_performer(layer, q, k, v):
    """The definition, one query and one key at a time, for one image and one head."""

    def phi(x):
        return (w @ x - x @ x / 2).exp() / len(w) ** 0.5

    w, out = layer.directions.double(), []
    for query in q.double():
        shares = torch.stack([phi(query) @ phi(key) for key in k.double()])
        total = shares.sum() + layer.epsilon
        out.append(sum(s * x for s, x in zip(shares, v.double(), strict=True)) / total)
    return torch.stack(out).float()


def drawn(std, width=64, tokens=196, seed=0):
    """Queries and keys of one deviation, and values of deviation 1."""
    torch.manual_seed(seed)
    q, k, v = (torch.randn(1, 1, tokens, width) for _ in range(3))
    return q * std, k * std, v


def test_performer_is_the_definitions_ratio():
    layer = PerformerAttention(8, 5)
    q, k, v = torch.randn(3, 2, 3, 7, 8).unbind()
    out = layer(q, k, v)
    for b in range(2):
        for h in range(3):
            expected = naive_performer(layer, q[b, h], k[b, h], v[b, h])
            assert torch.allclose(out[b, h], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("std", "low", "high"), [(0.1, 0.99, 1.0), (1.9, 0.1, 0.9), (9.0, 0.0, 1e-6)]
)
def test_an_epsilon_dims_long_queries_and_keys_as_in_the_definition(std, low, high):
    torch.manual_seed(0)
    layer = PerformerAttention(8, 5, epsilon=1e-8)
    q, k, v = drawn(std, width=8, tokens=3)
    assert low <= layer.weights(q, k).sum(-1).mean() <= high + 1e-6
    expected = naive_performer(layer, q[0, 0], k[0, 0], v[0, 0])
    assert torch.allclose(layer(q, k, v)[0, 0], expected, atol=1e-5)


@pytest.mark.parametrize("std", [0.15, 1.0, 30.0])
def test_the_implied_map_is_what_forward_applies(std):
    layer = PerformerAttention(64, 32)
    q, k, v = drawn(std)
    weights = layer.weights(q, k)
    assert (weights >= 0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(1, 1, 196), atol=1e-5)
    assert torch.allclose(weights @ v, layer(q, k, v), atol=1e-5)


def test_directions_are_orthogonal_stretched_and_saved():
    layer = PerformerAttention(64, 32)
    w = layer.directions
    assert torch.allclose(w @ w.T, 32 * torch.eye(32), atol=1e-4)
    assert list(layer.state_dict()) == ["directions"]
    assert not list(layer.parameters())
    other = PerformerAttention(64, 32)
    other.load_state_dict(layer.state_dict())
    q, k, v = drawn(0.5)
    assert torch.equal(other(q, k, v), layer(q, k, v))


def test_half_the_features_stand_for_a_softer_softmax():
    """The mean over many draws of 32 directions for a width of 64, as T2T-ViT has them."""
    torch.manual_seed(0)
    q, k = (torch.randn(2, 6, 64, dtype=torch.float64) * 0.15).unbind()
    w = torch.linalg.qr(torch.randn(4000, 64, 32, dtype=torch.float64))[0].mT * 32**0.5

    def phi(x):
        return (w @ x.T - x.square().sum(-1) / 2).exp() / 32**0.5

    mean = (phi(q).mT @ phi(k)).mean(0)
    mean = mean / mean.sum(-1, keepdim=True)
    softer = (q @ k.T / 2 - k.square().sum(-1) / 4).softmax(-1)
    full = (q @ k.T).softmax(-1)
    assert (mean - full).norm() > 5 * (mean - softer).norm()
    assert torch.allclose(mean, softer, rtol=0.05)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("std", [0.15, 3000.0])
def test_half_precision_has_no_nan(dtype, std):
    layer = PerformerAttention(64, 32).to(dtype)
    q, k, v = (x.to(dtype).requires_grad_() for x in drawn(std))
    out = layer(q, k, v)
    assert out.dtype == dtype
    assert out.isfinite().all()
    out.float().square().sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    weights = layer.weights(q, k)
    assert weights.dtype == torch.float32
    assert torch.allclose(weights.sum(-1), torch.ones(1, 1, 196), atol=1e-5)
    exact = layer.float()(q.float(), k.float(), v.float())
    assert (out - exact).abs().max() <= 2e-2 * exact.abs().max()


def test_autocast_keeps_the_exponents_exact():
    layer = PerformerAttention(64, 32)
    q, k, v = drawn(2.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(q, k, v), layer.eval()(q, k, v))
        weights = layer.weights(q, k)
    assert torch.equal(weights, layer.weights(q, k))


def test_what_it_does_not_take():
    q, k, v = drawn(0.1)
    with pytest.raises(ValueError, match="a mask came, but Performer attention sums over all keys"):
        PerformerAttention(64, 32)(q, k, v, torch.ones(196, 196).bool())
