"""Models with efficient attention: what reaches what, one owner of a shared matrix, costs."""

import copy

import pytest
import torch

import vitbook
from vitbook.layers import SequenceProjection
from vitbook.measure import count_macs

SHARED = "linformer_vit_micro_shared_patch2_8"
PERFORMER = "performer_vit_micro_patch2_8"
MICRO = [
    "linformer_vit_micro_patch2_8",
    SHARED,
    PERFORMER,
    "axial_vit_micro_patch1_8",
    "block_local_vit_micro_patch1_8",
]


def random_model(name):
    torch.manual_seed(0)
    model = vitbook.create_model(name).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def pictures(n=2):
    return torch.randn(n, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def moves_when_a_pixel_moves(model, features=False):
    """Whether each token (else the logits) changes with the first pixel alone."""
    images, other = pictures(1), pictures(1)
    other[..., 0, 0] += 1
    run = model.features if features else model
    with torch.no_grad():
        return (run(images) != run(other)).any(dim=-1)[0]


def test_blocks_meet_in_the_head_alone():
    model = random_model("block_local_vit_micro_patch1_8")
    seen = moves_when_a_pixel_moves(model, features=True).view(8, 8)
    assert seen[:4, :4].all() and seen.sum() == 16
    assert moves_when_a_pixel_moves(model)


def test_an_image_that_is_not_square():
    images = torch.randn(2, 1, 8, 12)
    for name in MICRO:
        model = vitbook.create_model(name, image_size=(8, 12)).eval()
        assert model(images).shape == (2, 10)


def test_a_shared_matrix_has_one_owner():
    model = random_model(SHARED)
    state = model.state_dict()
    assert [name for name in state if state[name].shape == (1, 8, 17)] == [
        "encoder.projection.weight"
    ]
    weight = model.encoder.projection.weight
    whole = torch.autograd.grad(model(pictures()).square().sum(), weight)[0]
    parts = []
    for block in model.encoder.blocks:  # one layer at a time has a copy of its own
        apart = SequenceProjection(17, 8)
        apart.load_state_dict(model.encoder.projection.state_dict())
        block.attention.from_outside = (apart,)
        parts += torch.autograd.grad(model(pictures()).square().sum(), apart.weight)
        block.attention.from_outside = (model.encoder.projection,)
    assert torch.allclose(sum(parts), whole, rtol=1e-4, atol=1e-4 * whole.abs().max().item())
    assert all(part.abs().max() > 0 for part in parts)


@pytest.mark.parametrize("change", [copy.deepcopy, lambda model: model.double()])
def test_a_copy_or_a_cast_keeps_one_matrix(change):
    model = change(random_model(SHARED))
    owned = model.encoder.projection
    assert all(block.attention.from_outside[0] is owned for block in model.encoder.blocks)
    dtype = owned.weight.dtype
    before = model(pictures().to(dtype))
    with torch.no_grad():
        owned.weight.zero_()
    assert not torch.allclose(model(pictures().to(dtype)), before)


def attention_macs(name):
    """What is left beside the linear layers, which the model's parameters count."""
    model = vitbook.create_model(name).eval()
    tokens = model.num_prefix_tokens + model.grid_size[0] * model.grid_size[1]
    linear = sum(
        m.weight.numel() * tokens for m in model.encoder.modules() if isinstance(m, torch.nn.Linear)
    )
    outside = model.head.classifier.weight.numel()
    outside += model.tokenizer.projection.weight.numel() * model.grid_size[0] * model.grid_size[1]
    return count_macs(model, torch.zeros(1, 1, 8, 8)) - linear - outside


def test_macs_by_hand():
    """4 layers of width 64; 17 tokens with the class token, 64 pixels without."""
    macs = {name: attention_macs(name) for name in ("vit_micro_patch2_8", *MICRO)}
    assert macs["vit_micro_patch2_8"] == 4 * 2 * 17 * 17 * 64
    assert macs["linformer_vit_micro_patch2_8"] == 4 * (2 * 17 * 8 * 64 + 2 * 8 * 17 * 64)
    assert macs[SHARED] == macs["linformer_vit_micro_patch2_8"]
    assert macs["axial_vit_micro_patch1_8"] == 4 * 2 * 2 * 64 * 8 * 64
    assert macs["block_local_vit_micro_patch1_8"] == 4 * 2 * 64 * 16 * 64
    # Features of q and k, then pooling and mixing: 45 features for each head of width 16.
    assert macs["performer_vit_micro_patch2_8"] == 4 * 4 * 17 * 45 * 64
