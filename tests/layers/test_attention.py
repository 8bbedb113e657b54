import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook.analysis import capture_attention
from vitbook.layers import (
    Attention,
    CausalSelfAttention,
    EvenAttention,
    LocalitySelfAttention,
    SelfAttention,
)


def naive_self_attention(layer: SelfAttention, tokens: torch.Tensor) -> torch.Tensor:
    """Appendix A of the ViT paper, one head and one query at a time."""
    batch, n, width = tokens.shape
    d = width // layer.num_heads
    q, k, v = layer.qkv(tokens).chunk(3, dim=-1)
    out = torch.zeros_like(tokens)
    for b in range(batch):
        for h in range(layer.num_heads):
            part = slice(h * d, (h + 1) * d)
            for i in range(n):
                scores = torch.stack([q[b, i, part] @ k[b, j, part] for j in range(n)]) / d**0.5
                weights = scores.exp() / scores.exp().sum()
                out[b, i, part] = sum(weights[j] * v[b, j, part] for j in range(n))
    return layer.projection(out)


@torch.no_grad()
def test_self_attention_is_the_papers_sum():
    layer = SelfAttention(12, num_heads=3)
    tokens = torch.randn(2, 5, 12) * 20
    assert torch.allclose(layer(tokens), naive_self_attention(layer, tokens), atol=1e-5)


def test_by_hand():
    # scores (2, 0) / sqrt(4) = (1, 0); weights e/(e+1), 1/(e+1)
    q = torch.tensor([2.0, 0, 0, 0]).view(1, 1, 1, 4)
    k = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0]]).view(1, 1, 2, 4)
    v = torch.tensor([[3.0], [7.0]]).view(1, 1, 2, 1)
    e = torch.e
    assert Attention.weights(q, k).flatten().tolist() == pytest.approx([e / (e + 1), 1 / (e + 1)])
    assert Attention()(q, k, v).item() == pytest.approx((3 * e + 7) / (e + 1))


@given(
    heads=st.integers(1, 4),
    queries=st.integers(1, 9),
    keys=st.integers(1, 9),
    scale=st.floats(0.01, 30),
)
@settings(deadline=None, max_examples=40)
def test_weights_are_those_of_the_fused_kernel(heads, queries, keys, scale):
    q = torch.randn(2, heads, queries, 8) * scale
    k, v = torch.randn(2, heads, keys, 8), torch.randn(2, heads, keys, 8)
    weights = Attention.weights(q, k)
    assert torch.allclose(weights.sum(-1), torch.ones(2, heads, queries), atol=1e-6)
    out = Attention()(q, k, v)
    assert (weights @ v - out).abs().max() <= 1e-5 * out.abs().max()


@pytest.mark.parametrize("kind", ["boolean", "added"])
def test_a_mask_hides_keys(kind):
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    keep = torch.tensor([True, True, False, True]).expand(4, 4)
    mask = keep if kind == "boolean" else torch.zeros(4, 4).masked_fill(~keep, float("-inf"))
    weights = Attention.weights(q, k, mask)
    assert (weights[..., 2] == 0).all()
    assert torch.allclose(weights @ v, Attention()(q, k, v, mask), atol=1e-6)


def test_a_width_that_the_heads_do_not_divide():
    with pytest.raises(ValueError, match="0 heads: expected one at least"):
        SelfAttention(10, 0)
    with pytest.raises(ValueError, match="width 10 is not divisible by 4 heads: use"):
        SelfAttention(10, 4)


@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_locality_self_attention_is_its_sum(bias):
    layer = LocalitySelfAttention(12, num_heads=3, qkv_bias=bias).double()
    assert layer.temperature.tolist() == [0.5] * 3  # at first the usual one
    for parameter in layer.parameters():  # large scores: in float32 a softmax would lose digits
        parameter.add_(torch.randn_like(parameter))
    tokens = torch.randn(2, 5, 12, dtype=torch.float64)
    q, k, v = (x.unflatten(-1, (3, 4)).transpose(1, 2) for x in layer.qkv(tokens).chunk(3, dim=-1))
    scores = layer.temperature[:, None, None] * (q @ k.mT)
    weights = scores.masked_fill(torch.eye(5).bool(), -torch.inf).softmax(-1)
    expected = layer.projection((weights @ v).transpose(1, 2).flatten(2))
    with capture_attention(layer) as maps:
        assert torch.allclose(layer(tokens), expected, atol=1e-10)
    assert torch.allclose(maps["core"], weights, atol=1e-12)
    assert (maps["core"].diagonal(dim1=-2, dim2=-1) == 0).all()


@torch.no_grad()
def test_causal_self_attention_is_attention_to_the_tokens_so_far():
    layer = CausalSelfAttention(12, num_heads=3).double()
    for parameter in layer.parameters():
        parameter.add_(torch.randn_like(parameter))
    tokens = torch.randn(2, 5, 12, dtype=torch.float64)
    whole = SelfAttention(12, num_heads=3).double()
    whole.load_state_dict(layer.state_dict())
    with capture_attention(layer) as maps:
        found = layer(tokens)
    for last in range(5):  # without a mask, of a sequence that ends there
        assert torch.allclose(found[:, last], whole(tokens[:, : last + 1])[:, -1], atol=1e-12)
    assert (maps["core"].triu(1) == 0).all() and (maps["core"].tril() > 0).sum() == 2 * 3 * 15


def test_even_attention_is_the_mean_of_the_values():
    q, k, v = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5), torch.randn(2, 3, 6, 7)
    even = EvenAttention()
    weights = even.weights(q, k)
    assert torch.equal(weights, torch.full((2, 3, 4, 6), 1 / 6))
    assert torch.allclose(even(q, k, v), weights @ v, atol=1e-6)
    for call in (lambda mask: even(q, k, v, mask), lambda mask: even.weights(q, k, mask)):
        with pytest.raises(ValueError, match="even attention weighs all keys alike: use None"):
            call(torch.ones(4, 6, dtype=torch.bool))
