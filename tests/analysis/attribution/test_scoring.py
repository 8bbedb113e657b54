"""Explanations of a model whose one cell is known, and of one that reads digits."""

import pytest
import timm
import torch
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.analysis import (
    EXPLANATIONS,
    capture_attention,
    deletion,
    insertion,
    integrated_gradients,
    last_attention,
    null_explanations,
    patch_occlusion,
    pointing,
    score_explanations,
    score_rows,
    token_grad_cam,
)
from vitbook.analysis.attribution.scoring import Scores

READER = "cluttered_digits-vit_micro_r5_s4_32-cluttered-seed0"


class OneCell(nn.Module):
    """Class 1 is sure if the cell in row 1, column 2 of 2 x 3 cells is bright; no other matters."""

    grid_size, num_prefix_tokens = (2, 3), 0

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(8.0))

    def forward(self, images):
        bright = images[:, 0, 2:, 4:].mean((1, 2))
        return torch.stack([torch.zeros_like(bright), self.factor * bright], dim=1)


IMAGES = torch.rand(4, 1, 4, 6, generator=torch.Generator().manual_seed(0)) - 1
IMAGES[:, :, 2:, 4:] += 1.5
TARGETS, MASKS = torch.ones(4, dtype=torch.long), torch.zeros(4, 4, 6, dtype=torch.bool)
MASKS[:, 2:, 4:] = True
GIVEN = (OneCell(), IMAGES, TARGETS, MASKS)


def test_who_names_the_cell_scores_best_and_who_names_it_last_scores_worst():
    right = torch.zeros(4, 2, 3)
    right[:, 1, 2] = 1
    maps = {
        "right": right,
        "wrong": -right,
        "integrated gradients": integrated_gradients(*GIVEN[:3]),
        "occlusion": patch_occlusion(*GIVEN[:3]),
    }
    scores = score_explanations(*GIVEN, maps, steps=6)
    for name in ("integrated gradients", "occlusion"):
        for score in ("pointing", "deletion", "insertion"):
            assert torch.allclose(getattr(scores[name], score), getattr(scores["right"], score))
    assert (scores["right"].pointing == 1).all() and (scores["wrong"].pointing == 0).all()
    assert (scores["right"].deletion < scores["wrong"].deletion - 0.05).all()
    assert (scores["right"].insertion > scores["wrong"].insertion + 0.05).all()


def test_the_scores_are_the_three_functions():
    maps = null_explanations(IMAGES, MASKS, (2, 3))
    scores = score_explanations(*GIVEN, maps, steps=3, batch_size=3)
    assert list(scores) == ["edges", "centre", "random", "the mask"]
    for name, map in maps.items():
        assert torch.equal(scores[name].pointing, pointing(map, MASKS))
        assert torch.equal(scores[name].deletion, deletion(*GIVEN[:3], map, steps=3).areas)
        assert torch.equal(scores[name].insertion, insertion(*GIVEN[:3], map, steps=3).areas)
    assert (scores["the mask"].pointing == 1).all()


def test_a_lead_is_positive_where_the_score_is_better():
    worse = Scores(torch.zeros(4), torch.full((4,), 0.5), torch.full((4,), 0.25))
    better = Scores(torch.ones(4), torch.full((4,), 0.25), torch.tensor([0.25, 0.5, 0.75, 1.0]))
    first, second = score_rows({"edges": worse, "mine": better})
    assert first["name"] == "edges" and second["name"] == "mine"
    assert all(first[f"{score} lead"] == [0, 0, 0] for score in ("pointing", "deletion"))
    assert second["pointing"] == second["pointing lead"] == [1, 1, 1]
    assert second["deletion lead"] == [0.25, 0.25, 0.25]
    mean, low, high = second["insertion lead"]
    assert mean == 0.375 and 0 <= low < mean < high <= 0.75
    assert (second["deletion wins"], second["insertion wins"]) == (1, 0.875)  # a draw is a half
    assert first["pointing wins"] == 0.5
    with pytest.raises(KeyError, match="no scores of 'centre'"):
        score_rows({"edges": worse}, against="centre")


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, [0]),
        ({"class_token": False, "global_pool": "avg"}, list(range(16))),
        ({"reg_tokens": 3, "global_pool": "avg", "class_token": False}, list(range(3, 19))),
        ({"reg_tokens": 3, "no_embed_class": True}, [0]),
    ],
)
def test_last_attention_is_the_row_of_what_the_head_reads(options, asked):
    torch.manual_seed(0)
    shape = dict(img_size=8, patch_size=2, in_chans=1, embed_dim=32, depth=2, num_heads=2)
    model = timm.models.VisionTransformer(**shape, num_classes=10, **options).eval()
    images, prefix = torch.randn(3, 1, 8, 8), model.num_prefix_tokens
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    rows = list(maps.values())[-1].mean(1)[:, asked].mean(1)
    expected = rows[:, prefix:].view(3, 4, 4)
    assert torch.allclose(last_attention(model, images), expected, atol=1e-6)


def test_last_attention_of_a_distilled_model_asks_both_its_tokens():
    torch.manual_seed(0)
    model = vitbook.create_model("deit_micro_distilled_patch2_8").eval()
    images = torch.randn(3, 1, 8, 8)
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    expected = list(maps.values())[-1].mean(1)[:, :2, 2:].mean(1).view(3, 4, 4)
    assert torch.allclose(last_attention(model, images), expected, atol=1e-6)
    with pytest.raises(RuntimeError, match="no attention"):
        last_attention(OneCell(), IMAGES)


def test_grad_cam_place_by_place_by_hand():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_micro_patch2_8").eval()
    images, targets, kept = torch.randn(2, 1, 8, 8), torch.tensor([3, 7]), []
    block = model.encoder.blocks[-2]
    handle = block.register_forward_hook(lambda m, a, out: kept.append(out))
    answer = model(images).gather(1, targets[:, None]).sum()
    handle.remove()
    (slope,) = torch.autograd.grad(answer, kept[0])
    expected = (kept[0] * slope)[:, 1:].sum(-1).view(2, 4, 4).detach()
    signed = token_grad_cam(model, images, targets, per_place=True, signed=True)
    assert torch.allclose(signed, expected, atol=1e-6)
    assert torch.equal(token_grad_cam(model, images, targets, per_place=True), signed.clamp(min=0))


def test_every_explanation_by_name_explains_a_reader_of_digits():
    model = vitbook.load_checkpoint(READER).model
    data, masks = (
        datasets.load("cluttered_digits", "test"),
        datasets.answer_masks("cluttered_digits", "test", 12),
    )
    images, targets = datasets.normalize(data.images[:12]), data.labels[:12]
    for name in set(EXPLANATIONS) - {"integrated gradients", "occlusion", "Grad-CAM, no mean"}:
        maps = EXPLANATIONS[name](model, images, targets)
        assert maps.shape == (12, 8, 8) and maps.isfinite().all() and not maps.requires_grad
        one = EXPLANATIONS[name](model, images[5:6], targets[5:6])
        assert torch.allclose(one[0], maps[5], atol=1e-5)
    assert pointing(EXPLANATIONS["rollout"](model, images, targets), masks).mean() > 0.85
