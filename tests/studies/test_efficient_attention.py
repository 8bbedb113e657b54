import pytest
import torch

from vitbook import create_model
from vitbook.layers import Attention, PerformerAttention
from vitbook.studies.efficient_attention import (
    WAYS,
    attention_error,
    attention_inputs,
    drop_any,
    evidence,
    low_rank_error,
    merge_alike,
    merged,
    painted,
    redrawn,
    relative_error,
    with_fewer,
)
from vitbook.studies.efficient_attention.redrawn_features import redraw_each


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


def test_the_most_similar_pair_becomes_one_and_the_class_token_stays():
    keys = torch.tensor([[1.0, 0], [0, 1], [1, 0], [1, 1], [0, -1], [2, 0.1]])
    rows = merge_alike(keys, 1)
    assert rows.tolist() == [
        [1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0],
        [0, 0, 1, 0, 0, 1],
    ]  # fmt: skip


@pytest.mark.parametrize("way", WAYS.values())
def test_fewer_tokens_are_left_and_the_class_token_is_among_them(way):
    rows = way(torch.randn(17, 8), 5)
    assert rows.shape == (12, 17) and rows[0].tolist() == [1] + 16 * [0]
    assert rows.sum(0).max() == 1 and rows.sum(1).min() == 1
    assert rows.sum() == (12 if way is drop_any else 17)


def dinov2():
    torch.manual_seed(0)
    model = create_model("vit_small_patch14_dinov2", image_size=56, num_classes=0).eval()
    for block in model.encoder.blocks:
        for scale in (block.scale1, block.scale2):
            torch.nn.init.ones_(next(scale.parameters()))
    return model


def test_with_no_token_less_it_is_the_model():
    model, images = dinov2(), torch.randn(2, 3, 56, 56)
    tokens, groups = with_fewer(model, images, merge_alike, 0)
    assert torch.equal(tokens, model.features(images)) and torch.equal(groups[0], torch.eye(17))


def test_equal_tokens_merge_without_a_trace():
    model = dinov2()
    model.position = torch.nn.Identity()  # an even image: all patches are equal
    even = torch.full((1, 3, 56, 56), 0.5)
    whole, (tokens, groups) = model.features(even), with_fewer(model, even, merge_alike, 1)
    assert tokens.shape[1] == 5 and groups.sum() == 17
    assert torch.allclose(tokens[0, 0], whole[0, 0], atol=1e-4)
    assert torch.allclose(tokens[0, 1:], whole[0, 1:5], atol=1e-4)


def test_a_merged_image_has_the_mean_colours_of_its_tokens():
    image = torch.tensor([[[0, 100], [200, 40]]], dtype=torch.uint8)
    groups = torch.tensor([[1.0, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1]])
    assert painted(image, groups, 1)[0].tolist() == [[50, 50], [120, 120]]


def test_directions_are_drawn_anew_in_training_alone():
    core = PerformerAttention(4, 6)
    redraw_each(core, 2)
    q, k, v = torch.randn(3, 1, 1, 5, 4)
    seen = []
    for training in (True, True, False, False, True):
        core.train(training)
        core(q, k, v)
        seen.append(core.directions.clone())
    assert torch.equal(seen[0], seen[1]) and torch.equal(seen[1], seen[3])
    assert not torch.equal(seen[3], seen[4])
    gram = seen[4] @ seen[4].mT
    assert torch.allclose(gram.diagonal().sum(), torch.tensor(6.0 * 4))  # as long as before


def test_the_evidence_says_what_the_page_says():
    found = evidence()
    for name in ("Linformer, trained", "Performer, trained"):
        assert found.verdict(name) == "at the ceiling"
    for name in ("Windows at one pixel a token", "Shrunk by a convolution"):
        assert found[name].comparison.points.low > 0
    rows, _ = merged()
    for left in (161, 65, 41):
        cosine = {way: row["cosine"] for way, row in rows[left].items()}
        assert max(cosine, key=cosine.get) == "merged, most alike"
    assert rows[41]["merged, most alike"]["agrees"][1] > rows[41]["merged, any two"]["agrees"][2]
    assert rows[65]["merged, most alike"]["agrees"][1] < rows[65]["dropped, any"]["agrees"][2]
    assert rows[257]["whole"]["agrees"][0] == 1
    drawn = redrawn()
    assert drawn["drawn once"][0]["softmax"] < 0.7
    assert min(row["softmax"] for row in drawn["drawn anew each epoch"]) > 0.9
