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


def test_a_block_is_equations_2_and_3():
    block = EncoderBlock(SelfAttention(8, 2), MLP(8, 16), 8)
    z = torch.randn(2, 5, 8)
    middle = block.attention(block.norm1(z)) + z
    assert torch.allclose(block(z), block.mlp(block.norm2(middle)) + middle)


def test_the_encoder_ends_in_a_norm():
    out = Encoder([EncoderBlock(SelfAttention(8, 2), MLP(8, 16), 8)], 8)(torch.randn(2, 5, 8) * 9)
    assert torch.allclose(out.mean(-1), torch.zeros(2, 5), atol=1e-6)
    assert torch.allclose(out.std(-1, correction=0), torch.ones(2, 5), atol=1e-3)


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


def test_a_post_norm_encoder_has_no_second_last_norm():
    blocks = [PostNormBlock(SelfAttention(8, 2), MLP(8, 16), 8) for _ in range(2)]
    tokens = torch.randn(2, 5, 8)
    assert torch.equal(Encoder(blocks, 8)(tokens), blocks[1](blocks[0](tokens)))


def test_a_distilled_head_has_two_answers_in_training_and_their_mean_after():
    head, tokens = DistilledHead(8, 3), torch.randn(2, 5, 8)
    label, teacher = head(tokens)
    assert torch.equal(label, head.classifier(tokens[:, 0]))
    assert torch.equal(teacher, head.distillation(tokens[:, 1]))
    assert torch.allclose(head.eval()(tokens), (label + teacher) / 2)


def test_stochastic_depth_drops_whole_images_and_keeps_the_mean():
    torch.manual_seed(0)
    drop, ones = StochasticDepth(0.25), torch.ones(20_000, 2, 3)
    out = drop(ones)
    assert out.unique().tolist() == pytest.approx([0, 4 / 3])
    assert (out == out[:, :1, :1]).all()  # an image goes as a whole
    assert out.mean().item() == pytest.approx(1, abs=0.02)
    assert drop.eval()(ones) is ones


def test_dropout_drops_single_numbers_and_keeps_the_mean():
    torch.manual_seed(0)
    drop, ones = Dropout(0.25), torch.ones(5_000, 2, 3)
    out = drop(ones)
    assert out.unique().tolist() == pytest.approx([0, 4 / 3])
    assert (out != out[:, :1, :1]).any()
    assert out.mean().item() == pytest.approx(1, abs=0.02)
    assert drop.eval()(ones) is ones
    assert Dropout()(ones) is ones  # and draws no random number


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


def test_no_classes():
    with pytest.raises(ValueError, match="0 classes: expected at least 1"):
        ClassTokenHead(8, 0)
