import math

import numpy as np
import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import zoom

from vitbook.errors import UnknownNameError
from vitbook.layers import (
    LearnedPosition,
    LearnedPosition2D,
    NoPosition,
    SinusoidPosition2D,
    resize_positions,
)
from vitbook.models.papers.vit import Body, vit


@pytest.mark.parametrize("new", [(7, 7), (10, 20)])
def test_timm_bicubic_is_timms(new):
    table = torch.randn(1 + 14 * 14, 8)
    expected = timm.layers.resample_abs_pos_embed(table[None], new, (14, 14))[0]
    assert torch.equal(resize_positions(table, (14, 14), new, 1, "timm_bicubic"), expected)


@pytest.mark.parametrize("new", [(7, 7), (10, 20)])
def test_google_bilinear_is_scipys_zoom(new):
    grid = np.random.default_rng(0).normal(size=(14, 14, 8)).astype(np.float32)
    expected = zoom(grid, (new[0] / 14, new[1] / 14, 1), order=1)
    table = torch.from_numpy(grid).reshape(-1, 8)
    ours = resize_positions(table, (14, 14), new, 0, "google_bilinear")
    assert np.abs(ours.reshape(*new, 8).numpy() - expected).max() < 1e-5


@pytest.mark.parametrize("method", ["google_bilinear", "bicubic", "timm_bicubic"])
@pytest.mark.parametrize("rows", [4, 13])
def test_a_single_column_is_one_of_four_alike(method, rows):
    """On one column torch's antialiasing gives numbers of its own."""
    table = torch.randn(7, 3)
    four = resize_positions(table.repeat_interleave(4, 0), (7, 4), (rows, 4), 0, method)
    for columns, alike in ((1, table), (3, table.repeat_interleave(3, 0))):
        one = resize_positions(alike, (7, columns), (rows, 1), 0, method)
        assert torch.allclose(one, four[::4], atol=1e-5)


def test_prefix_rows_stay_and_the_same_grid_changes_nothing():
    position = LearnedPosition((4, 6), 8, num_prefix_tokens=2)
    before = position.table.detach().clone()
    position.resize((4, 6))
    assert torch.equal(position.table, before)
    position.resize((8, 12))
    assert position.table.shape == (2 + 96, 8)
    assert torch.equal(position.table[:2], before[:2])
    assert position(torch.zeros(1, 98, 8)).shape == (1, 98, 8)
    assert position.grid_size == (8, 12)


def test_a_table_of_another_grid():
    with pytest.raises(ValueError, match="197 rows, but 1 prefix tokens and a 7x7 grid need 50"):
        resize_positions(torch.zeros(197, 8), (7, 7), (14, 14))


def test_an_unknown_method():
    with pytest.raises(UnknownNameError, match="did you mean bicubic"):
        resize_positions(torch.zeros(5, 2), (2, 2), (3, 3), 1, "bicubik")


def test_halves_of_the_grid():
    position = LearnedPosition2D((2, 3), width=4, num_prefix_tokens=1)
    x, y = position.of_columns, position.of_rows
    out = position(torch.zeros(1, 7, 4))[0]
    assert torch.equal(out[0], position.prefix[0])
    for i in range(2):
        for j in range(3):
            assert torch.equal(out[1 + 3 * i + j], torch.cat([x[j], y[i]]))


def test_an_odd_width_has_no_halves():
    with pytest.raises(ValueError, match="width 5: expected an even one"):
        LearnedPosition2D((2, 3), width=5)


@pytest.mark.parametrize("method", ["google_bilinear", "bicubic", "timm_bicubic"])
@given(
    old=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    new=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
@settings(deadline=None, max_examples=20)
@torch.no_grad()
def test_halves_resized_are_the_whole_resized(method, old, new):
    position = LearnedPosition2D(old, width=6, num_prefix_tokens=2)
    whole = resize_positions(position.table, old, new, 2, method)
    position.resize(new, method)
    assert position.grid_size == new
    assert torch.allclose(position.table, whole, atol=1e-6)
    assert position(torch.zeros(1, 2 + new[0] * new[1], 6)).shape[1] == len(whole)


@given(
    grid_size=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    quarter=st.integers(1, 5),
    prefix=st.integers(0, 2),
)
@settings(deadline=None, max_examples=30)
def test_waves_along_both_sides_number_by_number(grid_size, quarter, prefix):
    width = 4 * quarter
    rows, columns = grid_size
    tokens = torch.zeros(1, prefix + rows * columns, width)
    out = SinusoidPosition2D(grid_size, width, prefix)(tokens)[0]
    assert (out[:prefix] == 0).all()
    for y in range(rows):
        for x in range(columns):
            for number, place in enumerate((x, y)):
                for pair in range(quarter):
                    angle = place / 10000 ** (pair / quarter)
                    channel = number * width // 2 + 2 * pair
                    wave = out[prefix + y * columns + x, channel : channel + 2].tolist()
                    assert wave == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-6)


def test_waves_that_do_not_fit_and_waves_that_are_carried():
    with pytest.raises(ValueError, match="width 6 is not divisible by 4"):
        SinusoidPosition2D((2, 3), 6)
    position = SinusoidPosition2D((4, 4), 8)
    assert not list(position.parameters()) and set(position.state_dict()) == {"table"}
    whole = resize_positions(position.table, (4, 4), (6, 5), 1, "bicubic")
    position.resize((6, 5))
    assert torch.equal(position.table, whole)


@torch.no_grad()
def test_without_positions_the_class_token_sees_a_set():
    body = Body(12, 2, num_heads=3, mlp_width=24)
    order = torch.tensor([3, 0, 2, 1])
    image = torch.randn(1, 3, 4, 4)
    patches = image.unfold(2, 2, 2).unfold(3, 2, 2).flatten(2, 3)[:, :, order]
    shuffled = patches.unflatten(2, (2, 2)).permute(0, 1, 2, 4, 3, 5).reshape(1, 3, 4, 4)
    for kind in (NoPosition, LearnedPosition, LearnedPosition2D, SinusoidPosition2D):
        model = vit(image_size=4, patch_size=2, num_classes=5, make_position=kind, body=body).eval()
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        assert torch.allclose(model(image), model(shuffled), atol=1e-5) == (kind is NoPosition)
