import matplotlib.pyplot as plt
import pytest
import torch

from vitbook import create_model
from vitbook.layers import Attention, PerformerAttention
from vitbook.studies.efficient_attention import (
    accuracy_and_error,
    attention_error,
    attention_inputs,
    low_rank_error,
    relative_error,
)

SIZES = [1, 4, 16]
ACCURACY = {"rank": [0.5, 0.9, 1.0], "features": [0.1, 0.2, 0.4]}
ERROR = {"features": [0.9, 0.8, 0.5], "rank": [0.4, 0.1, 0.0]}


def drawn(std, n=40, width=16, seed=0):
    torch.manual_seed(seed)
    q, k, v = torch.randn(3, 2, 3, n, width).unbind()
    return q * std, k * std, v


def test_by_hand():
    exact = torch.tensor([[3.0, 0], [0, 4]])
    assert relative_error(exact, exact) == 0
    assert relative_error(torch.zeros(2, 2), exact) == 1
    assert relative_error(torch.tensor([[3.0, 1], [0, 4]]), exact).item() == pytest.approx(0.2)


def test_each_head_alone_and_whatever_the_unit():
    exact, noise = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 7)
    errors = relative_error(exact + noise, exact)
    assert errors.shape == (2, 3)
    assert errors[1, 2].item() == pytest.approx((noise[1, 2].norm() / exact[1, 2].norm()).item())
    assert torch.allclose(relative_error(9 * (exact + noise), 9 * exact), errors)


def test_half_precision_is_compared_in_full():
    exact = torch.full((1, 64, 64), 300.0, dtype=torch.float16)  # its squares do not fit
    assert relative_error(exact * 0.5, exact).item() == pytest.approx(0.5)


def test_softmax_attention_has_no_error():
    q, k, v = drawn(1.0)
    assert attention_error(Attention(), q, k).max() == 0
    assert attention_error(Attention(), q, k, v).max() < 1e-6


@pytest.mark.parametrize("std", [0.1, 0.25])
def test_the_error_of_performer_falls_with_its_features(std):
    q, k, v = drawn(std)
    torch.manual_seed(1)  # not the seed of q, whose numbers would be directions too
    few, many = (PerformerAttention(16, m, scale=0.25) for m in (32, 2048))
    for values in (None, v):
        low, high = (attention_error(core, q, k, values).mean() for core in (many, few))
        assert 5 < high / low < 13  # 64 times as many: an eighth


def test_the_error_of_a_map_is_that_of_its_definition():
    q, k, v = drawn(0.5)
    performer = PerformerAttention(16, 45, scale=0.25)
    exact = (q @ k.mT / 4).softmax(-1)
    of_map = (performer.weights(q, k) - exact).norm(dim=(-2, -1)) / exact.norm(dim=(-2, -1))
    assert torch.allclose(attention_error(performer, q, k), of_map, rtol=1e-4)
    out, truth = performer(q, k, v), exact @ v
    of_output = (out - truth).norm(dim=(-2, -1)) / truth.norm(dim=(-2, -1))
    assert torch.allclose(attention_error(performer, q, k, v), of_output, rtol=1e-4)


def test_low_rank_error_by_hand():
    errors = low_rank_error(torch.diag(torch.tensor([4.0, 2.0, 2.0, 1.0])))
    assert errors.tolist() == pytest.approx([0.6, 5**0.5 / 5, 0.2, 0.0])
    assert low_rank_error(torch.full((2, 6, 6), 1 / 6))[..., 0].max() < 1e-6


def test_low_rank_error_is_reached_and_is_a_floor():
    exact = torch.randn(3, 12, 9).softmax(-1).double()
    u, s, v = torch.linalg.svd(exact, full_matrices=False)
    floor = low_rank_error(exact)
    assert floor.shape == (3, 9)
    for rank in (1, 4, 8):
        best = u[..., :rank] * s[:, None, :rank] @ v[:, :rank]
        assert torch.allclose(relative_error(best, exact).float(), floor[:, rank - 1], atol=1e-6)
        other = torch.randn(3, 12, rank).double() @ torch.randn(3, rank, 9).double()
        assert (relative_error(other, exact) > floor[:, rank - 1]).all()


def test_no_performer_is_below_the_floor_of_its_rank():
    q, k, _ = drawn(2.0)
    floor = low_rank_error(Attention.weights(q, k))
    for m in (2, 8, 32):
        errors = attention_error(PerformerAttention(16, m, scale=0.25), q, k)
        assert (errors >= floor[..., m - 1]).all()


def test_looking_at_the_inputs_leaves_a_mask_where_it_is():
    """LSA's mask comes as a fourth argument: the later layers' inputs show whether it was used."""
    torch.manual_seed(0)
    model = create_model("lsa_vit_micro_patch2_8").eval()
    images, entered = torch.randn(2, 1, 8, 8), {}
    last = "encoder.blocks.3.attention.core"
    handle = model.get_submodule(last).register_forward_pre_hook(
        lambda _, args: entered.update(q=args[0]) or None
    )
    with torch.no_grad():
        model(images)
    handle.remove()
    assert torch.equal(attention_inputs(model, images)[last][0], entered["q"])


def figure_of_both():
    return accuracy_and_error(
        SIZES, ACCURACY, ERROR, "A claim", x_label="size", levels={"whole": 0.98}
    )


def test_both_panels_draw_what_they_are_given_and_a_name_keeps_its_colour():
    figure = figure_of_both()
    assert figure.get_suptitle() == "A claim" and not plt.get_fignums()
    top, low = figure.axes
    for axis, given in ((top, ACCURACY), (low, ERROR)):
        lines = {line.get_label(): line for line in axis.lines}
        assert {name: list(lines[name].get_ydata()) for name in given} == given
        assert {name: lines[name].get_color() for name in given} == {
            line.get_label(): line.get_color() for line in top.lines if line.get_label() in given
        }
    assert len({line.get_color() for line in low.lines}) == 2


def test_the_scales_hide_nothing():
    top, low = figure_of_both().axes
    assert top.get_ylim()[0] == low.get_ylim()[0] == 0 and top.get_ylim()[1] >= 1
    assert low.get_ylim()[1] >= 0.9 and top.get_xscale() == low.get_xscale() == "log"
    assert [label.get_text() for label in low.get_xticklabels()] == ["1", "4", "16"]
    (legend,) = top.get_figure().legends
    assert [text.get_text() for text in legend.get_texts()] == [*ACCURACY, "whole"]
