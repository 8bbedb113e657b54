import pytest
import torch
from torch import nn

from vitbook.layers import (
    MLP,
    ClassTokenHead,
    DistilledHead,
    Dropout,
    Encoder,
    EncoderBlock,
    LearnedPosition,
    MeanPoolHead,
    PositionedEncoder,
    PostNormBlock,
    SelfAttention,
    StochasticDepth,
)


@pytest.mark.parametrize("shared", [False, True])
def test_places_are_told_at_every_block(shared):
    blocks = [EncoderBlock(SelfAttention(8, 2), MLP(8, 16), 8) for _ in range(3)]
    first = LearnedPosition((2, 2), 8)
    positions = [first if shared else LearnedPosition((2, 2), 8) for _ in range(3)]
    encoder, tokens = PositionedEncoder(blocks, positions, 8), torch.randn(2, 5, 8)
    expected = tokens
    for position, block in zip(positions, blocks, strict=True):
        expected = block(expected + position.table)
    assert torch.equal(encoder(tokens), encoder.norm(expected))
    tables = sum(name.startswith("positions.") for name, _ in encoder.named_parameters())
    assert tables == (1 if shared else 3)


@pytest.mark.parametrize("block", [EncoderBlock, PostNormBlock])
@torch.no_grad()
def test_a_block_is_torchs(block):
    ours = block(SelfAttention(8, 2), MLP(8, 16), 8)
    theirs = nn.TransformerEncoderLayer(
        8, 2, 16, 0.0, "gelu", 1e-6, batch_first=True, norm_first=block is EncoderBlock
    )
    for parameter in ours.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    names = {
        "self_attn.in_proj_": "attention.qkv.", "self_attn.out_proj.": "attention.projection.",
        "linear1.": "mlp.expand.", "linear2.": "mlp.contract.", "norm1.": "norm1.",
        "norm2.": "norm2.",
    }  # fmt: skip
    state = ours.state_dict()
    theirs.load_state_dict(
        {a + kind: state[b + kind] for a, b in names.items() for kind in ("weight", "bias")}
    )
    tokens = torch.randn(2, 5, 8)
    assert torch.allclose(ours(tokens), theirs(tokens), atol=1e-5)


def test_an_encoder_ends_in_one_norm():
    tokens = torch.randn(2, 5, 8)
    for kind in (EncoderBlock, PostNormBlock):  # which ends in its own
        blocks = [kind(SelfAttention(8, 2), MLP(8, 16), 8) for _ in range(2)]
        encoder, after = Encoder(blocks, 8), blocks[1](blocks[0](tokens))
        expected = after if kind is PostNormBlock else torch.nn.functional.layer_norm(after, (8,))
        assert torch.allclose(encoder(tokens), expected, atol=1e-4)


def test_a_distilled_head_has_two_answers_in_training_and_their_mean_after():
    head, tokens = DistilledHead(8, 3), torch.randn(2, 5, 8)
    label, teacher = head(tokens)
    assert torch.equal(label, head.classifier(tokens[:, 0]))
    assert torch.equal(teacher, head.distillation(tokens[:, 1]))
    assert torch.allclose(head.eval()(tokens), (label + teacher) / 2)


@pytest.mark.parametrize("kind", [Dropout, StochasticDepth])
def test_a_quarter_is_dropped_while_training_and_the_mean_stays(kind):
    torch.manual_seed(0)
    drop, ones = kind(0.25), torch.ones(10_000, 2, 3)
    out = drop(ones)
    assert out.unique().tolist() == pytest.approx([0, 4 / 3])
    assert out.mean().item() == pytest.approx(1, abs=0.02)
    whole = (out == out[:, :1, :1]).all().item()  # an image goes as a whole, or number by number
    assert whole is (kind is StochasticDepth)
    assert drop.eval()(ones) is ones
    assert kind()(ones) is ones  # and draws no random number


@pytest.mark.parametrize("kind", [Dropout, StochasticDepth])
@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_rate_that_cannot_be(kind, rate):
    with pytest.raises(ValueError, match="expected a rate from 0 up to"):
        kind(rate)


def test_heads_read_what_they_say():
    tokens = torch.randn(2, 5, 8)
    head = ClassTokenHead(8, 3)
    assert torch.equal(head(tokens), head.classifier(tokens[:, 0]))
    pool = MeanPoolHead(8, 3, num_prefix_tokens=1)
    assert torch.allclose(pool(tokens), pool.classifier(tokens[:, 1:].mean(1)))
    hidden = ClassTokenHead(8, 3, hidden_width=6)
    assert isinstance(hidden.hidden[1], nn.Tanh)
    expected = hidden.classifier(torch.tanh(hidden.hidden[0](tokens[:, 0])))
    assert torch.equal(hidden(tokens), expected)
