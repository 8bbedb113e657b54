import pytest
import timm
import torch
import torchvision
from timm.layers import ScaledStdConv2dSame
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import spectral_norm
from transformers import ViTConfig, ViTModel

import vitbook
from vitbook.analysis import as_images, embedding_filters, principal_filters
from vitbook.layers import OverlappingPatches, RotatedPatches, ShiftedPatches, TokensToTokens
from vitbook.layers.tokens_to_tokens import TokenPerformer, TokenTransformer


def planted(width=200, shape=(3, 4, 6), strengths=(5.0, 2.0, 1.0), noise=0.0, seed=0):
    """Filters that are mixtures of three images at right angles, and the images."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.Size(shape).numel()
    basis, _ = torch.linalg.qr(torch.randn(pixels, len(strengths), generator=generator))
    weights = torch.randn(width, len(strengths), generator=generator)
    weights, _ = torch.linalg.qr(weights - weights.mean(0))
    filters = weights * torch.tensor(strengths) @ basis.T + 0.7  # a mean that counts for nothing
    filters = filters + noise * torch.randn(filters.shape, generator=generator)
    return filters.reshape(width, *shape), basis.T.reshape(len(strengths), *shape)


def test_planted_images_are_found_again_with_their_shares():
    filters, images = planted()
    found = principal_filters(filters, count=3)
    likeness = torch.einsum("ichw,ichw->i", found.filters, images)
    assert likeness.abs().numpy() == pytest.approx(1, abs=1e-5)
    assert found.shares.numpy() == pytest.approx([25 / 30, 4 / 30, 1 / 30], abs=1e-5)
    peaks = found.filters.flatten(1)
    assert (peaks.gather(1, peaks.abs().argmax(1, keepdim=True)) > 0).all()


def test_they_are_found_under_noise_and_it_takes_the_rest_of_the_variance():
    filters, images = planted(noise=0.01)
    found = principal_filters(filters, count=28)
    likeness = torch.einsum("ichw,ichw->i", found.filters[:3], images).abs()
    assert (likeness > 0.97).all() and found.shares[3] < 0.002
    assert found.shares.sum() < 1 and (found.shares.diff() <= 0).all()


def test_components_are_at_right_angles_and_there_are_no_more_than_can_be():
    found = principal_filters(torch.randn(64, 1, 2, 2))
    assert found.filters.shape == (4, 1, 2, 2) and found.shares.sum().item() == pytest.approx(1)
    flat = found.filters.flatten(1)
    assert torch.allclose(flat @ flat.T, torch.eye(4), atol=1e-5)
    assert len(principal_filters(torch.randn(5, 3, 8, 8)).shares) == 4


def test_half_precision_is_computed_in_full():
    filters, _ = planted()
    half = principal_filters(filters.half(), 3)
    assert half.filters.dtype == torch.float32
    assert half.shares.numpy() == pytest.approx(principal_filters(filters, 3).shares, abs=1e-3)


def test_white_noise_spreads_its_variance():
    found = principal_filters(torch.randn(4000, 3, 4, 4), count=48)
    assert found.shares.max() < 1.5 / 48 and found.shares.min() > 0.5 / 48


@pytest.mark.parametrize(
    ("filters", "count", "words"),
    [
        (torch.randn(1, 3, 2, 2), 28, "28 components of 1 filters: expected 1 of 2"),
        (torch.randn(9, 3, 2, 2), 0, "0 components of 9 filters"),
        (torch.full((9, 3, 2, 2), torch.nan), 3, "filters hold NaN or infinity"),
        (torch.full((9, 3, 2, 2), 0.3), 3, "all filters are alike: expected some variance"),
        (torch.zeros(9, 3, 2, 2), 3, "all filters are alike"),
    ],
)  # fmt: skip
def test_what_has_no_components(filters, count, words):
    with pytest.raises(ValueError, match=words):
        principal_filters(filters, count)


def test_one_scale_for_all_images():
    images = as_images(torch.tensor([[[-4.0, 0.0]], [[2.0, 1.0]]]))
    assert images.tolist() == [[[0.0, 0.5]], [[0.75, 0.625]]]
    assert (as_images(torch.zeros(2, 3)) == 0.5).all()
    assert as_images(torch.randn(4, 3, 8, 8).half()).dtype == torch.float32


def test_every_convolution_on_the_image_is_found():
    torch.manual_seed(0)
    own = vitbook.create_model("vit_mini_patch4_32")
    assert torch.equal(embedding_filters(own).filters, own.tokenizer.projection.weight)
    wide = OverlappingPatches((8, 12), (4, 6), 3, 10)
    assert embedding_filters(wide).filters.shape == (10, 3, 8, 12)
    resnet = vitbook.create_model("resnet8_digits")
    assert torch.equal(embedding_filters(resnet).filters, resnet.stem.weight)
    foreign = timm.create_model(
        "vit_base_patch14_reg4_dinov2", depth=2, embed_dim=24, num_heads=3, img_size=(140, 196)
    )
    assert torch.equal(embedding_filters(foreign).filters, foreign.patch_embed.proj.weight)
    torchs = torchvision.models.VisionTransformer(32, 8, 1, 2, 24, 48)
    assert torch.equal(embedding_filters(torchs).filters, torchs.conv_proj.weight)
    face = ViTModel(
        ViTConfig(image_size=32, patch_size=8, hidden_size=24, num_hidden_layers=1,
                  num_attention_heads=3, intermediate_size=48)
    )  # fmt: skip
    kernel = face.embeddings.patch_embeddings.projection.weight
    found = embedding_filters(nn.Sequential(face))  # from inside a wrapper too
    assert torch.equal(found.filters, kernel) and found.num_views == 1
    assert not found.filters.requires_grad


@pytest.mark.parametrize("source", ["ours", "BiT", "timm", "timm's, scaled"])
def test_standardised_filters_are_those_that_are_used(source):
    if source == "timm":
        model = timm.create_model(
            "vit_base_r50_s16_224", depth=1, embed_dim=24, num_heads=3, img_size=32
        )
        stem = model.patch_embed.backbone.stem.conv
    elif source == "timm's, scaled":
        model = stem = ScaledStdConv2dSame(3, 8, kernel_size=5, stride=2, bias=False)
    elif source == "ours":
        model = vitbook.create_model("vit_micro_r8_s2_8")
        stem = model.tokenizer.conv
    else:
        model = vitbook.create_model("bit_resnet8x1_digits")
        stem = model.stem[0]
    with torch.no_grad():
        stem.weight.add_(0.3)
    found = embedding_filters(model)
    assert "as the module changes them" in found.note
    assert torch.allclose(found.filters.mean((1, 2, 3)), torch.zeros(1), atol=1e-5)
    # One bright pixel shows the filters themselves, turned around.
    kernel = stem.kernel_size[0]
    image = torch.zeros(1, stem.in_channels, 33, 33)
    image[0, 0, 16, 16] = 1
    seen, step = stem(image)[0], stem.stride[0]
    assert seen.abs().max() > 0.1
    for row in range(33 // step):
        for column in range(33 // step):
            values = seen[:, row, column]
            if values.abs().max() > 1e-6:  # the filter's number that met the pixel
                gaps = (found.filters[:, 0] - values[:, None, None]).abs().amax(0)
                assert gaps.shape == (kernel, kernel) and gaps.min() < 1e-5


@pytest.mark.parametrize("kind", [ShiftedPatches, RotatedPatches])
def test_filters_behind_a_norm_make_the_tokens_up_to_contrast_and_a_constant(kind):
    torch.manual_seed(0)
    tokenizer = kind((8, 12), (4, 6), 3, 10).eval()
    with torch.no_grad():
        tokenizer.norm.weight.normal_(1, 0.3)
        tokenizer.norm.bias.normal_()
    found = embedding_filters(tokenizer)
    views = 5 if kind is ShiftedPatches else 3
    assert found.num_views == views and found.filters.shape == (10, 3 * views, 4, 6)
    assert found.by_view.shape == (10, views, 3, 4, 6)
    assert torch.equal(found.by_view[:, 1], found.filters[:, 3:6])
    images = torch.randn(1, 3, 8, 12)
    patch = tokenizer.views(images)[0, :, 4:, :6]  # the third token's
    said = torch.einsum("dcpq,cpq->d", found.filters, patch) / (
        (patch.var(correction=0) + tokenizer.norm.eps).sqrt()
    )
    constant = tokenizer.projection(tokenizer.norm.bias)
    assert torch.allclose(said + constant, tokenizer(images)[0, 2], atol=1e-4)


@pytest.mark.parametrize("block", [TokenPerformer, TokenTransformer])
def test_soft_split_filters_are_those_of_the_values(block):
    torch.manual_seed(0)
    tokenizer = TokensToTokens(32, 3, 24, make_block=block, token_width=8).eval()
    found = embedding_filters(tokenizer)
    assert found.filters.shape == (8, 3, 7, 7) and "values" in found.note
    values = []
    tokenizer.block1.core.register_forward_pre_hook(lambda module, args: values.append(args[2]))
    images = torch.randn(1, 3, 32, 32)
    tokenizer(images)
    window = images[0, :, 6:13, 10:17]  # row 2, column 3 of 8x8: 2 * 4 - 2 and 3 * 4 - 2
    said = torch.einsum("dcpq,cpq->d", found.filters, window) / window.std(correction=0)
    (found_values,) = values
    kept = found_values[0, 0, 2 * 8 + 3]
    bias = tokenizer.block1.kqv.bias[16:] if block is TokenPerformer else 0
    assert torch.allclose(said + bias, kept, atol=1e-3)


def test_a_model_without_filters_says_so():
    flat = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.Unflatten(1, (8, 1, 1)))
    with pytest.raises(ValueError, match="Sequential has no filters that embedding_filters knows"):
        embedding_filters(nn.Sequential(flat, nn.Conv2d(8, 8, 1)))


def test_a_weight_that_a_hook_makes_is_as_it_will_be_used():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 2, stride=2), nn.Flatten(), nn.Linear(16, 2))
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    with torch.no_grad():
        model[0].weight_orig += 1  # as a step of training does, of which the weight knows nothing
    expected = model[0].weight_orig * model[0].weight_mask
    assert torch.equal(embedding_filters(model).filters, expected)


def test_looking_at_filters_changes_no_buffer_in_training_mode():
    torch.manual_seed(0)
    model = nn.Sequential(spectral_norm(nn.Conv2d(3, 4, 2, stride=2)), nn.Flatten()).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    embedding_filters(model)
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)
    assert model.training and model[0].training
