"""What explanations and their scores refuse, in one sentence, whoever is asked."""

import pytest
import torch
from torch import nn

import vitbook
from vitbook.analysis import (
    bootstrap_interval,
    deletion,
    insertion,
    integrated_gradients,
    patch_occlusion,
    pointing,
    score_explanations,
    token_grad_cam,
)

MODEL = vitbook.create_model("vit_micro_patch2_8").eval()
IMAGES = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
TARGETS, MAPS, MASKS = torch.tensor([0, 1]), torch.rand(2, 4, 4), torch.ones(2, 8, 8) > 0
FAR = r"a baseline from 1e\+30 to 1e\+30 and images from"
TAKING = (integrated_gradients, patch_occlusion)
CURVES = (deletion, insertion)

# Who is asked, what of the model's images, and what is said.
REFUSED = [
    ((*TAKING, token_grad_cam), [TARGETS * 10], {}, "targets from 0 to 10: expected 0 to 9"),
    ((*TAKING, token_grad_cam), [TARGETS - 1], {}, "targets from -1 to 0: expected 0 to 9"),
    (TAKING, [TARGETS], {"baseline": "blurred"}, "baseline 'blurred': expected 'black', 'mean'"),
    (TAKING, [TARGETS], {"baseline": MAPS[:1]}, r"baseline of shape \(1, 4, 4\) for images"),
    (TAKING, [TARGETS], {"baseline": 1e30}, FAR),
    (TAKING, [TARGETS], {"grid_size": (3, 4)}, "image 8x8 on a grid of 3x4 patches leaves no who"),
    (TAKING[:1], [TARGETS], {"steps": 1025}, "1025 steps: expected a whole number from 1 to 1024"),
    (TAKING[:1], [TARGETS], {"steps": True}, "True steps: expected a whole number from 1 to 1024"),
    ((token_grad_cam,), [TARGETS], {"num_prefix_tokens": 2, "batch_size": 1},
     r"layer gave \(1, 17, 64\): expected \(batch, 18, width\)"),
    ((token_grad_cam,), [TARGETS], {"layer": nn.Linear(1, 1)},
     "this Linear is no part of the VisionTransformer: pass"),
    ((token_grad_cam,), [TARGETS], {"layer": MODEL.encoder.blocks[-1]},
     "from this EncoderBlock no patch reaches the logits"),
    (CURVES, [TARGETS, MAPS * torch.nan], {}, "maps hold NaN"),
    (CURVES, [TARGETS, torch.zeros(2, 3, 3)], {}, "image 8x8 on a grid of 3x3 patches"),
    (CURVES, [TARGETS, MAPS], {"steps": 17}, "17 steps over 16 cells: expected a whole number fr"),
    (CURVES, [TARGETS, MAPS], {"steps": 0}, "0 steps over 16 cells"),
    (CURVES, [TARGETS * 10, MAPS], {}, "targets from 0 to 10: expected 0 to 9"),
    (CURVES, [TARGETS, MAPS], {"baseline": "grey"}, "baseline 'grey': expected 'black'"),
    (CURVES, [TARGETS, MAPS], {"baseline": 1e30}, FAR),
    ((score_explanations,), [TARGETS, MASKS, {}], {}, "no explanation came"),
    ((score_explanations,), [TARGETS, MASKS, {"mine": MAPS * torch.nan}], {}, "mine: maps hold N"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("ask", "of", "given", "said"),
    [(ask, *others) for asked, *others in REFUSED for ask in asked],
)
def test_what_cannot_be_explained_or_scored(ask, of, given, said):
    with pytest.raises(ValueError, match=said) as raised:
        ask(MODEL, IMAGES, *of, **given)
    assert "\n" not in str(raised.value)


def test_models_that_cannot_be_asked():
    for ask in TAKING:
        with pytest.raises(ValueError, match=r"Identity gave \(1, 1, 8, 8\): expected \(batch, cl"):
            ask(nn.Identity(), IMAGES, TARGETS, grid_size=(4, 4))
    with pytest.raises(ValueError, match="no two blocks with an attention in them"):
        token_grad_cam(vitbook.create_model("resnet8_digits"), IMAGES, TARGETS)


@pytest.mark.parametrize(
    ("maps", "masks", "tolerance", "said"),
    [
        (MAPS, MASKS & torch.tensor([True, False])[:, None, None], 0.0, "a mask has no pixel"),
        (MAPS[:, :0], MASKS, 0.0, r"maps of shape \(2, 0, 4\): expected \(images, rows, columns\)"),
        (MAPS, MASKS, -1.0, "a tolerance of -1.0 px: expected 0 or more"),
        (MAPS, MASKS, torch.nan, "a tolerance of nan px"),
        (MAPS[:, :3], MASKS, 0.0, "image 8x8 on a grid of 3x4 patches"),
    ],
)
def test_what_cannot_be_pointed_at(maps, masks, tolerance, said):
    with pytest.raises(ValueError, match=said):
        pointing(maps, masks, tolerance)


@pytest.mark.parametrize(
    ("values", "level", "said"),
    [
        (torch.zeros(0), 0.95, "0 values at level 0.95"),
        (torch.zeros(3), 95.0, "3 values at level 95.0: expected"),
    ],
)
def test_what_has_no_interval(values, level, said):
    with pytest.raises(ValueError, match=said):
        bootstrap_interval(values, level=level)


def test_what_is_of_another_kind(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.analysis import (deletion, integrated_gradients, patch_occlusion, pointing,
                                      relevance, score_explanations, token_grad_cam)
        model, images = vitbook.create_model("vit_micro_patch2_8"), torch.rand(2, 1, 8, 8)
        maps, masks = torch.rand(2, 4, 4), torch.ones(2, 8, 8, dtype=torch.bool)
        for ask in (integrated_gradients, patch_occlusion, token_grad_cam, relevance):
            with pytest.raises(ValueError, match="1 targets for 2 images: expected one class"):
                ask(model, images, torch.tensor([0]))
            for targets in ([0, 1], torch.tensor([0.0, 1.0]), torch.tensor([[0], [1]]), 3):
                with pytest.raises(TypeError, match="targets are .* expected whole numbers in a r"):
                    ask(model, images, targets)
        for steps in (2.5, None, "32"):
            with pytest.raises(ValueError, match="steps: expected a whole number from 1 to 1024"):
                integrated_gradients(model, images, steps=steps)
            with pytest.raises(ValueError, match="steps over 16 cells: expected a whole number"):
                deletion(model, images, None, maps, steps=steps)
        for baseline in ([0.0], None, True, 1j):
            with pytest.raises(ValueError, match="baseline as a .*: expected 'black'"):
                integrated_gradients(model, images, baseline=baseline)
        for wrong, error, said in (
            ((maps, masks.byte()), TypeError, "masks are uint8"),
            ((maps, masks.tolist()), TypeError, "masks are list"),
            ((maps.tolist(), masks), TypeError, "maps came as list"),
            ((maps, masks[0]), ValueError, "masks of shape .8, 8.: expected .images, height"),
            ((maps[None], masks), ValueError, "maps of shape .1, 2, 4, 4.: expected .images"),
            ((maps, masks[:1]), ValueError, "2 maps for 1 images: expected one for each"),
        ):
            with pytest.raises(error, match=said):
                pointing(*wrong)
        with pytest.raises(ValueError, match="mine: 1 maps for 2 images"):
            score_explanations(model, images, torch.tensor([0, 1]), masks, {"mine": maps[:1]})
        """
    )
