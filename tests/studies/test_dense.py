"""Masks from tokens: each step by hand, and the laws that the chapter tells."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook import create_model, datasets
from vitbook.studies import dense
from vitbook.studies.dense import heads, masks, measured, twins


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_a_patch_is_object_where_more_than_half_of_it_is():
    mask = torch.zeros(1, 4, 8, dtype=torch.bool)
    mask[0, :2, :2] = True  # whole
    mask[0, :1, 2:4] = True  # half: not more
    mask[0, 2:, 6:] = torch.tensor([[True, True], [True, False]])
    assert heads.patch_labels(mask, (2, 4)).tolist() == [[1, 0, 0, 0, 0, 0, 0, 1]]


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 99))
def test_iou_is_that_of_the_sets_of_pixels(side, seed):
    found, true = (torch.rand(2, side, side, generator=seeded(seed + k)) > 0.6 for k in (0, 1))
    for one, other, share in zip(found, true, heads.iou(found, true), strict=True):
        sets = [{tuple(place) for place in each.nonzero().tolist()} for each in (one, other)]
        either = sets[0] | sets[1]
        assert share == pytest.approx(len(sets[0] & sets[1]) / len(either) if either else 1)


def test_masks_that_are_no_masks_are_refused():
    found, mask = torch.zeros(2, 2, 4, 4, dtype=torch.bool).unbind()
    for wrong in (255 * mask.to(torch.uint8), mask.float()):
        with pytest.raises(TypeError, match="expected bool, masks > 0"):
            heads.iou(found, wrong)
        with pytest.raises(TypeError, match="expected bool, masks > 0"):
            heads.patch_labels(wrong, (2, 2))
        with pytest.raises(TypeError, match="expected bool, masks > 0"):
            dense.marked(torch.zeros(3, 4, 4, dtype=torch.uint8), found[0], wrong[0])
    with pytest.raises(ValueError, match="expected one for each"):
        heads.iou(found[:1], mask)  # which would be compared with every mask


def test_tokens_of_another_grid_are_refused():
    tokens, labels = torch.randn(4, 16, 3, generator=seeded(0)), torch.arange(64).view(4, 16) % 2
    head = heads.fit_head(tokens, labels)
    with pytest.raises(ValueError, match="16 tokens .* a grid of 8x8: expected 64"):
        heads.scores(head, tokens, (8, 8))  # as many numbers: one map of four photographs
    with pytest.raises(ValueError, match="labels of shape"):
        heads.fit_head(tokens, labels.view(8, 8))


def test_a_map_is_not_read_as_tokens():
    with pytest.raises(ValueError, match="of a ResNet gives .*: expected tokens"):
        measured.block_tokens(create_model("resnet8_digits"), torch.zeros(1, 1, 8, 8))


@pytest.mark.parametrize("number", [0, -1, 5])
def test_a_block_that_is_not_there_is_refused(number):
    with pytest.raises(ValueError, match=f"block {number}: expected 1 to 4"):
        measured.block_tokens(
            create_model("vit_micro_patch2_8"), torch.zeros(1, 1, 8, 8), (number,)
        )


def test_a_direction_of_the_tokens_becomes_the_mask():
    tokens = torch.randn(3, 16, 5, generator=seeded(0))
    labels = (tokens @ torch.tensor([1.0, -2, 0, 0, 0]) > 0).long()
    head = heads.fit_head(tokens[:2], labels[:2])
    maps = heads.scores(head, tokens, (4, 4))
    assert ((maps > 0).flatten(1) == labels).float().mean() > 0.9
    assert maps[1, 2, 3] == pytest.approx(float(heads.scores(head, tokens[1:2], (16, 1))[0, 11, 0]))


def test_one_photograph_is_enough_to_fit():
    tokens = torch.randn(1, 16, 3, generator=seeded(1))
    labels = (tokens[..., 0] > 0).long()
    maps = heads.scores(heads.fit_head(tokens, labels), tokens, (4, 4))
    assert ((maps > 0).flatten(1) == labels).float().mean() > 0.8


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 5), st.integers(2, 5), st.integers(0, 99))
def test_a_linear_head_and_a_bilinear_enlargement_change_places(rows, columns, seed):
    tokens = torch.randn(2, rows * columns, 6, generator=seeded(seed))
    labels = torch.arange(2 * rows * columns).view(2, -1) % 2
    head = heads.fit_head(tokens, labels)
    late = heads.enlarged(heads.scores(head, tokens, (rows, columns)), 24)
    fine = F.interpolate(tokens.mT.unflatten(2, (rows, columns)), (24, 24), mode="bilinear")
    early = heads.scores(head, fine.flatten(2).mT, (24, 24))
    torch.testing.assert_close(late, early, atol=1e-4, rtol=1e-4)


def test_the_guided_filter_keeps_what_is_even_and_follows_an_edge():
    photograph = torch.zeros(1, 3, 40, 40)
    photograph[..., 23:] = 1
    even = torch.full((1, 40, 40), 0.7)
    torch.testing.assert_close(heads.guided(even, photograph), even, atol=1e-4, rtol=0)
    coarse = heads.enlarged(torch.tensor([[[-1.0, 1.0]]]).expand(1, 2, 2), 40)  # edge at 20
    found = heads.guided(coarse, photograph)[0, 20] > 0
    true = torch.arange(40) >= 23
    assert (found != true).sum() < ((coarse[0, 20] > 0) != true).sum() == 3


def test_a_draw_scores_what_it_did_not_fit():
    draws = heads.drawn(7, masks=2, draws=5)
    for fitted, scored in draws:
        assert len(fitted) == 2 and sorted([*fitted.tolist(), *scored.tolist()]) == list(range(7))
    assert len({tuple(fitted.tolist()) for fitted, _ in draws}) > 1
    assert all((a[0] == b[0]).all() for a, b in zip(draws, heads.drawn(7, 2, 5), strict=True))


def test_the_masks_are_of_their_photographs():
    photos = datasets.load("photos", "all")
    drawn = masks.photo_masks()
    assert set(drawn) < set(photos.class_names) and len(drawn) == 6
    for name, mask in drawn.items():
        image = photos.images[photos.class_names.index(name)].float()
        assert mask.shape == image.shape[1:] and 0.02 < mask.float().mean() < 0.7
    flower = photos.images[photos.class_names.index("flower")].float()
    assert flower[0, drawn["flower"]].mean() > 2 * flower[0, ~drawn["flower"]].mean()  # its red


def test_a_photograph_that_is_not_there_is_named(monkeypatch):
    black = datasets.load("digits", "test")
    fake = datasets.Dataset(
        torch.zeros(5, 3, 160, 160, dtype=torch.uint8), black.labels[:5], black.class_names, {}
    )
    monkeypatch.setattr(masks.datasets, "load", lambda *_, **__: fake)
    with pytest.raises(ValueError, match="is not among the 5 held-out ones: expected TF-Flowers"):
        masks.flower_masks()


def test_tokens_of_blocks_are_brought_to_mean_0_and_variance_1():
    model = create_model("vit_micro_patch2_8").eval()
    images = torch.rand(7, 1, 8, 8, generator=seeded(0))
    found = measured.block_tokens(model, images, (1, 4))
    assert list(found) == ["block 1", "block 4"]
    for tokens in found.values():
        assert tokens.shape == (7, 16, 64)
        assert tokens.mean(-1).abs().max() < 1e-5 and (tokens.var(-1) - 1).abs().max() < 0.05


def test_colours_of_a_patch_by_hand():
    photograph = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    photograph[0, 0, :2, :2] = 255
    photograph[0, 2, :2, :2] = 51
    found = measured.colours(photograph, (2, 2))[0]
    expected = torch.tensor([1, 0, 0.2, 1, 0, 0.04, 0, 0, 0.2])
    torch.testing.assert_close(found[0], expected)
    assert not found[1:].any()


def test_four_views_are_interleaved_in_the_order_of_the_grid(monkeypatch):
    """Of tokens that are a patch's mean colour, on a ramp to the right and one down."""
    ramp = torch.arange(224).to(torch.uint8)
    photograph = torch.stack([ramp.expand(224, 224), ramp[:, None].expand(224, 224),
                              torch.full((224, 224), 7, dtype=torch.uint8)])[None]  # fmt: skip
    monkeypatch.setattr(
        measured, "block_tokens",
        lambda _, images, blocks: {"block": F.avg_pool2d(images, 14).flatten(2).mT},
    )  # fmt: skip
    vit = SimpleNamespace(
        model=SimpleNamespace(patch_size=14, grid_size=(16, 16)), normalize=torch.Tensor.float
    )
    tokens = measured.shifted_tokens.__wrapped__(vit, photograph, 10)
    assert tokens.shape == (1, 32 * 32, 3)
    inside = tokens.view(32, 32, 3)[2:-2, 2:-2]
    for channel, along in ((0, 1), (1, 0)):  # each token half a patch after the one before
        steps = inside[..., channel].diff(dim=along)
        torch.testing.assert_close(steps, torch.full_like(steps, 7.0))
        assert not inside[..., channel].diff(dim=1 - along).any()


def test_the_mean_and_its_interval_over_photographs():
    assert measured.told([0.4, 0.6]) == [0.5, 0.304, 0.696]
    assert measured.told([0.4, 0.6], [0.3, 0.5]) == [0.1, 0.1, 0.1]


def test_a_twin_in_the_mirror_is_found_by_tokens_that_are_mirrored():
    tokens = torch.randn(2, 12, 8, generator=seeded(0))
    to = twins.mirrored(3, 4)
    assert (twins.most_similar(tokens, tokens[:, to]) == to).all()
    assert twins.apart(torch.tensor([[0, 5, 11]]), torch.tensor([0, 0, 0]), 4).tolist() == [
        [0, 1, 3]
    ]


def test_what_is_not_marked_is_dark_and_the_true_edge_is_yellow():
    image = torch.full((3, 9, 9), 200, dtype=torch.uint8)
    found = torch.zeros(9, 9, dtype=torch.bool)
    found[:, :4] = True
    mask = torch.zeros(9, 9, dtype=torch.bool)
    mask[4, 4] = True
    shown = dense.marked(image, found, mask)
    assert shown[0, 0, 0] == 200 and shown[0, 0, 8] == 50
    assert tuple(shown[:, 4, 5].tolist()) == dense.EDGE and shown[0, 4, 4] == 50


def test_the_rows_behind_the_chapter_are_kept():
    assert len(dense.by_block()) == 12 and dense.reads("no model", "mean colours") < 70
    assert tuple(dense.decoded().shape) == (6,)
    assert max(dense.found_twins("learned")) > max(dense.found_twins("fresh"))
    assert [len(table.lines) for table in dense.evidence().tables] == [18, 4, 11, 24]
    first, *others = dense.ways_to_enlarge()
    assert first["enlarged"] == "bilinear" and first["tokens"] == "224 pixels, 16 × 16"
    assert len(others) == 4 and not first["more than the first line"]
    assert all(line["more than the first line"][0] in "+−" for line in others)
