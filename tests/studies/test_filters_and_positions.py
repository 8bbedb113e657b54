import math

import pytest
import torch

from vitbook import create_model
from vitbook.analysis import PositionTable, position_tables, principal_filters
from vitbook.figures.place_waves import likeness_of_waves
from vitbook.studies import filters_and_positions as study
from vitbook.studies.filters_and_positions import (
    position_spectrum,
    spatial_frequency,
    split_at_frequency,
)
from vitbook.studies.filters_and_positions.measures import evidence
from vitbook.training import load_checkpoint


def ripple(down, across, height=6, width=8):
    rows, columns = torch.arange(height) + 0.5, torch.arange(width) + 0.5
    return torch.cos(math.pi * down * rows / height)[:, None] * torch.cos(
        math.pi * across * columns / width
    )


@pytest.mark.parametrize(("down", "across"), [(0, 0), (0, 4), (3, 0), (2, 5), (5, 7)])
def test_a_ripple_has_its_own_frequency(down, across):
    wanted = math.hypot(down / 12, across / 16)  # u / 2 cycles over the side
    assert spatial_frequency(ripple(down, across)).item() == pytest.approx(wanted, abs=1e-6)


def test_two_ripples_weigh_by_their_squares():
    flat, fast = torch.ones(1, 2) / 2**0.5, torch.tensor([[1.0, -1]]) / 2**0.5
    mixed = torch.stack([3 * flat + fast, fast])  # 9 parts at 0, one at a quarter of a cycle
    assert spatial_frequency(mixed).tolist() == pytest.approx([0.025, 0.25])


def test_noise_is_fast_and_a_slope_is_slow():
    torch.manual_seed(0)
    noise = spatial_frequency(torch.randn(500, 14, 14)).mean().item()
    assert noise == pytest.approx(0.365, abs=0.01)
    slope = spatial_frequency(torch.arange(14.0).expand(14, 14) - 6.5).item()
    assert slope < 0.1 * noise + 0.01


def test_components_keep_the_mean_frequency_of_the_filters():
    """Turned into components, filters keep their variance in every ripple."""
    torch.manual_seed(0)
    filters = torch.randn(40, 1, 5, 7) + 3
    found = principal_filters(filters, 99)
    varying = (filters - filters.mean(0))[:, 0]
    weights = varying.square().sum((1, 2))
    whole = (spatial_frequency(varying) * weights).sum() / weights.sum()
    parts = (spatial_frequency(found.filters[:, 0]) * found.shares).sum()
    assert parts.item() == pytest.approx(whole.item(), abs=1e-5)


def test_a_mirror_and_a_scale_change_nothing_and_shuffled_pixels_do():
    torch.manual_seed(0)
    smooth = ripple(1, 1, 8, 8) + ripple(0, 2, 8, 8)
    given = spatial_frequency(smooth)
    assert torch.allclose(spatial_frequency(-5 * smooth.flip(1)), given)
    shuffled = smooth.flatten()[torch.randperm(64)].reshape(8, 8)
    assert spatial_frequency(shuffled) > 2 * given


def test_a_split_adds_up_at_right_angles():
    torch.manual_seed(0)
    filters = torch.randn(5, 3, 6, 8)
    slow, fast = split_at_frequency(filters, 0.3)
    assert torch.allclose(slow + fast, filters, atol=1e-6)
    assert (slow * fast).sum((2, 3)).abs().max() < 1e-5
    assert (spatial_frequency(slow) < 0.3).all() and (spatial_frequency(fast) >= 0.3).all()
    mixed = ripple(0, 1) + ripple(4, 6)
    parts = split_at_frequency(mixed, 0.3)
    assert torch.allclose(parts.slow, ripple(0, 1), atol=1e-6)
    assert torch.allclose(parts.fast, ripple(4, 6), atol=1e-6)
    assert not split_at_frequency(mixed, 0).slow.any()
    assert torch.allclose(split_at_frequency(mixed, 1).slow, mixed, atol=1e-6)


def test_half_precision_is_computed_in_full_and_zeros_have_none():
    assert spatial_frequency(ripple(0, 2).half()).dtype == torch.float32
    assert spatial_frequency(torch.zeros(4, 4)).isnan()


def test_one_pixel_and_one_line_and_no_filter():
    assert spatial_frequency(torch.tensor([[5.0]])).item() == 0  # it is flat
    assert spatial_frequency(torch.tensor([[1.0, -1.0]])).item() == pytest.approx(0.25)
    assert spatial_frequency(torch.zeros(0, 3, 3)).shape == (0,)
    slow, fast = split_at_frequency(torch.tensor([[5.0]]), 0.1)
    assert (slow.item(), fast.item()) == (5, 0)


def wave(grid, down, across, width=6, prefix=0):
    """A table in which every number goes up and down ``down`` times along the rows."""
    rows, columns = grid
    y, x = torch.arange(rows)[:, None] / rows, torch.arange(columns) / columns
    phases = torch.arange(width) * 0.7
    places = torch.cos(2 * math.pi * (down * y + across * x)[..., None] + phases)
    return torch.cat([torch.full((prefix, width), 100.0), places.reshape(-1, width)])


@pytest.mark.parametrize("prefix", [0, 2])
@pytest.mark.parametrize(("down", "across"), [(2, 3), (0, 4), (3, 0), (-2, 5), (1, 1)])
def test_a_plane_wave_peaks_at_its_frequency(down, across, prefix):
    shares = position_spectrum(wave((10, 14), down, across, prefix=prefix), (10, 14), prefix)
    middle = torch.tensor([5, 7])
    peaks = {tuple((place - middle).tolist()) for place in (shares > 0.01).nonzero()}
    assert peaks == {(down, across), (-down, -across)}
    assert shares.sum().item() == pytest.approx(1) and shares[5, 7] == 0


def test_two_waves_share_the_variance_by_their_squares():
    table = 3 * wave((8, 6), 1, 0) + wave((8, 6), 0, 2) + 5  # the mean is no wave
    shares = position_spectrum(table, (8, 6), 0)
    assert shares[4 + 1, 3].item() == pytest.approx(0.45, abs=1e-4)
    assert shares[4, 3 + 2].item() == pytest.approx(0.05, abs=1e-4)


def test_the_spectrum_of_noise_is_flat_and_half_precision_is_computed_in_full():
    table = torch.randn(140, 4000, generator=torch.Generator().manual_seed(0))
    for given in (table, table.half(), table.bfloat16()):
        shares = position_spectrum(given, (10, 14), 0)
        assert shares.dtype == torch.float32
        others = torch.cat([shares.flatten()[:77], shares.flatten()[78:]])  # without the mean
        assert others.numpy() == pytest.approx(1 / 139, rel=0.15)


def test_half_of_a_two_dimensional_table_is_shared_along_a_row():
    table = position_tables(create_model("vit_pos2d_micro_patch2_8"))["position"]
    shares = position_spectrum(*table)
    off_axis = shares.clone()
    off_axis[2], off_axis[:, 2] = 0, 0
    assert off_axis.sum() < 1e-6  # waves along one side of the grid alone


def test_row_and_column_vectors_hold_what_is_straight():
    torch.manual_seed(0)
    rows, columns = torch.randn(9, 1, 20), torch.randn(1, 9, 20)
    table = PositionTable((rows + columns).reshape(81, 20), (9, 9), 0)
    assert study.straight(table) == pytest.approx(1, abs=1e-5)
    assert study.straight(study.random_table(9, 500)) == pytest.approx(16 / 80, abs=0.02)


def test_enlarging_leaves_few_frequencies_and_makes_neighbours_similar():
    torch.manual_seed(0)
    few = study.random_table(8, 200)
    many = study.resized(few, 20)
    assert many.grid_size == (20, 20) and study.held_by(many, 4) > 0.8
    assert abs(study.along_rows(few)[1]) < 0.05 and study.along_rows(many)[1] > 0.6
    assert study.along_rows(many)[0] == pytest.approx(1, abs=1e-5)
    assert study.held_by(study.random_table(20, 200), 4) == pytest.approx(80 / 399, abs=0.03)


def test_a_bell_curve_is_what_its_cosines_are():
    cosines = study.along_rows(study.bell_table(10))
    assert cosines[:4] == pytest.approx([math.exp(-(d**2) / 8) for d in range(4)], abs=1e-3)


def test_what_follows_the_whole_filters_leaves_the_model_as_it_was():
    torch.manual_seed(0)
    model, images = create_model("vit_micro_patch2_8"), torch.rand(2, 1, 8, 8)
    before = model.tokenizer.projection.weight.detach().clone()
    found = study.followed(model, images, 1.0)  # nothing is faster
    assert found["slow"] == pytest.approx(1, abs=1e-5) and found["fast"] < 0.9
    assert found["none"] == pytest.approx(found["fast"], abs=1e-6)  # so the fast part is zero
    assert torch.equal(model.tokenizer.projection.weight, before)


def test_directions_are_counted_without_the_mean():
    line = torch.outer(torch.arange(9.0), torch.ones(4)) + torch.tensor([5.0, 0, 0, 0])
    assert study.directions(line) == 1
    assert study.directions(torch.eye(4).repeat(3, 1)) == 3


def test_the_evidence_has_its_controls():
    tables, ranks = evidence().tables
    near = {line["table"]: line["next"] for line in tables.lines}
    assert float(near["random, enlarged"]) > 0.7 > 0.01 > float(near["random"].replace("−", "-"))
    assert [line["tokens"] for line in ranks.lines][-1] == "noise"


def test_three_frequencies_tell_the_learned_mirror_from_the_controls():
    tables = {"learned": study.own_table(load_checkpoint(study.SMALL["CIFAR-10"]).model),
              "bell curve": study.bell_table(8)}  # fmt: skip
    torch.manual_seed(0)
    tables["fresh"] = study.own_table(create_model("vit_mini_patch4_32"))
    edge = {}
    for name, (table, grid, prefix) in tables.items():
        places = table[prefix:].detach().unflatten(0, grid).numpy()
        edge[name] = [likeness_of_waves(places, keep)[24, 31] for keep in (1, 2, 3, 4)]
    assert all(value > 0.5 for value in edge.pop("learned"))
    assert all(max(values[2:]) < 0.3 < min(values[:2]) for values in edge.values())
