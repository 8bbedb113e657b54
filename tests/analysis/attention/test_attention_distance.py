from math import hypot

import pytest
import timm
import torch
import torchvision
from einops import rearrange
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

import vitbook
from vitbook.analysis import (
    attention_distance,
    capture_attention,
    mean_attention_distance,
    mean_weight_on_prefix,
    uniform_attention_distance,
    weight_on_prefix,
)
from vitbook.analysis.capture import streaming
from vitbook.measure import peak_memory
from vitbook.models.papers.vit import Body, vit


def random_maps(grid, prefix=1, batch=2, heads=3, seed=0):
    tokens = prefix + grid[0] * grid[1]
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(batch, heads, tokens, tokens, generator=generator)
    return (3 * scores).softmax(-1)


def by_loops(weights, grid, patch, prefix):
    """One map, as one would say it aloud."""
    down, across = patch
    places = [(r * down, c * across) for r in range(grid[0]) for c in range(grid[1])]
    total = 0.0
    for i, (y, x) in enumerate(places):
        for j, (v, u) in enumerate(places):
            total += float(weights[prefix + i, prefix + j]) * hypot(y - v, x - u)
    return total / len(places)


def around(grid, prefix, patches, on_prefix):
    """Maps that give prefix tokens ``on_prefix`` in all, and the rest as ``patches`` says."""
    n = grid[0] * grid[1]
    maps = torch.zeros(1, 1, prefix + n, prefix + n)
    maps[..., :prefix] = on_prefix / max(prefix, 1)
    maps[..., prefix:, prefix:] = (1 - on_prefix) * patches
    return maps


def test_two_by_three_by_hand():
    # Every patch looks at the top left one only: 0, 5, 10 px along the top, and 4 px below.
    maps = torch.zeros(1, 1, 6, 6)
    maps[..., 0] = 1
    expected = (0 + 5 + 10 + 4 + hypot(4, 5) + hypot(4, 10)) / 6
    assert attention_distance(maps, (2, 3), (4, 5), 0).item() == pytest.approx(expected)


@pytest.mark.parametrize("prefix", [0, 1, 5])
@pytest.mark.parametrize("grid", [(2, 3), (10, 14), (1, 7)])
def test_it_is_the_double_loop_for_any_grid_and_prefix(grid, prefix):
    maps = random_maps(grid, prefix, batch=1, heads=1)
    found = attention_distance(maps, grid, (16, 12), prefix).item()
    assert found == pytest.approx(by_loops(maps[0, 0], grid, (16, 12), prefix), rel=1e-5)


@pytest.mark.parametrize(
    ("grid", "patch"), [((14, 14), (16, 16)), ((3, 5), (4, 7)), ((1, 1), (9, 9))]
)
def test_uniform_attention_is_the_closed_sum(grid, patch):
    n = grid[0] * grid[1]
    maps = torch.full((1, 1, n, n), 1 / n)
    assert uniform_attention_distance(grid, patch) == pytest.approx(
        by_loops(maps[0, 0], grid, patch, 0), rel=1e-6
    )
    assert attention_distance(maps, grid, patch, 0).item() == pytest.approx(
        uniform_attention_distance(grid, patch), rel=1e-5
    )


@pytest.mark.parametrize("prefix", [1, 2, 5])
def test_half_on_the_class_token_is_half_the_distance(prefix):
    maps = around((14, 14), prefix, 1 / 196, on_prefix=0.5)
    uniform = uniform_attention_distance((14, 14), 16)
    published = attention_distance(maps, (14, 14), 16, prefix).item()
    assert published == pytest.approx(uniform / 2, rel=1e-5) and round(published) == 58
    renormalized = attention_distance(maps, (14, 14), 16, prefix, renormalize=True).item()
    assert renormalized == pytest.approx(uniform, rel=1e-5)
    assert weight_on_prefix(maps, prefix).item() == pytest.approx(0.5)


def test_rows_that_see_no_patch_are_left_out_when_renormalised():
    maps = around((2, 2), 1, 1 / 4, on_prefix=0.0)
    maps[0, 0, 1] = torch.tensor([1.0, 0, 0, 0, 0])  # the first patch sees the class token alone
    uniform = uniform_attention_distance((2, 2), 8)
    assert attention_distance(maps, (2, 2), 8, 1, renormalize=True).item() == pytest.approx(uniform)
    assert attention_distance(maps, (2, 2), 8, 1).item() == pytest.approx(uniform * 3 / 4)
    blind = around((2, 2), 1, 1 / 4, on_prefix=1.0)
    assert attention_distance(blind, (2, 2), 8, 1, renormalize=True).isnan().all()
    assert attention_distance(blind, (2, 2), 8, 1).item() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_precision_is_summed_in_float32_at_least(dtype):
    maps = random_maps((14, 14), batch=1, heads=2).to(dtype)
    exact = attention_distance(maps.double(), (14, 14), 16, 1)
    found = attention_distance(maps, (14, 14), 16, 1)
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    assert found.double() == pytest.approx(exact, rel=1e-6)
    shares = weight_on_prefix(maps, 1)
    assert shares.double() == pytest.approx(weight_on_prefix(maps.double(), 1), rel=1e-5)
    again = attention_distance(maps, (14, 14), 16, 1, renormalize=True)
    assert again.dtype == found.dtype and (again >= found).all()


def moved(maps, order):
    """The same attention after the patches changed places; the class token stays."""
    order = torch.cat([torch.zeros(1, dtype=torch.long), 1 + order])
    return maps[..., order, :][..., order]


def test_turning_or_flipping_the_image_leaves_the_distance():
    maps, grid, step = random_maps((4, 6)), (4, 6), (8, 5)
    places = torch.arange(24).reshape(grid)
    before = attention_distance(maps, grid, step, 1)
    for order in (places.flip(0), places.flip(1), places.rot90(2)):
        assert attention_distance(moved(maps, order.flatten()), grid, step, 1).allclose(before)
    turned = moved(maps, places.T.flatten())
    assert attention_distance(turned, (6, 4), (5, 8), 1).allclose(before)
    shuffled = moved(maps, torch.randperm(24, generator=torch.Generator().manual_seed(0)))
    assert not attention_distance(shuffled, grid, step, 1).allclose(before, rtol=1e-3)


@settings(deadline=None, max_examples=25)
@given(
    grid=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    patch=st.tuples(st.integers(1, 32), st.integers(1, 32)),
    prefix=st.integers(0, 5),
    seed=st.integers(0, 10**6),
)
def test_distance_lies_between_nothing_and_the_diagonal(grid, patch, prefix, seed):
    maps = random_maps(grid, prefix, seed=seed)
    diagonal = hypot((grid[0] - 1) * patch[0], (grid[1] - 1) * patch[1]) * (1 + 1e-5)
    published = attention_distance(maps, grid, patch, prefix)
    renormalized = attention_distance(maps, grid, patch, prefix, renormalize=True)
    assert (published >= 0).all() and (published <= renormalized * (1 + 1e-5)).all()
    assert (renormalized <= diagonal).all()
    share = weight_on_prefix(maps, prefix)
    assert (share >= 0).all() and (share <= 1 + 1e-5).all()


GOOD = dict(grid_size=(2, 3), patch_size=8, num_prefix_tokens=1)


@pytest.mark.parametrize(
    ("maps", "change", "words"),
    [
        (torch.ones(1, 1, 7, 7), {"grid_size": (2, 2)}, "7 tokens, but 1 prefix .* 2x2 make 5:"),
        (torch.ones(1, 1, 7, 7), {"num_prefix_tokens": 2}, "2 prefix tokens and .* 2x3 make 8"),
        (torch.ones(1, 1, 7, 3), {}, "7 queries by 3 keys: expected tokens by tokens"),
        (torch.full((1, 1, 7, 7), torch.nan), {}, "negative: expected .* after its softmax"),
        (torch.full((1, 1, 7, 7), -1.0), {}, "NaN, infinite or negative"),
        (torch.ones(1, 1, 7, 7), {"patch_size": 0}, "of 0x0 px: expected whole numbers above 0"),
        (torch.ones(1, 1, 7, 7), {"patch_size": (8, -1)}, "2x3 patches of 8x-1 px"),
    ],
)  # fmt: skip
def test_bad_maps_get_one_sentence(maps, change, words):
    with pytest.raises(ValueError, match=words):
        attention_distance(maps, **GOOD | change)


def test_bad_maps_have_no_weight_on_a_prefix():
    with pytest.raises(ValueError, match="7 prefix tokens in maps of 7 tokens: expected at least"):
        weight_on_prefix(torch.ones(1, 1, 7, 7), 7)
    with pytest.raises(ValueError, match="expected tokens by tokens"):
        weight_on_prefix(torch.ones(1, 1, 7, 3), 1)
    with pytest.raises(ValueError, match="NaN, infinite or negative"):
        weight_on_prefix(torch.full((1, 1, 7, 7), torch.nan), 1)
    with pytest.raises(ValueError, match="a grid of 0x4 patches of 2x2 px"):
        uniform_attention_distance((0, 4), 2)


def hugging_face():
    return ViTForImageClassification(
        ViTConfig(
            image_size=(32, 48), patch_size=8, hidden_size=24, num_hidden_layers=2,
            num_attention_heads=3, intermediate_size=48,
        )
    )  # fmt: skip


def from_timm(name, **changes):
    return timm.create_model(name, depth=2, embed_dim=24, num_heads=3, **changes)


def from_torchvision():
    return torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=24, mlp_dim=48
    )


def own(**changes):
    sizes = dict(image_size=(32, 48), patch_size=(8, 16), num_classes=5)
    return vit(**sizes | dict(body=Body(24, 2, num_heads=3, mlp_width=48)) | changes)


# name -> model, channels and size of its images, grid, pixels a token steps, prefix tokens
MODELS = {
    "digits": (lambda: vitbook.create_model("vit_micro_patch2_8"), (1, 8, 8), (4, 4), (2, 2), 1),
    "own, neither square": (own, (3, 32, 48), (4, 3), (8, 16), 1),
    "timm, any size": (
        lambda: from_timm("vit_tiny_patch16_224", dynamic_img_size=True),
        (3, 48, 64), (3, 4), (16, 16), 1,
    ),
    "timm, registers": (
        lambda: from_timm("vit_tiny_patch16_224", img_size=64, reg_tokens=4),
        (3, 64, 64), (4, 4), (16, 16), 5,
    ),
    "timm, no class token": (
        lambda: from_timm(
            "vit_tiny_patch16_224", img_size=64, class_token=False, global_pool="avg"
        ),
        (3, 64, 64), (4, 4), (16, 16), 0,
    ),
    "torchvision": (from_torchvision, (3, 32, 32), (4, 4), (8, 8), 1),
    "Hugging Face": (hugging_face, (3, 32, 48), (4, 6), (8, 8), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_measured_without_being_told_anything(name):
    build, shape, grid, patch, prefix = MODELS[name]
    torch.manual_seed(0)
    model = build().train()
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform attention
            parameter.add_(0.2 * torch.randn_like(parameter))
    images = torch.randn(3, *shape)
    found = mean_attention_distance(model, images, batch_size=2)
    renormalized = mean_attention_distance(model, images, renormalize=True)
    share = mean_weight_on_prefix(model, images, batch_size=1)
    assert all(module.training for module in model.modules())

    with torch.no_grad(), capture_attention(model.eval()) as maps:
        model(images)
    expected = [
        [
            sum(by_loops(one[head], grid, patch, prefix) for one in layer) / 3
            for head in range(layer.shape[1])
        ]
        for layer in maps.values()
    ]
    assert found.dtype == torch.float32 and not found.requires_grad
    assert found.numpy() == pytest.approx(torch.tensor(expected).numpy(), rel=1e-4)
    assert (renormalized >= found).all() and share.shape == found.shape
    to_prefix = torch.stack([m[..., prefix:, :prefix].sum(-1).mean((0, 2)) for m in maps.values()])
    assert share.allclose(to_prefix, atol=1e-6)


def test_each_part_keeps_its_mode_and_the_model_its_precision():
    model = own().to(torch.bfloat16).train()
    model.encoder.blocks[0].eval()  # a frozen part of a model in training
    before = [module.training for module in model.modules()]
    distances = mean_attention_distance(model, torch.randn(2, 3, 32, 48))
    assert distances.dtype == torch.float32
    assert [module.training for module in model.modules()] == before
    with pytest.raises(ValueError, match="but the model takes 32x48"):
        mean_attention_distance(model, torch.randn(2, 3, 64, 96))
    assert [module.training for module in model.modules()] == before


def test_uniform_attention_in_a_model_gives_the_null():
    model = own()
    with torch.no_grad():
        for block in model.encoder.blocks:
            block.attention.qkv.weight.zero_()
    images = torch.randn(2, 3, 32, 48)
    null = uniform_attention_distance((4, 3), (8, 16))
    found = mean_attention_distance(model, images, renormalize=True)
    assert found.numpy() == pytest.approx(null)
    share = mean_weight_on_prefix(model, images)
    assert share.numpy() == pytest.approx(1 / 13)
    assert mean_attention_distance(model, images).numpy() == pytest.approx(null * 12 / 13)


def test_a_model_that_keeps_silent_can_be_told():
    class Silent(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, images):
            tokens = rearrange(images, "b c h w -> b (h w) c")
            return self.attention(tokens, tokens, tokens, need_weights=False)[0]

    images = torch.randn(2, 8, 3, 5)
    with pytest.raises(ValueError, match="Silent does not say its grid_size: pass grid_size="):
        mean_attention_distance(Silent(), images)
    with pytest.raises(ValueError, match="Silent does not say its num_prefix_tokens"):
        mean_weight_on_prefix(Silent(), images)
    told = dict(grid_size=(3, 5), num_prefix_tokens=0)
    near = mean_attention_distance(Silent(), images, **told)
    assert near.shape == (1, 2)
    with pytest.raises(ValueError, match="image 3x5 on a grid of 5x3 patches .* pass patch_size="):
        mean_attention_distance(Silent(), images, grid_size=(5, 3), num_prefix_tokens=0)


def test_what_goes_wrong_in_a_layer_is_said_with_its_name():
    model, images = own(), torch.randn(1, 3, 32, 48)
    wrong = (
        r"encoder\.blocks\.0\.attention\.core: maps of 13 tokens, but 1 prefix tokens and a grid"
    )
    with pytest.raises(ValueError, match=wrong):
        mean_attention_distance(model, images, grid_size=(2, 3))
    with pytest.raises(
        ValueError, match="blocks.0.attention.core: a grid of 4x3 patches of 0x0 px"
    ):
        mean_attention_distance(model, images, patch_size=0)
    with torch.no_grad():
        model.encoder.blocks[1].norm1.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"blocks\.1\.attention\.core: weights are NaN"):
        mean_attention_distance(model, images)
    with pytest.raises(ValueError, match="no images came"):
        mean_attention_distance(model, images[:0])


def test_layers_with_different_numbers_of_heads_are_refused():
    model = own()
    other = own(body=Body(24, 2, num_heads=2, mlp_width=48))
    model.encoder.blocks[1] = other.encoder.blocks[1]
    with pytest.raises(ValueError, match=r"layers have \[3, 2\] heads, expected as many in each"):
        mean_attention_distance(model, torch.randn(1, 3, 32, 48))


def test_a_tokenizer_that_attends_is_no_layer():
    model = vitbook.create_model("t2t_vit_7", image_size=32).eval()
    distance = mean_attention_distance(model, torch.randn(1, 3, 32, 32))
    assert distance.shape == (7, 4)
    # fresh: nearly even over the class token and 2 x 2 patches, 16 px a step
    even = 16 * (2 + 2**0.5) / 4 * 4 / 5
    assert (distance - even).abs().max() < 0.5


@pytest.mark.parametrize("at_once", [1, 500])
def test_by_pieces_of_any_size_it_is_the_same(at_once, monkeypatch):
    model = vitbook.create_model("vit_micro_patch2_8", image_size=(8, 12))
    images = torch.randn(5, 1, 8, 12)
    far, given = mean_attention_distance(model, images), mean_weight_on_prefix(model, images)
    renormalized = mean_attention_distance(model, images, renormalize=True)
    monkeypatch.setattr(streaming, "AT_ONCE", at_once)
    assert torch.allclose(mean_attention_distance(model, images), far)
    assert torch.allclose(mean_weight_on_prefix(model, images), given)
    again = mean_attention_distance(model, images, renormalize=True)
    assert torch.allclose(again, renormalized)


def test_memory_grows_with_the_tokens_and_not_with_their_square():
    def peak(side, look):
        torch.manual_seed(0)
        model = vit(
            image_size=side, patch_size=4, num_classes=2,
            body=Body(48, 2, num_heads=12, mlp_width=48),
        ).eval()  # fmt: skip
        images = torch.randn(1, 3, side, side)
        with torch.no_grad():
            return peak_memory(lambda: look(model, images))

    few, many = 64, 128  # 256 and 1,024 patches: maps of 3 and of 50 MB
    plain = [peak(side, lambda model, images: model(images)) for side in (few, many)]
    looked = [peak(side, mean_attention_distance) for side in (few, many)]
    assert looked[1] < 6 * looked[0] and looked[1] - plain[1] < 20e6
