"""Maps that are used again: whose they are, who learns from them, what they cost."""

import pytest
import torch

import vitbook
from vitbook.analysis import capture_attention
from vitbook.layers import (
    MLP,
    EvenSelfAttention,
    ReusingBlock,
    ReusingEncoder,
    ReusingSelfAttention,
    SelfAttention,
    SharingSelfAttention,
)
from vitbook.measure import count_macs

S, R, E = SharingSelfAttention, ReusingSelfAttention, EvenSelfAttention


def encoder(*kinds, heads=3):
    """Far from its first weights, so that maps differ from layer to layer."""
    blocks = [ReusingBlock(kind(12, heads), MLP(12, 24), 12) for kind in kinds]
    made = ReusingEncoder(blocks, 12).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return made


def tokens_of(batch=2, count=5):
    return torch.randn(batch, count, 12, dtype=torch.float64)


@torch.no_grad()
def test_sharing_attention_is_self_attention():
    layer, plain = S(12, 3).double(), SelfAttention(12, 3).double()
    plain.load_state_dict(layer.state_dict())
    tokens, shared = tokens_of(), []
    with capture_attention(plain) as maps:
        expected = plain(tokens)
    assert torch.allclose(layer(tokens, shared), expected, atol=1e-12)
    assert torch.equal(layer(tokens), layer(tokens, []))
    assert torch.allclose(shared[0], maps["core"], atol=1e-12)


@torch.no_grad()
def test_a_reused_map_is_the_very_map_of_its_source():
    made, tokens = encoder(S, R, S, R, R), tokens_of()
    plain = made(tokens)
    with capture_attention(made) as maps:
        assert torch.equal(made(tokens), plain)
    maps = [maps[f"blocks.{i}.attention.core"] for i in range(5)]
    assert torch.equal(maps[1], maps[0]) and not torch.allclose(maps[2], maps[0], atol=1e-3)
    assert torch.equal(maps[3], maps[2]) and torch.equal(maps[4], maps[2])


@torch.no_grad()
def test_a_reusing_layer_is_the_products_sum():
    layer, tokens = R(12, 3).double(), tokens_of()
    maps = torch.rand(2, 3, 5, 5, dtype=torch.float64).softmax(-1)
    v = layer.values(tokens).unflatten(-1, (3, 4))  # b n h d
    mixed = torch.einsum("bhij,bjhd->bihd", maps, v).flatten(2)
    assert torch.allclose(layer(tokens, [torch.zeros_like(maps), maps]), layer.projection(mixed))
    even = E(12, 3).double()
    mean = even.projection(even.values(tokens).mean(1, keepdim=True)).expand(2, 5, 12)
    assert torch.allclose(even(tokens, [maps]), mean)


def test_the_reusing_layer_teaches_the_queries_and_keys_of_its_source():
    made, tokens = encoder(S, R), tokens_of()
    source = made.blocks[0].attention
    for parameter in source.projection.parameters():
        parameter.data.zero_()  # nothing of the source's own answer is left
    made(tokens)[:, 0].square().sum().backward()
    queries, keys, values = source.qkv.weight.grad.chunk(3)
    assert queries.abs().max() > 0 and keys.abs().max() > 0 and (values == 0).all()


@pytest.mark.parametrize("kinds", [(R,), (E, R, S), (R, S)])
def test_a_layer_that_reuses_before_any_shares(kinds):
    with pytest.raises(ValueError, match="reuses maps, but none before it shares its own: put a"):
        encoder(*kinds)


def test_maps_that_do_not_fit():
    for nothing in (None, []):
        with pytest.raises(ValueError, match="no maps to reuse: expected a SharingSelfAttention"):
            R(12, 3)(torch.zeros(1, 5, 12), nothing)
    with pytest.raises(ValueError, match="width 10 is not divisible by 3 heads"):
        R(10, 3)


@pytest.mark.parametrize(("layers", "reusing"), [("half", 2), ("rest", 3)])
def test_the_catalogue_s_cost(layers, reusing):
    image, n, d = torch.zeros(1, 1, 8, 8), 17, 64
    plain, reuse, even = (
        count_macs(vitbook.create_model(f"vit_{name}micro_patch2_8").eval(), image)
        for name in ("", f"reuse_{layers}_", f"even_{layers}_")
    )
    assert plain - reuse == reusing * (2 * n * d * d + n * n * d)
    assert reuse - even == reusing * n * n * d
