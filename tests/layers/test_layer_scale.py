import pytest
import torch

from vitbook.layers import (
    MLP,
    ClassAndMeanHead,
    LayerScale,
    LayerScaleBlock,
    MeanPoolHead,
    SelfAttention,
)


def test_a_factor_for_each_channel():
    scale = LayerScale(3, start=0.5)
    assert scale.factor.tolist() == [0.5, 0.5, 0.5]
    with torch.no_grad():
        scale.factor.copy_(torch.tensor([0.0, 1.0, 2.0]))
    assert scale(torch.ones(1, 2, 3)).tolist() == [[[0, 1, 2], [0, 1, 2]]]


@pytest.mark.parametrize("seed", range(3))
def test_the_block_is_its_two_equations(seed):
    torch.manual_seed(seed)
    block = LayerScaleBlock(SelfAttention(8, 2), MLP(8, 16), 8).double()
    with torch.no_grad():
        for scale in (block.scale1, block.scale2):
            scale.factor.normal_()
    z = torch.randn(2, 5, 8, dtype=torch.float64)
    middle = z + block.scale1.factor * block.attention(block.norm1(z))
    expected = middle + block.scale2.factor * block.mlp(block.norm2(middle))
    assert (block(z) - expected).abs().max() < 1e-12


@pytest.mark.parametrize("start", [1e-5, 0.1])
def test_both_factors_of_a_block_start_alike(start):
    block = LayerScaleBlock(SelfAttention(8, 2), MLP(8, 16), 8, start=start)
    for scale in (block.scale1, block.scale2):
        assert scale.factor.tolist() == pytest.approx([start] * 8)


def test_class_token_beside_the_mean_of_the_patches():
    head = ClassAndMeanHead(2, 1)
    with torch.no_grad():
        head.classifier.weight.copy_(torch.tensor([[1.0, 10.0, 100.0, 1000.0]]))
        head.classifier.bias.zero_()
    tokens = torch.tensor([[[1.0, 2.0], [3.0, 5.0], [5.0, 7.0]]])
    assert head(tokens).tolist() == [[1 + 20 + 400 + 6000]]


@pytest.mark.parametrize(
    ("head", "tokens"),
    [(ClassAndMeanHead(2, 3), 1), (ClassAndMeanHead(2, 3, 4), 4), (MeanPoolHead(2, 3), 0)],
)
def test_tokens_without_a_patch_are_refused(head, tokens):
    with pytest.raises(ValueError, match=f"^{tokens} tokens, {tokens} of them prefix: expected pa"):
        head(torch.zeros(1, tokens, 2))
    assert head(torch.zeros(1, tokens + 1, 2)).isfinite().all()


def test_a_prefix_without_a_class_token_is_refused():
    with pytest.raises(ValueError, match="num_prefix_tokens 0: expected a whole number, at least"):
        ClassAndMeanHead(2, 3, 0)
