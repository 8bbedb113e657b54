import cmath
import math

import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from timm.layers.pos_embed_sincos import RotaryEmbeddingDinoV3, apply_rot_embed_cat
from transformers import DINOv3ViTConfig
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3

from vitbook import create_model
from vitbook.analysis import capture_attention
from vitbook.errors import UnknownNameError
from vitbook.layers import RotaryPosition2D, RotarySelfAttention

GRIDS = st.tuples(st.integers(1, 5), st.integers(1, 5))


def turned(position, token, vector):
    """A token's vector by the words of the docstring: each pair is a complex number."""
    n, (rows, columns), d = position.num_prefix_tokens, position.grid_size, len(vector)
    if token < n:
        return vector
    row, column = divmod(token - n, columns)
    y, x = (2 * (row + 0.5) / rows - 1), (2 * (column + 0.5) / columns - 1)
    found = [None] * d
    for j in range(d // 2):
        speed = position.base ** -(2 * (j % (d // 4)) / (d / 2))
        angle = 2 * math.pi * (y if j < d // 4 else x) * speed
        pair = complex(vector[j], vector[j + d // 2]) * cmath.exp(1j * angle)
        found[j], found[j + d // 2] = pair.real, pair.imag
    return torch.tensor(found)


@given(grid_size=GRIDS, prefix=st.integers(0, 2), heads=st.integers(1, 3))
@settings(deadline=None, max_examples=15)
@torch.no_grad()
def test_the_sum_pair_by_pair(grid_size, prefix, heads):
    width = 8 * heads
    attention = RotarySelfAttention(width, heads, True, RotaryPosition2D(grid_size, 8, prefix))
    for parameter in attention.parameters():
        parameter.copy_(torch.randn_like(parameter))
    n = prefix + grid_size[0] * grid_size[1]
    tokens = torch.randn(1, n, width)
    q, k, v = attention.qkv(tokens)[0].unflatten(-1, (3, heads, 8)).unbind(1)
    mixed = torch.zeros(n, heads, 8)
    for h in range(heads):
        queries, keys = (
            torch.stack([turned(attention.position, i, each[i, h]) for i in range(n)])
            for each in (q, k)
        )
        for i in range(n):
            mixed[i, h] = (keys @ queries[i] / 8**0.5).softmax(0) @ v[:, h]
    expected = attention.projection(mixed.flatten(1))
    assert torch.allclose(attention(tokens)[0], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("grid_size", [(4, 4), (3, 5), (1, 7)])
def test_equals_timm_and_hugging_face(grid_size):
    rows, columns = grid_size
    q = torch.randn(2, 3, 1 + rows * columns, 32)
    ours = RotaryPosition2D(grid_size, 32)(q)
    angles = RotaryEmbeddingDinoV3(32, feat_shape=list(grid_size)).get_embed()
    theirs = apply_rot_embed_cat(q[:, :, 1:], angles, half=True)
    assert torch.allclose(ours[:, :, 1:], theirs, atol=1e-5)
    config = DINOv3ViTConfig(
        hidden_size=96, num_attention_heads=3, patch_size=2, image_size=2 * rows
    )
    images = torch.zeros(1, 3, 2 * rows, 2 * columns)
    cos, sin = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()(images)
    theirs, _ = dinov3.apply_rotary_pos_emb(q, q, cos, sin)
    assert torch.allclose(ours, theirs, atol=1e-5)


@torch.no_grad()
def test_equals_an_attention_of_dinov3():
    """Its queries, keys and values are ours; random weights, four registers."""
    model = timm.create_model(
        "vit_small_patch16_dinov3", img_size=64, depth=1, embed_dim=48, num_heads=3
    ).eval()
    theirs, tokens = model.blocks[0].attn, torch.randn(2, 5 + 16, 48)
    ours = RotarySelfAttention(48, 3, False, RotaryPosition2D((4, 4), 16, 5))
    ours.qkv.load_state_dict({"weight": theirs.qkv.weight})
    ours.projection.load_state_dict(theirs.proj.state_dict())
    rope = model.rope.get_embed([4, 4])
    assert torch.allclose(ours(tokens), theirs(tokens, rope=rope), atol=1e-5)


@given(grid_size=GRIDS, down=st.integers(0, 4), right=st.integers(0, 4))
@settings(deadline=None, max_examples=20)
def test_a_score_knows_the_offset_alone(grid_size, down, right):
    rows, columns = grid_size
    position = RotaryPosition2D(grid_size, 16, 0).double()
    position.resize(grid_size)  # the angles anew: those that were there came from single precision
    q, k = (torch.randn(1, 1, 1, 16, dtype=torch.float64) for _ in range(2))
    everywhere = (1, 1, rows * columns, 16)
    scores = position(q.expand(everywhere)) @ position(k.expand(everywhere)).mT
    scores = scores[0, 0].unflatten(1, grid_size).unflatten(0, grid_size)
    down, right = min(down, rows - 1), min(right, columns - 1)
    moved = scores[down:, right:, down:, right:]
    stayed = scores[: rows - down, : columns - right, : rows - down, : columns - right]
    assert torch.allclose(moved, stayed, rtol=0, atol=1e-12)


def test_norms_stay_and_gradients_turn_back():
    position = RotaryPosition2D((3, 4), 8).double()
    q = torch.randn(2, 2, 13, 8, dtype=torch.float64, requires_grad=True)
    turned = position(q)
    assert torch.allclose(turned.norm(dim=-1), q.norm(dim=-1))
    assert torch.equal(turned[:, :, 0], q[:, :, 0])  # the class token
    # A rotation's transpose is its inverse: the gradient of |turned|^2 / 2 is q itself.
    (gradient,) = torch.autograd.grad(turned.square().sum() / 2, q)
    assert torch.allclose(gradient, q)
    assert torch.autograd.gradcheck(position, q)


def test_a_resized_grid():
    position = RotaryPosition2D((4, 4), 16)
    trained, again = position.cos.clone(), RotaryPosition2D((8, 4), 16)
    position.resize((8, 4))
    assert position.grid_size == (8, 4) and torch.equal(position.cos, again.cos)
    position.resize((4, 4))
    assert torch.equal(position.cos, trained)
    position.resize((6, 4), "continued")  # one row more on either side, and the steps of before
    inner = position.cos[1:].unflatten(0, (6, 4))[1:5]
    assert torch.allclose(inner.flatten(0, 1), trained[1:], atol=1e-6)
    position.resize((4, 4), "continued")
    with pytest.raises(UnknownNameError, match="did you mean continued"):
        position.resize((6, 4), "continud")
    assert torch.allclose(position.cos, trained, atol=1e-6)


@torch.no_grad()
def test_a_model_at_another_resolution():
    model = create_model("vit_rope_micro_patch2_8").eval()
    larger = create_model("vit_rope_micro_patch2_8", image_size=(12, 8)).eval()
    larger.load_state_dict(model.state_dict())  # nothing of it belongs to the grid
    model.encoder.blocks[0].attention.position.resize((6, 4))
    model.tokenizer.image_size = (12, 8)
    images = torch.randn(2, 1, 12, 8)
    with capture_attention(larger) as maps:
        logits = larger(images)
    assert logits.shape == (2, 10) and maps["encoder.blocks.0.attention.core"].shape[-1] == 25


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_dtype_stays(dtype):
    position = RotaryPosition2D((2, 2), 8)
    assert position(torch.randn(1, 1, 5, 8, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize(
    ("tokens", "width"), [(16, 8), (5, 16)], ids=["tokens of another grid", "another width"]
)
def test_what_does_not_fit_is_told(tokens, width):
    with pytest.raises(ValueError, match="1 prefix and 2x2 patches, of width 8: make them for"):
        RotaryPosition2D((2, 2), 8)(torch.randn(1, 1, tokens, width))


def test_a_width_without_pairs():
    with pytest.raises(ValueError, match="heads of width 6: expected a multiple of 4"):
        RotaryPosition2D((2, 2), 6)
