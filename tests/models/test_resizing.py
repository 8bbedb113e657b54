"""A model that is carried to another input, and the models that cannot be."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F

from vitbook import create_model
from vitbook.errors import UnknownNameError
from vitbook.layers import resize_patch_kernel
from vitbook.model_utilities import weights_digest
from vitbook.models import change_input


@torch.no_grad()
def test_larger_patches_of_an_enlarged_image_give_the_old_answer():
    """Each patch of one colour: then enlarging does not mix neighbours."""
    model = create_model("vit_micro_patch2_8").double().eval()
    small = torch.randn(3, 1, 4, 4, dtype=torch.float64)
    images, large = (F.interpolate(small, scale_factor=factor) for factor in (2, 6))
    before = model(images)
    change_input(model, 24, 6)
    assert torch.allclose(model(large), before, atol=1e-7)
    assert model.patch_size == 6 and model.spec is None


def test_a_rectangle_has_a_table_of_its_own_and_the_spec_says_so():
    model = create_model("vit_micro_patch2_8")
    change_input(model, (8, 12))
    assert model.grid_size == (4, 6) and model.position.table.shape == (1 + 24, 64)
    assert model.spec.image_size == (8, 12)
    assert model(torch.zeros(2, 1, 8, 12)).shape == (2, 10)
    kernel = model.tokenizer.projection.weight
    change_input(model, (16, 24), (4, 4))
    assert torch.equal(model.tokenizer.projection.weight, resize_patch_kernel(kernel, 4))
    model(torch.zeros(2, 1, 16, 24)).sum().backward()
    assert model.tokenizer.projection.weight.grad is not None


@pytest.mark.parametrize("name", ["vit_relpos2d_micro_patch2_8", "vit_rope_micro_patch2_8"])
def test_positions_inside_the_encoder_are_carried_too(name):
    model = create_model(name)
    change_input(model, (8, 16))
    assert model(torch.zeros(1, 1, 8, 16)).shape == (1, 10)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("resnet8_digits", "ResNet with a NoneType: expected a Vision Transformer"),
        ("rot_vit_micro_patch2_8", "expected a Vision Transformer with a PatchEmbedding"),
        ("vit_relpos_micro_patch2_8", "which is made for one grid"),
    ],
)
def test_what_cannot_be_carried_is_refused(name, why):
    model = create_model(name)
    before = weights_digest(model)
    with pytest.raises(ValueError, match=why):
        change_input(model, 16)
    assert weights_digest(model) == before


def test_a_wrong_input_leaves_the_model_as_it_was():
    model = create_model("vit_micro_patch2_8").eval()
    images = torch.randn(2, 1, 8, 8)
    before = deepcopy(model)(images)
    with pytest.raises(ValueError, match="image 9x8 is not divisible by patch 2"):
        change_input(model, (9, 8))
    with pytest.raises(UnknownNameError, match="resize method"):
        change_input(model, 16, 4, "nearest")
    assert torch.equal(model(images), before) and model.spec.image_size == 8
