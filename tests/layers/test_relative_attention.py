import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook.analysis import capture_attention
from vitbook.layers import RelativePosition, RelativePosition2D, RelativeSelfAttention
from vitbook.layers.positions import resize_positions

KINDS = (RelativePosition, RelativePosition2D)


@torch.no_grad()
def random_attention(kind, grid_size, prefix=1, width=12, heads=3):
    """Scores far from zero, so that a wrong offset shows."""
    position = kind(grid_size, width // heads, prefix)
    attention = RelativeSelfAttention(width, heads, True, position)
    for parameter in attention.parameters():
        parameter.copy_(torch.randn_like(parameter))
    return attention


def vector(position, query, key):
    """The vector of a pair of tokens, by the words of the docstring."""
    n, columns = position.num_prefix_tokens, position.grid_size[1]
    if query < n or key < n:
        return position.prefix[2 if max(query, key) < n else 0 if query < n else 1]
    q, k = query - n, key - n
    if isinstance(position, RelativePosition2D):
        rows_apart, columns_apart = q // columns - k // columns, q % columns - k % columns
        middle = position.grid_size[0] - 1, columns - 1
        of_rows = position.of_rows[middle[0] + rows_apart]
        return of_rows + position.of_columns[middle[1] + columns_apart]
    return position.table[len(position.table) // 2 + q - k]


@pytest.mark.parametrize("kind", KINDS)
@given(
    grid_size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    prefix=st.integers(0, 2),
    heads=st.integers(1, 3),
)
@settings(deadline=None, max_examples=15)
@torch.no_grad()
def test_the_sum_pair_by_pair(kind, grid_size, prefix, heads):
    attention = random_attention(kind, grid_size, prefix, width=4 * heads, heads=heads)
    n = prefix + grid_size[0] * grid_size[1]
    tokens = torch.randn(2, n, 4 * heads)
    qkv = attention.qkv(tokens).unflatten(-1, (3, heads, 4))
    mixed = torch.zeros(2, n, heads, 4)
    for b in range(2):
        for h in range(heads):
            q, k, v = qkv[b, :, :, h].unbind(1)
            for i in range(n):
                keys = torch.stack([k[j] + vector(attention.position, i, j) for j in range(n)])
                mixed[b, i, h] = (keys @ q[i] / 4**0.5).softmax(0) @ v
    expected = attention.projection(mixed.flatten(2))
    assert torch.allclose(attention(tokens), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("down", "right"), [(1, 0), (2, 1)])
@torch.no_grad()
def test_moved_content_is_attended_alike(kind, down, right):
    """Scores of pairs that stay in the image move with it; an absolute position would not."""
    rows, columns = 4, 5
    attention = random_attention(kind, (rows, columns), prefix=0)
    grid = torch.randn(1, rows, columns, 12)
    moved = grid.roll((down, right), (1, 2))

    def scores(tokens):
        q, k, _ = attention.qkv(tokens.flatten(1, 2)).unflatten(-1, (3, 3, 4)).unbind(2)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        both = q @ k.mT + attention.position(q)
        grid_pairs = both.unflatten(3, (rows, columns)).unflatten(2, (rows, columns))
        with capture_attention(attention) as maps:
            attention(tokens.flatten(1, 2))
        assert torch.allclose(maps["core"], (both / 4**0.5).softmax(-1), atol=1e-5)
        return grid_pairs  # batch heads, rows and columns of the query, then of the key

    before = scores(grid)[:, :, : rows - down, : columns - right, : rows - down, : columns - right]
    after = scores(moved)[:, :, down:, right:, down:, right:]
    assert torch.allclose(before, after, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [1, 8])
def test_another_number_of_tokens(kind, tokens):
    attention = RelativeSelfAttention(12, 3, True, kind((2, 3), 4))
    words = f"{tokens} tokens came, .* those of 7, 1 prefix and 2x3 patches"
    with pytest.raises(ValueError, match=words):
        attention(torch.zeros(1, tokens, 12))


@torch.no_grad()
def test_offsets_are_carried_to_another_grid():
    position = RelativePosition2D((4, 3), 4)
    before = {name: p.clone() for name, p in position.named_parameters()}
    position.resize((4, 3))
    assert all(torch.equal(before[name], p) for name, p in position.named_parameters())
    position.resize((7, 5))
    assert position.of_rows.shape == (13, 4) and position.of_columns.shape == (9, 4)
    assert torch.equal(position.prefix, before["prefix"])
    for name, length in (("of_rows", 13), ("of_columns", 9)):
        new, old = getattr(position, name), before[name]
        assert torch.equal(new, resize_positions(old, (len(old), 1), (length, 1), 0))
        assert torch.allclose(new[length // 2], old[len(old) // 2], atol=0.02)
        # A table that is the same on both sides of offset 0 stays so.
        even = RelativePosition2D((4, 3), 4)
        getattr(even, name).add_(getattr(even, name).flip(0).clone())
        even.resize((7, 5))
        assert torch.allclose(getattr(even, name), getattr(even, name).flip(0), atol=1e-6)
    q = torch.randn(1, 2, 36, 4)
    scores = position(q)
    for i, j in ((3, 30), (30, 3), (0, 5), (5, 0), (0, 0)):
        expected = q[0, :, i] @ vector(position, i, j)
        assert torch.allclose(scores[0, :, i, j], expected, atol=1e-5)
