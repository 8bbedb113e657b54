import math

import pytest
import torch

from vitbook.analysis import principal_filters, spatial_frequency, split_at_frequency


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


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="filters hold NaN or infinity"):
        spatial_frequency(torch.full((2, 2), torch.nan))
    with pytest.raises(ValueError, match="cutoff -1: expected 0 or more"):
        split_at_frequency(torch.ones(2, 2), -1)


def test_one_pixel_and_one_line_and_no_filter():
    assert spatial_frequency(torch.tensor([[5.0]])).item() == 0  # it is flat
    assert spatial_frequency(torch.tensor([[1.0, -1.0]])).item() == pytest.approx(0.25)
    assert spatial_frequency(torch.zeros(0, 3, 3)).shape == (0,)
    slow, fast = split_at_frequency(torch.tensor([[5.0]]), 0.1)
    assert (slow.item(), fast.item()) == (5, 0)


def test_what_is_no_filter_is_one_sentence(plain_vitbook):
    said = plain_vitbook("""
        import torch
        from vitbook.analysis import spatial_frequency, split_at_frequency
        wrong = torch.zeros(3, 0, 4), torch.zeros(3), torch.ones(2, 2) * 1j
        calls = [lambda w=w: spatial_frequency(w) for w in wrong]
        calls += [lambda w=w: split_at_frequency(w, 0.1) for w in wrong]
        for call in calls:
            try:
                call()
            except (TypeError, ValueError) as error:
                print(error)
        print(spatial_frequency(torch.tensor([[1, -1]])))  # whole numbers are numbers
    """).splitlines()
    assert (
        said[:3]
        == said[3:6]
        == [
            "filters of shape (3, 0, 4): expected (..., height, width), each at least 1 pixel",
            "filters of shape (3,): expected (..., height, width), each at least 1 pixel",
            "filters are complex: expected real numbers, for example their .abs()",
        ]
    )
    assert said[6:] == ["tensor(0.2500)"]
