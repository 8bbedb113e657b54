"""QK-norm, SwiGLU, RMSNorm and patch dropout, each against its sum written out."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vitbook.analysis import capture_attention
from vitbook.layers import (
    MLP,
    EncoderBlock,
    LayerScaleBlock,
    LearnedPosition,
    PatchDropout,
    PatchDroppingEncoder,
    QKNormSelfAttention,
    RMSNorm,
    RotaryPosition2D,
    SelfAttention,
    SwiGLU,
    layer_norm,
)


def scaled(vector, gain, centred):
    """A norm with its gain, number by number."""
    mean = sum(vector) / len(vector) if centred else 0.0
    root = math.sqrt(sum((x - mean) ** 2 for x in vector) / len(vector) + 1e-6)
    return [g * (x - mean) / root for g, x in zip(gain, vector, strict=True)]


@pytest.mark.parametrize("make_norm", [None, RMSNorm])
@given(heads=st.integers(1, 3), tokens=st.integers(1, 5))
@settings(deadline=None, max_examples=10)
@torch.no_grad()
def test_the_sum_token_by_token_and_what_capture_sees(make_norm, heads, tokens):
    made = {} if make_norm is None else {"make_norm": make_norm}
    layer = QKNormSelfAttention(4 * heads, heads, **made).double()
    for parameter in layer.parameters():
        parameter.copy_(torch.randn_like(parameter))
    z = torch.randn(1, tokens, 4 * heads, dtype=torch.float64)
    q, k, v = layer.qkv(z)[0].unflatten(-1, (3, heads, 4)).unbind(1)
    mixed = torch.zeros(tokens, heads, 4, dtype=torch.float64)
    expected = torch.zeros(heads, tokens, tokens, dtype=torch.float64)
    gains, centred = (layer.norm_q.weight.tolist(), layer.norm_k.weight.tolist()), not made
    for h in range(heads):
        keys = [scaled(k[j, h].tolist(), gains[1], centred) for j in range(tokens)]
        for i in range(tokens):
            query = scaled(q[i, h].tolist(), gains[0], centred)
            scores = [sum(a * b for a, b in zip(query, key, strict=True)) / 2 for key in keys]
            expected[h, i] = torch.tensor(scores, dtype=torch.float64).softmax(0)
            mixed[i, h] = expected[h, i] @ v[:, h]
    with capture_attention(layer) as maps:
        found = layer(z)
    torch.testing.assert_close(found[0], layer.projection(mixed.flatten(1)))
    (seen,) = maps.values()
    torch.testing.assert_close(seen[0].double(), expected)


@torch.no_grad()
def test_large_queries_change_no_map():
    """The law that plain attention does not obey."""
    for kind, same in ((QKNormSelfAttention, True), (SelfAttention, False)):
        layer, z = kind(16, 2), torch.randn(1, 5, 16)
        layer.qkv.weight.normal_()
        maps = []
        for _ in range(2):
            with capture_attention(layer) as seen:
                layer(z)
            maps += seen.values()
            layer.qkv.weight[:32] *= 30  # queries and keys
        assert torch.allclose(*maps, atol=1e-4) == same


@torch.no_grad()
def test_a_position_turns_behind_the_norm():
    position = RotaryPosition2D((2, 2), 8, 0)
    layer = QKNormSelfAttention(8, 1, position=position)
    layer.norm_q.weight.normal_()
    qkv = torch.randn(1, 4, 24)
    q, k, v = layer.heads(qkv)
    plain = QKNormSelfAttention(8, 1)
    plain.load_state_dict(layer.state_dict())
    unturned = plain.heads(qkv)
    assert torch.equal(q, position(unturned[0])) and torch.equal(k, position(unturned[1]))
    assert not torch.allclose(q, unturned[0]) and torch.equal(v, unturned[2])


def test_swiglu_by_hand():
    layer = SwiGLU(1, 8)  # two thirds of 8, up to a multiple of 8
    assert layer.contract.in_features == 8
    with torch.no_grad():
        layer.expand.weight.zero_()
        layer.expand.weight[0], layer.expand.weight[8] = 2.0, 3.0
        layer.expand.bias.zero_()
        layer.expand.bias[8] = 1.0
        layer.contract.weight.fill_(1.0)
    # z = 0.5: SiLU(1) * (1.5 + 1)
    gate = 1 / (1 + math.exp(-1))
    assert layer(torch.tensor([[[0.5]]])).item() == pytest.approx(gate * 2.5)


@given(width=st.integers(1, 64), hidden=st.integers(1, 512))
@settings(deadline=None, max_examples=40)
def test_swiglu_has_an_mlps_parameters(width, hidden):
    def weights(layer):
        return sum(weight.numel() for weight in layer.parameters() if weight.ndim == 2)

    with torch.device("meta"):
        more = weights(SwiGLU(width, hidden)) - weights(MLP(width, hidden))
    assert -3 * width < more < 3 * width * 8


@torch.no_grad()
def test_an_rms_norm_by_hand_and_its_law():
    norm = RMSNorm(2)
    assert norm(torch.tensor([3.0, 4.0])).tolist() == pytest.approx(
        [3 / math.sqrt(12.5), 4 / math.sqrt(12.5)]
    )
    z = torch.randn(5, 2)
    assert torch.allclose(norm(3 * z), norm(z), atol=1e-4)
    assert not torch.allclose(norm(z + 1), norm(z), atol=1e-1)
    assert norm(z.double()).dtype == torch.float64 and norm(z.bfloat16()).dtype == torch.float32
    assert norm.bfloat16()(z.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("kind", [EncoderBlock, LayerScaleBlock])
def test_blocks_take_another_norm(kind):
    block = kind(nn.Identity(), nn.Identity(), 4, make_norm=RMSNorm)
    assert isinstance(block.norm1, nn.RMSNorm) and isinstance(block.norm2, nn.RMSNorm)
    assert isinstance(kind(nn.Identity(), nn.Identity(), 4).norm1, nn.LayerNorm)
    assert layer_norm(4).eps == RMSNorm(4).eps == 1e-6


@given(
    patches=st.integers(1, 9),
    prefix=st.integers(0, 3),
    rate=st.floats(0, 0.99),
)
@settings(deadline=None, max_examples=40)
def test_what_stays_is_as_it_was(patches, prefix, rate):
    layer = PatchDropout(rate, prefix)
    tokens = torch.arange(2.0 * (prefix + patches) * 3).reshape(2, prefix + patches, 3)
    assert torch.equal(layer.eval()(tokens), tokens)
    seen = layer.train()(tokens)
    kept = patches if rate == 0 else max(round(patches * (1 - rate)), 1)
    assert seen.shape == (2, prefix + kept, 3)
    assert torch.equal(seen[:, :prefix], tokens[:, :prefix])
    for before, after in zip(tokens, seen, strict=True):
        rows = {tuple(row) for row in before[prefix:].tolist()}
        chosen = [tuple(row) for row in after[prefix:].tolist()]
        assert len(set(chosen)) == kept and set(chosen) <= rows


def test_each_patch_stays_as_often_and_each_image_draws_its_own():
    torch.manual_seed(0)
    tokens = torch.eye(8).expand(4000, 8, 8)
    often = PatchDropout(0.5, 0).train()(tokens).sum(1)
    assert (often.mean(0) - 0.5).abs().max() < 0.04
    assert len(often.unique(dim=0)) > 60  # of 70 halves


def test_positions_stay_with_their_patches_in_the_encoder():
    position = LearnedPosition((2, 2), 4)
    encoder = PatchDroppingEncoder([], 4)
    tokens = position(torch.zeros(1, 5, 4))
    encoder.norm = nn.Identity()
    rows = {tuple(row) for row in encoder.train()(tokens)[0, 1:].tolist()}
    assert len(rows) == 2 and rows <= {tuple(row) for row in position.table[1:].tolist()}
    assert encoder.eval()(tokens).shape == (1, 5, 4)


def test_without_a_patch_there_is_nothing_to_drop():
    with pytest.raises(ValueError, match="3 tokens came, 3 of them prefix: expected at least one"):
        PatchDropout(0.5, 3).train()(torch.zeros(2, 3, 4))


@pytest.mark.parametrize("bad", [dict(rate=1.0), dict(rate=-0.1), dict(num_prefix_tokens=-1)])
def test_what_is_no_rate_or_number(bad):
    with pytest.raises(ValueError, match="expected a (rate from 0|whole number, at least 0)"):
        PatchDropout(**bad)
