import pytest
import timm
import torch
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.analysis import capture_attention
from vitbook.layers import quantize
from vitbook.studies.quantization.activations import PLACES, round_activations


def micro():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_micro_patch2_8").eval()
    for weight in model.parameters():
        weight.requires_grad_(False)
    return model


def images(n=3):
    return torch.rand(n, 1, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1


@pytest.mark.parametrize("place", PLACES)
def test_fewer_bits_lose_more(place):
    model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
    model.requires_grad_(False)
    seen = datasets.normalize(datasets.load("digits", "test").images[:20])
    exact, errors = model(seen), []
    for bits in (8, 5, 2):
        with round_activations(model, place, bits):
            errors.append((model(seen) - exact).norm().item())
    assert 0 < errors[0] < errors[1] < errors[2]
    assert torch.equal(model(seen), exact)  # nothing outlives the block


def test_what_the_norms_give_is_rounded_on_the_grid():
    model, seen, read = micro(), images(), []
    model.encoder.blocks[0].attention.qkv.register_forward_pre_hook(
        lambda _, args: read.append(args[0])
    )
    model(seen)
    with round_activations(model, "norm", 4, "token"):
        model(seen)
    torch.testing.assert_close(read[1], quantize(read[0], 4, 2).values)
    with round_activations(model, "norm", 4, "channel"):
        model(seen)
    torch.testing.assert_close(read[2], quantize(read[0], 4, (0, 1)).values)


def test_rounded_attention_by_hand():
    """One layer of it, written out."""
    model, seen = micro(), images()
    attention, tokens = model.encoder.blocks[0].attention, torch.randn(2, 17, 64)
    with capture_attention(attention) as maps:
        attention(tokens)
    (weights,) = maps.values()
    rounded = quantize(weights, 4).values
    values = attention.qkv(tokens).view(2, 17, 3, 4, 16)[:, :, 2].transpose(1, 2)
    mixed = (rounded @ values).transpose(1, 2).reshape(2, 17, 64)
    with round_activations(attention, "softmax", 4):
        found = attention(tokens)
    torch.testing.assert_close(found, attention.projection(mixed))
    assert len(seen)


@pytest.mark.parametrize("place", PLACES)
def test_on_a_model_of_timm(place):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=5).eval()
    seen = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        exact = model(seen)
        with round_activations(model, place, 8):
            near = model(seen)
        with round_activations(model, place, 2):
            far = model(seen)
    assert 0 < (near - exact).norm() < (far - exact).norm()


def test_one_large_channel_costs_the_others_their_grid():
    """Why a step a channel helps: the planted channel eats the codes of all others."""
    torch.manual_seed(0)
    values = torch.randn(1, 50, 16)
    values[..., 3] *= 100
    others = [channel for channel in range(16) if channel != 3]
    errors = {
        steps: (quantize(values, 8, axes).values - values)[..., others].abs().mean()
        for steps, axes in (("tensor", None), ("channel", (0, 1)))
    }
    assert errors["tensor"] > 20 * errors["channel"]


def test_nothing_ran():
    with (
        pytest.raises(ValueError, match="no gelu of ResNet ran in the block"),
        round_activations(vitbook.create_model("resnet20"), "gelu", 8),
    ):
        pass


def test_nan_is_refused():
    model = micro()
    with pytest.raises(ValueError, match="NaN or infinity"), round_activations(model, "norm", 8):
        model(torch.full((1, 1, 8, 8), float("nan")))
    assert isinstance(model.encoder.norm, nn.LayerNorm)


class AfterPooling(nn.Module):
    """A norm of "batch width", as foreign models have behind a mean over tokens."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, images):
        return self.norm(images.flatten(1))


@pytest.mark.parametrize(("steps", "axes"), [("tensor", None), ("token", 1), ("channel", 0)])
def test_activations_without_tokens(steps, axes):
    model = AfterPooling()
    with torch.no_grad(), round_activations(model, "norm", 4, steps):
        found = model(images())
    torch.testing.assert_close(found, quantize(model(images()).detach(), 4, axes).values)
