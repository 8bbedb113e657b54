import numpy as np
import pytest
import timm
import torch
from scipy.ndimage import zoom

from vitbook.errors import UnknownNameError
from vitbook.layers import LearnedPosition, LearnedPosition2D, NoPosition, resize_positions
from vitbook.models.vit import vit


@pytest.mark.parametrize("new", [(7, 7), (24, 24), (10, 20)])
def test_timm_bicubic_is_timms(new):
    table = torch.randn(1 + 14 * 14, 8)
    expected = timm.layers.resample_abs_pos_embed(table[None], new, (14, 14))[0]
    assert torch.equal(resize_positions(table, (14, 14), new, 1, "timm_bicubic"), expected)


@pytest.mark.parametrize("new", [(7, 7), (24, 24), (10, 20)])
def test_google_bilinear_is_scipys_zoom(new):
    grid = np.random.default_rng(0).normal(size=(14, 14, 8)).astype(np.float32)
    expected = zoom(grid, (new[0] / 14, new[1] / 14, 1), order=1)
    table = torch.from_numpy(grid).reshape(-1, 8)
    ours = resize_positions(table, (14, 14), new, 0, "google_bilinear")
    assert np.abs(ours.reshape(*new, 8).numpy() - expected).max() < 1e-5


def test_bicubic_differs_from_timms_when_the_grid_shrinks():
    table = torch.randn(196, 4)
    small = [resize_positions(table, (14, 14), (7, 7), 0, m) for m in ("bicubic", "timm_bicubic")]
    assert (small[0] - small[1]).abs().max() > 0.1


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


@torch.no_grad()
def test_without_positions_the_class_token_sees_a_set():
    body = dict(width=12, depth=2, num_heads=3, mlp_width=24, num_classes=5)
    order = torch.tensor([3, 0, 2, 1])
    picture = torch.randn(1, 3, 4, 4)
    patches = picture.unfold(2, 2, 2).unfold(3, 2, 2).flatten(2, 3)[:, :, order]
    shuffled = patches.unflatten(2, (2, 2)).permute(0, 1, 2, 4, 3, 5).reshape(1, 3, 4, 4)
    for kind, blind in ((NoPosition, True), (LearnedPosition, False), (LearnedPosition2D, False)):
        model = vit(image_size=4, patch_size=2, make_position=kind, **body).eval()
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        assert torch.allclose(model(picture), model(shuffled), atol=1e-5) == blind
