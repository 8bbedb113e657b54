import pytest
import timm
import torch
from torch import nn

import vitbook
from vitbook.analysis import effective_field
from vitbook.errors import UnknownNameError
from vitbook.models.papers.vit import Body, vit


def own(**changes):
    sizes = dict(image_size=(40, 56), patch_size=4, num_classes=5)
    return vit(**sizes | dict(body=Body(24, 2, num_heads=3, mlp_width=48)) | changes)


def convolutions(*layers):
    """Convolutions of one channel, without bias: (kernel, stride) each."""
    return nn.Sequential(
        *(nn.Conv2d(1, 1, k, stride, padding=k // 2, bias=False) for k, stride in layers)
    )


def test_the_field_of_a_3x3_convolution_is_its_window():
    torch.manual_seed(0)
    model = convolutions((3, 1))
    field = effective_field(model, torch.randn(3, 1, 9, 12), "0")
    assert field.shape == (9, 12)
    expected = torch.zeros(9, 12)
    expected[3:6, 5:8] = model[0].weight[0, 0].detach().square()  # about row 4, column 6
    assert torch.allclose(field, expected)
    corner = effective_field(model, torch.randn(1, 1, 9, 12), "0", place=(0, 11))
    assert corner[:2, 10:].gt(0).all() and corner.count_nonzero() == 4


def test_two_convolutions_make_a_hill():
    model = convolutions((3, 1), (3, 1))
    with torch.no_grad():
        for layer in model:
            layer.weight.fill_(1.0)
    field = effective_field(model, torch.randn(1, 1, 9, 9), "1")
    line = torch.tensor([1.0, 2, 3, 2, 1])
    assert torch.equal(field[2:7, 2:7], (line[:, None] * line).square())
    assert field.sum() == field[2:7, 2:7].sum()


def test_over_the_signs_it_is_the_sum_over_all_numbers_of_the_token():
    torch.manual_seed(0)
    model = own()
    image = torch.randn(1, 3, 40, 56)
    layer = "encoder.blocks.1"
    found = effective_field(model, image.expand(600, -1, -1, -1), layer, (2, 3), batch_size=60)

    leaf = image.clone().requires_grad_()
    tokens = model.eval().embed(leaf)
    for block in model.encoder.blocks:
        tokens = block(tokens)
    expected = torch.zeros(40, 56)
    for number in tokens[0, 1 + 2 * 14 + 3]:
        (gradient,) = torch.autograd.grad(number, leaf, retain_graph=True)
        expected += gradient[0].square().sum(0)
    inside = (slice(8, 12), slice(12, 16))  # its own patch
    assert found.sum().item() == pytest.approx(expected.sum().item(), rel=0.1)
    assert found[inside].sum().item() == pytest.approx(expected[inside].sum().item(), rel=0.1)


@pytest.mark.parametrize("place", [None, (0, 0), (9, 13)])
def test_a_patch_embedding_sees_its_patch_alone(place):
    field = effective_field(own(), torch.randn(2, 3, 40, 56), "tokenizer.projection", place)
    row, column = place or (5, 7)
    patch = field[4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
    assert (patch > 0).all() and field.count_nonzero() == 16


def test_attention_to_itself_alone_is_the_tokens_own_patch():
    """Blocks without attention cannot carry a pixel from one token to another."""
    model = own()
    with torch.no_grad():
        for block in model.encoder.blocks:
            block.attention.projection.weight.zero_()
    images = torch.randn(2, 3, 40, 56)
    field = effective_field(model, images)
    assert field.count_nonzero() == 16 and field[20:24, 28:32].gt(0).all()
    model.encoder.blocks[0].attention.projection.weight.data.normal_()
    assert (effective_field(model, images) > 0).all()


def test_models_of_others_and_half_precision():
    model = timm.create_model(
        "vit_base_patch14_reg4_dinov2", depth=2, embed_dim=24, num_heads=3, img_size=(140, 196)
    )
    images = torch.randn(2, 3, 140, 196)
    field = effective_field(model, images)
    assert field.shape == (140, 196)
    patch = field[70:84, 98:112].sum() / field.sum()  # place (5, 7)
    assert patch > 0.5  # a fresh model looks at its own patch, through the shortcut
    half = effective_field(model.bfloat16(), images)
    assert half.dtype == torch.float32
    assert half.sum().item() == pytest.approx(field.sum().item(), rel=0.1)
    t2t = effective_field(
        vitbook.create_model("t2t_vit_micro_patch2_8"), torch.randn(2, 1, 8, 8), "tokenizer.block1"
    )
    assert t2t.shape == (8, 8) and (t2t > 0).all()  # token attention sees all


def test_the_model_is_left_as_it_was_and_the_answer_is_the_same_again():
    model, images = own().train(), torch.randn(5, 3, 40, 56)
    model.encoder.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    with torch.no_grad():
        first = effective_field(model, images, batch_size=5)
    assert torch.equal(first, effective_field(model, images, batch_size=5))
    assert not torch.equal(first, effective_field(model, images, seed=1, batch_size=5))
    assert torch.allclose(first, effective_field(model, images, batch_size=2), rtol=1e-4)
    assert [module.training for module in model.modules()] == modes
    assert all(p.grad is None for p in model.parameters()) and not images.requires_grad


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (dict(layer="encoder.block.1"), UnknownNameError, "did you mean encoder.blocks.1"),
        (dict(place=(10, 0)), ValueError, r"place \(10, 0\) on a grid of 10x14: expected a row"),
        (dict(place=(0, -1)), ValueError, r"place \(0, -1\) on a grid of 10x14"),
        (dict(layer="head"), ValueError, r"head gives \(2, 5\): expected tokens"),
        (dict(grid_size=(7, 7)), ValueError, "141 tokens, but 1 prefix tokens and a grid of 7x7"),
        (dict(layer="spare"), RuntimeError, "layer spare did not run"),
    ],
)
def test_what_has_no_field(arguments, error, words):
    model = own()
    model.spare = nn.Linear(2, 2)
    with pytest.raises(error, match=words):
        effective_field(model, torch.randn(2, 3, 40, 56), **arguments)


class Blind(nn.Module):
    grid_size, num_prefix_tokens = (2, 2), 0

    def __init__(self, learns):
        super().__init__()
        self.own = nn.Linear(3, 3).requires_grad_(learns)

    def forward(self, images):
        return images.mean() + self.own(torch.ones(len(images), 4, 3)).sum()


@pytest.mark.parametrize("learns", [True, False])
def test_a_layer_that_sees_no_image(learns):
    with pytest.raises(ValueError, match="own gives what does not depend on the image"):
        effective_field(Blind(learns), torch.randn(2, 3, 8, 8), "own")
