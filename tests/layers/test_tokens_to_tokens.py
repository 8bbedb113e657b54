import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook.analysis import capture_attention
from vitbook.layers.sinusoid import sinusoid_table
from vitbook.layers.tokens_to_tokens import (
    TokenMean,
    TokenPerformer,
    TokensToTokens,
    TokenTransformer,
)

BLOCKS = pytest.mark.parametrize("make_block", [TokenPerformer, TokenTransformer, TokenMean])


def shaken(module):
    """With no weight at zero or one, so that none can be left out unseen."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return module.eval()


def naive_split(image, kernel, stride, padding):
    """Patches of one image, cut out one by one; and their grid."""
    wide = F.pad(image, (padding,) * 4)
    tops, lefts = (range(0, side - kernel + 1, stride) for side in wide.shape[1:])
    patches = [wide[:, t : t + kernel, x : x + kernel].flatten() for t in tops for x in lefts]
    return torch.stack(patches), (len(tops), len(lefts))


def naive_block(block, tokens):
    """One image's tokens; attention from the definition, the shortcut from v."""
    x = F.layer_norm(tokens, tokens.shape[1:], block.norm1.weight, block.norm1.bias, 1e-5)
    if isinstance(block, TokenPerformer):
        k, q, v = block.kqv(x).chunk(3, dim=1)
        w = block.core.directions
        scores = [(t @ w.T - t.square().sum(1, keepdim=True) / 2).exp() for t in (q, k)]
        weights = scores[0] @ scores[1].T
        weights = weights / weights.sum(1, keepdim=True)
    elif isinstance(block, TokenMean):
        v = block.values(x)
        weights = torch.full((len(v), len(v)), 1 / len(v))
    else:
        q, k, v = block.qkv(x).chunk(3, dim=1)
        weights = (q @ k.T / tokens.shape[1] ** 0.5).softmax(1)
    z = v + block.projection(weights @ v)
    y = F.layer_norm(z, z.shape[1:], block.norm2.weight, block.norm2.bias, 1e-5)
    return z + block.mlp.contract(F.gelu(block.mlp.expand(y)))


@BLOCKS
@pytest.mark.parametrize(
    ("splits", "step"),
    [
        (((7, 4, 2), (3, 2, 1), (3, 2, 1)), 16),
        (((3, 2, 1), (3, 2, 1)), 4),
        (((3, 1, 1), (5, 4, 2)), 4),
        (((5, 3, 1),), 3),
    ],
)
@torch.no_grad()
def test_the_module_is_the_papers_steps_one_by_one(make_block, splits, step):
    size = (37, 50) if step == 16 else (11, 14)
    module = shaken(TokensToTokens(size, 2, 24, make_block, token_width=16, soft_splits=splits))
    blocks = [getattr(module, f"block{number}") for number in range(1, len(splits))]
    images = torch.randn(2, 2, *size)
    expected = []
    for tokens in images:
        for split, block in zip(splits[:-1], blocks, strict=True):
            patches, grid = naive_split(tokens, *split)
            tokens = naive_block(block, patches).T.unflatten(1, grid)
        patches, grid = naive_split(tokens, *splits[-1])
        expected.append(module.projection(patches))
    assert (module.grid_size, module.patch_size) == (grid, step)
    assert torch.allclose(module(images), torch.stack(expected), atol=1e-4)


@given(height=st.integers(3, 70), width=st.integers(3, 70))
@settings(deadline=None, max_examples=30)
def test_any_image(height, width):
    module = TokensToTokens((height, width), 1, 8, TokenTransformer, token_width=4)
    rows, columns = module.grid_size
    assert module(torch.randn(1, 1, height, width)).shape == (1, rows * columns, 8)
    if height % 16 == 0 and width % 16 == 0:
        assert module.grid_size == (height // 16, width // 16)


def test_dropout_is_not_the_transformers_and_only_while_training():
    images = torch.randn(1, 3, 32, 32)
    for make_block, drops in ((TokenPerformer, True), (TokenTransformer, False), (TokenMean, True)):
        module = TokensToTokens(32, 3, 8, make_block)
        assert torch.equal(module(images), module(images)) is not drops
        assert torch.equal(module.eval()(images), module(images))


@BLOCKS
def test_capture_shows_both_blocks(make_block):
    module = TokensToTokens((32, 48), 3, 8, make_block).eval()
    images = torch.randn(2, 3, 32, 48)
    outside = module(images)
    with capture_attention(module) as maps:
        assert torch.equal(module(images), outside)
    assert {path: tuple(m.shape) for path, m in maps.items()} == {
        "block1.core": (2, 1, 96, 96),
        "block2.core": (2, 1, 24, 24),
    }
    assert all(
        torch.allclose(m.sum(-1), torch.ones(m.shape[:-1]), atol=1e-5) for m in maps.values()
    )


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (2, "image 2x2 is too small for soft splits .*: use 3 pixels a side at least"),
        ((32, 1), "image 32x1 is too small"),
        (0, "image size 0: expected a positive whole number or a pair of them"),
    ],
)
def test_sizes_that_cannot_be(size, words):
    with pytest.raises(ValueError, match=words):
        TokensToTokens(size, 3, 8)


def test_sinusoids_are_the_definitions():
    table = sinusoid_table(197, 7)
    for i in (0, 1, 5, 196):
        for j in range(7):
            wave = math.cos if j % 2 else math.sin
            expected = wave(i / 10000 ** (2 * (j // 2) / 7))
            assert table[i, j].item() == pytest.approx(expected, abs=1e-6)
