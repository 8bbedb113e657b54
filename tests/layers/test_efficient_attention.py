"""Linformer, Performer, attention in blocks, lines and neighborhoods: their sums, one loop each."""

from functools import partial

import pytest
import torch

from vitbook.analysis import capture_attention
from vitbook.layers import (
    Attention,
    AxialSelfAttention,
    BlockLocalSelfAttention,
    LinformerSelfAttention,
    NeighborhoodSelfAttention,
    PerformerSelfAttention,
    SelfAttention,
    SequenceProjection,
)

GRID, TOKENS, WIDTH, HEADS = (4, 6), 24, 12, 3
LAYERS = {
    "Linformer, none": partial(
        LinformerSelfAttention, num_tokens=TOKENS, num_keys=5, sharing="none"
    ),
    "Linformer, headwise": partial(LinformerSelfAttention, num_tokens=TOKENS, num_keys=5),
    "Linformer, key_value": partial(
        LinformerSelfAttention, num_tokens=TOKENS, num_keys=5, sharing="key_value"
    ),
    "Linformer, layerwise": lambda *args: LinformerSelfAttention(
        *args,
        num_tokens=TOKENS,
        num_keys=5,
        sharing="layerwise",
        shared=SequenceProjection(TOKENS, 5),
    ),
    "Performer": PerformerSelfAttention,
    "blocks": partial(BlockLocalSelfAttention, grid_size=GRID, block_size=(2, 3)),
    "rows": partial(AxialSelfAttention, grid_size=GRID, along="rows"),
    "columns": partial(AxialSelfAttention, grid_size=GRID, along="columns"),
    "neighborhood": partial(NeighborhoodSelfAttention, grid_size=GRID, window_size=(3, 5)),
}
# Images, heads, queries and keys of the captured map of two images.
MAPS = {name: (2, HEADS, TOKENS, 5) for name in LAYERS if "Linformer" in name} | {
    "Performer": (2, HEADS, TOKENS, TOKENS),
    "blocks": (2 * 4, HEADS, 6, 6),
    "rows": (2 * 4, HEADS, 6, 6),
    "columns": (2 * 6, HEADS, 4, 4),
    "neighborhood": (2 * TOKENS, HEADS, 1, 15),
}


@torch.no_grad()
def made(name, seed=0):
    """A layer with weights far from uniform attention, and tokens for it."""
    torch.manual_seed(seed)
    layer = LAYERS[name](WIDTH, HEADS, True)
    for parameter in layer.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    return layer, torch.randn(2, TOKENS, WIDTH)


def heads_of(layer, tokens):
    """Queries, keys and values by slices: "batch tokens width" for each head."""
    d = WIDTH // HEADS
    for h in range(HEADS):
        yield tuple(x[..., h * d : (h + 1) * d] for x in layer.qkv(tokens).chunk(3, dim=-1))


def naive_linformer(layer, tokens):
    (given,) = layer.from_outside
    e = (layer.of_keys or given).weight
    f = (layer.of_values or layer.of_keys or given).weight
    out = []
    for h, (q, k, v) in enumerate(heads_of(layer, tokens)):
        of_keys, of_values = (m[h if len(m) > 1 else 0] for m in (e, f))
        keys, values = (
            torch.stack([sum(row[j] * x[:, j] for j in range(TOKENS)) for row in m], dim=1)
            for m, x in ((of_keys, k), (of_values, v))
        )
        scores = torch.einsum("bid,bmd->bim", q, keys) / (WIDTH // HEADS) ** 0.5
        out.append(torch.einsum("bim,bmd->bid", scores.softmax(-1), values))
    return layer.projection(torch.cat(out, dim=-1))


def naive_performer(layer, tokens):
    w, d = layer.core.directions.double(), WIDTH // HEADS

    def phi(x):
        return (x @ w.T - x.square().sum(-1, keepdim=True) / 2).exp() / len(w) ** 0.5

    out = []
    for q, k, v in heads_of(layer, tokens):
        shares = phi(q.double() / d**0.25) @ phi(k.double() / d**0.25).mT
        out.append(shares / shares.sum(-1, keepdim=True) @ v.double())
    return layer.projection(torch.cat(out, dim=-1).float())


def same_block(one, other):
    return all(a // side == b // side for a, b, side in zip(one, other, (2, 3), strict=True))


def near(one, other):
    return all(abs(a - b) <= reach for a, b, reach in zip(one, other, (1, 2), strict=True))


def naive_mask(layer, tokens, reads):
    """Full attention whose map a mask cuts to the tokens that a token reads."""
    places = [divmod(token, GRID[1]) for token in range(TOKENS)]
    seen = torch.tensor([[reads(one, other) for other in places] for one in places])
    out = []
    for q, k, v in heads_of(layer, tokens):
        scores = (q @ k.mT / (WIDTH // HEADS) ** 0.5).masked_fill(~seen, -torch.inf)
        out.append(scores.softmax(-1) @ v)
    return layer.projection(torch.cat(out, dim=-1))


def naive_axial(layer, tokens, along):
    """Plain self-attention on one row, or column, after the other."""
    grid, out = tokens.unflatten(1, GRID), torch.zeros(2, *GRID, WIDTH)
    for line in range(GRID[0] if along == "rows" else GRID[1]):
        at = (slice(None), line) if along == "rows" else (slice(None), slice(None), line)
        out[at] = SelfAttention.forward(layer, grid[at])
    return out.flatten(1, 2)


NAIVE = {name: naive_linformer for name in LAYERS if "Linformer" in name} | {
    "Performer": naive_performer,
    "blocks": partial(naive_mask, reads=same_block),
    "neighborhood": partial(naive_mask, reads=near),
    "rows": partial(naive_axial, along="rows"),
    "columns": partial(naive_axial, along="columns"),
}


@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_each_layer_is_its_sum(name):
    layer, tokens = made(name)
    out = layer(tokens)
    assert torch.allclose(out, NAIVE[name](layer, tokens), atol=1e-5)
    plain = SelfAttention(WIDTH, HEADS)
    plain.load_state_dict(layer.state_dict(), strict=False)
    assert (plain(tokens) - out).abs().max() > 0.05  # softmax over all tokens is another sum


@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_the_captured_map_times_values_is_the_output(name):
    layer, tokens = made(name)
    outside, seen = layer(tokens), []
    layer.core.register_forward_hook(lambda m, args, out: seen.append((args[2], out)))
    with capture_attention(layer) as maps:
        assert torch.equal(layer(tokens), outside)
    ((v, out),), weights = seen, maps["core"]
    assert list(maps) == ["core"] and tuple(weights.shape) == MAPS[name]
    assert torch.allclose(weights.sum(-1), torch.ones(MAPS[name][:3]), atol=1e-5)
    assert weights.max() > 2 / weights.shape[-1]  # no uniform map, which any error could give
    assert (weights @ v - out).abs().max() <= 1e-5 * out.abs().max()


@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_half_precision(name):
    layer, tokens = made(name)
    exact = layer(tokens)
    half = layer.bfloat16()
    if name == "Linformer, layerwise":  # its owner converts it in a model
        half.from_outside[0].bfloat16()
    out = half(tokens.bfloat16())
    assert out.dtype == torch.bfloat16
    assert (out.float() - exact).abs().max() <= 5e-2 * exact.abs().max()


@pytest.mark.parametrize(
    ("sharing", "matrices"), [("none", 288), ("headwise", 24), ("key_value", 12), ("layerwise", 1)]
)
def test_the_papers_count_of_matrices_for_12_layers_of_12_heads(sharing, matrices):
    shared = SequenceProjection(9, 2) if sharing == "layerwise" else None
    model = torch.nn.ModuleList(
        LinformerSelfAttention(12, 12, num_tokens=9, num_keys=2, sharing=sharing, shared=shared)
        for _ in range(12)
    )
    if shared is not None:
        model.projection = shared
    parts = (m for m in model.modules() if isinstance(m, SequenceProjection))
    assert sum(part.weight.numel() for part in parts) == matrices * 9 * 2
    names = [name for name in model.state_dict() if model.state_dict()[name].ndim == 3]
    assert len(names) == len({model.state_dict()[name].data_ptr() for name in names})


def performer_error(num_features, std):
    errors = []
    for seed in range(5):
        torch.manual_seed(seed)
        layer = PerformerSelfAttention(64, 4, num_features=num_features)
        q, k = (torch.randn(1, 4, 60, 16) * std for _ in range(2))
        exact = Attention.weights(q, k)
        errors.append(((layer.core.weights(q, k) - exact).norm() / exact.norm()).item())
    return sum(errors) / len(errors)


def test_performer_stands_for_the_softmax_of_the_plain_layer():
    few, many = performer_error(64, 0.25), performer_error(4096, 0.25)
    assert many < 0.01
    # The error falls as the root of the number of features: 64 times as many, an eighth.
    assert many == pytest.approx(few / 8, rel=0.2)
    assert performer_error(4096, 1.5) > 1


def test_the_default_number_of_features():
    for head_width, features in {1: 1, 2: 2, 16: 45, 64: 267}.items():
        layer = PerformerSelfAttention(head_width * 2, 2)
        assert tuple(layer.core.directions.shape) == (features, head_width)


OTHERS = torch.zeros(1, TOKENS + 1, WIDTH)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SequenceProjection(9, 0), "9 tokens projected to 0 keys: expected at least 1 key"),
        (lambda: SequenceProjection(9, 9), "9 tokens projected to 9 keys: .* fewer than tokens"),
        (lambda: LAYERS["Linformer, none"](10, 4), "width 10 is not divisible by 4 heads: use"),
        (
            lambda: BlockLocalSelfAttention(8, 2, grid_size=(4, 6), block_size=4),
            "a grid of 4x6 is not divisible into blocks of 4x4: use a block with 1 or 2 or 4 rows "
            "and 1 or 2 or 3 or 6 columns",
        ),
        (
            lambda: NeighborhoodSelfAttention(8, 2, grid_size=(4, 6), window_size=(3, 4)),
            "a window of 3x4 has no middle: expected odd sides",
        ),
        (
            lambda: made("Linformer, headwise")[0](OTHERS),
            "25 tokens came, but this Linformer layer mixes 24: build it",
        ),
        (
            lambda: made("rows")[0](OTHERS),
            "25 tokens came, but a grid of 4x6 has 24 patches: .* hold no prefix token",
        ),
    ],
)
def test_layers_and_tokens_that_cannot_be(make, words):
    with pytest.raises(ValueError, match=words):
        make()
