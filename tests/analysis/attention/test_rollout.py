import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vitbook
from vitbook.analysis import attention_rollout, capture_attention
from vitbook.analysis.attention.rollout import roll_out
from vitbook.analysis.capture import streaming
from vitbook.measure import peak_memory
from vitbook.models.papers.vit import Body, vit


def random_maps(layers=3, batch=2, heads=4, tokens=13, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, heads, tokens, tokens)
    return [(3 * torch.randn(shape, generator=generator)).softmax(-1) for _ in range(layers)]


def naive(maps, grid, prefix, row, residual=0.5, fuse=lambda maps: maps.mean(0)):
    """One image, as the papers say it: fuse, add the identity, normalise, multiply."""
    product = torch.eye(len(maps[0][0]))
    for weights in maps:
        mixed = residual * torch.eye(len(product)) + (1 - residual) * fuse(weights)
        product = (mixed / mixed.sum(-1, keepdim=True)) @ product
    return product[row, prefix:].reshape(grid)


def test_two_layers_by_hand():
    # Three patches. In layer 1 the second copies the first, in layer 2 the third the second.
    first = torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 0, 1]])[None, None]
    second = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 1, 0]])[None, None]
    whole = roll_out(torch.eye(3)[None], [first[0], second[0]])[0]
    expected = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]])
    assert torch.equal(whole, expected)
    rows = attention_rollout([first, second], grid_size=(1, 3), num_prefix_tokens=0, query=2)
    assert torch.equal(rows, expected[2][None, None])
    # The other way round nothing has come to the second yet when the third copies it.
    turned = attention_rollout([second, first], grid_size=(1, 3), num_prefix_tokens=0, query=2)
    assert torch.equal(turned, torch.tensor([[[0.0, 0.5, 0.5]]]))


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
def test_identities_stay_the_identity(fusion):
    maps = [torch.eye(7).expand(2, 3, 7, 7)] * 4
    for patch in range(6):
        found = attention_rollout(
            maps, grid_size=(2, 3), num_prefix_tokens=1, query=patch, head_fusion=fusion
        )
        assert torch.equal(found.flatten(1), torch.eye(6)[patch].expand(2, -1))


@pytest.mark.parametrize("prefix", [0, 1, 5])
@pytest.mark.parametrize("grid", [(2, 4), (10, 14)])
@pytest.mark.parametrize("residual", [0.0, 0.5, 0.9])
def test_one_row_is_the_row_of_the_product(grid, prefix, residual):
    maps = random_maps(batch=1, tokens=prefix + grid[0] * grid[1])
    given = dict(grid_size=grid, num_prefix_tokens=prefix, residual=residual)
    for query, row in ((3, prefix + 3), ("class", 0)) if prefix else ((3, 3),):
        found = attention_rollout(maps, query=query, **given)
        expected = naive([each[0] for each in maps], grid, prefix, row, residual)
        assert found.shape == (1, *grid)
        assert (found[0] - expected).abs().max() < 1e-5
    every = [attention_rollout(maps, query=i, **given) for i in range(grid[0] * grid[1])]
    mean = attention_rollout(maps, query="mean", **given)
    assert (mean - torch.stack(every).mean(0)).abs().max() < 1e-6
    default = attention_rollout(maps, **given)
    assert torch.equal(
        default, attention_rollout(maps, query="class" if prefix else "mean", **given)
    )


def smallest_dropped(weights, share):
    """Row by row, in words."""
    kept = weights.clone()
    for row in kept:
        for place in row.argsort()[: int(share * len(row))]:
            row[place] = 0
    return kept


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
def test_fusion_discard_and_first_layer(share, fusion):
    maps = random_maps(batch=1)
    found = attention_rollout(
        maps, grid_size=(3, 4), num_prefix_tokens=1, head_fusion=fusion, discard=share,
        start_layer=1,
    )  # fmt: skip
    heads = {
        "mean": lambda w: w.mean(0),
        "max": lambda w: w.max(0)[0],
        "min": lambda w: w.min(0)[0],
    }
    expected = naive(
        [each[0] for each in maps[1:]], (3, 4), 1, 0,
        fuse=lambda weights: smallest_dropped(heads[fusion](weights), share),
    )  # fmt: skip
    assert (found[0] - expected).abs().max() < 1e-6


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0, 1, 2, 5]))
def test_nothing_is_lost_or_made(seed, prefix):
    maps = random_maps(tokens=prefix + 12, seed=seed)
    start = torch.eye(prefix + 12).expand(2, -1, -1)
    rows = roll_out(start, [each.mean(1) for each in maps])
    assert (rows >= 0).all() and (rows.sum(-1) - 1).abs().max() < 1e-5


def own(**changes):
    torch.manual_seed(0)
    body = dict(
        image_size=(80, 112), patch_size=8, num_classes=5,
        body=Body(24, 3, num_heads=3, mlp_width=48),
    )  # fmt: skip
    model = vit(**body | changes)
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform attention
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


IMAGES = torch.randn(8, 3, 80, 112, generator=torch.Generator().manual_seed(0))


def test_a_model_is_its_maps_and_a_batch_its_images():
    model = own().train()
    with torch.no_grad(), capture_attention(model.eval()) as maps:
        model(IMAGES)
    expected = attention_rollout(maps, grid_size=(10, 14), num_prefix_tokens=1)
    model.train()
    found = attention_rollout(model, IMAGES)
    assert model.training and found.shape == (8, 10, 14)
    assert (found - expected).abs().max() < 1e-6
    singles = torch.cat([attention_rollout(model, IMAGES[i : i + 1]) for i in range(8)])
    assert (found - singles).abs().max() < 1e-6
    assert (found - attention_rollout(model, IMAGES, batch_size=3)).abs().max() < 1e-6


def test_by_small_pieces_it_is_the_same(monkeypatch):
    whole = attention_rollout(own(), IMAGES[:2])
    monkeypatch.setattr(streaming, "AT_ONCE", 1000)
    assert (attention_rollout(own(), IMAGES[:2]) - whole).abs().max() < 1e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    maps = [each.to(dtype) for each in random_maps()]
    found = attention_rollout(maps, grid_size=(3, 4), num_prefix_tokens=1)
    exact = attention_rollout(
        [each.double() for each in maps], grid_size=(3, 4), num_prefix_tokens=1
    )
    assert found.dtype == torch.float32 and (found - exact).abs().max() < 1e-6
    found = attention_rollout(own().to(dtype), IMAGES[:1])
    assert found.dtype == torch.float32 and found.isfinite().all()


MODELS = {
    "timm, mean of the patches": lambda: timm.models.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=24, depth=3, num_heads=3, num_classes=5,
        class_token=False, global_pool="avg",
    ),
    "timm, registers": lambda: timm.create_model(
        "vit_base_patch14_reg4_dinov2", depth=2, num_classes=5, img_size=42
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_of_others(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    images = torch.randn(2, 3, *(2 * (42 if "registers" in name else 32,)))
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    prefix = model.num_prefix_tokens
    side = round((next(iter(maps.values())).shape[-1] - prefix) ** 0.5)
    found = attention_rollout(model, images)
    for image in range(2):
        by_hand = torch.eye(prefix + side * side)
        for weights in maps.values():
            by_hand = (weights[image].mean(0) + torch.eye(len(by_hand))) / 2 @ by_hand
        read = len(by_hand) if "mean" in name else 1
        row = by_hand[:read].mean(0)
        assert (found[image].flatten() - row[prefix:]).abs().max() < 1e-6


def test_memory_is_one_fused_map_a_layer():
    def peak(depth):
        model = own(body=Body(48, depth, num_heads=12, mlp_width=48))
        return peak_memory(lambda: attention_rollout(model, IMAGES[:4], batch_size=4))

    fused = 4 * 4 * 141 * 141  # bytes of a layer's map of four images, without its heads
    few, many = peak(2), peak(10)
    assert many - few < 1.5 * 8 * fused


GIVEN = dict(grid_size=(3, 4), num_prefix_tokens=1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(residual=1.0), "residual 1.0: expected from 0 to below 1"),
        (dict(head_fusion="sum"), "head_fusion 'sum': expected mean, max or min"),
        (dict(discard=1.0), "discard 1.0: expected from 0 to below 1"),
        (dict(start_layer=3), "start_layer 3: expected 0 to 2"),
        (dict(query=12), "query 12: expected .* 0 to 11"),
        (dict(query="cls"), "query 'cls': expected"),
        (dict(num_prefix_tokens=2), "layer 0: maps of 13 tokens, but 2 prefix tokens .* make 14"),
        (dict(grid_size=(13, 1), num_prefix_tokens=0, query="class"), "no prefix token"),
        (dict(grid_size=None), "maps do not say their tokens"),
    ],
)
def test_settings_that_cannot_be(changes, words):
    with pytest.raises(ValueError, match=words):
        attention_rollout(random_maps(), **GIVEN | changes)


def test_maps_that_cannot_be():
    maps = random_maps()
    with pytest.raises(ValueError, match="no maps came"):
        attention_rollout([], **GIVEN)
    with pytest.raises(ValueError, match="layer 1: a map of 13 queries by 8 keys: .*Linformer"):
        attention_rollout([maps[0], maps[1][..., :8]], **GIVEN)
    maps[2][1, 0, 3] = float("nan")
    with pytest.raises(ValueError, match="layer 2: the attention is NaN"):
        attention_rollout(maps, **GIVEN)
    empty = [torch.zeros(1, 1, 13, 13)]
    with pytest.raises(ValueError, match="a row of a fused map sums to 0"):
        attention_rollout(empty, **GIVEN, residual=0.0)
    with pytest.raises(TypeError, match="a model came without images"):
        attention_rollout(own())
    with pytest.raises(TypeError, match="maps came with images"):
        attention_rollout(maps, IMAGES, **GIVEN)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("linformer_vit_micro_patch2_8", "encoder.blocks.0.*17 queries by 8 keys: .*Linformer"),
        ("axial_vit_micro_patch2_8", "axial and block-local attention, a row, a column"),
        ("block_local_vit_micro_patch2_8", "axial and block-local attention, a row, a column"),
    ],
)
def test_models_whose_maps_cannot_be_multiplied(name, words):
    model = vitbook.create_model(name)
    with pytest.raises(ValueError, match=words):
        attention_rollout(model, torch.randn(1, 1, 8, 8))


def test_a_model_in_which_nothing_attends():
    with pytest.raises(RuntimeError, match="no attention ran"):
        attention_rollout(vitbook.create_model("resnet8_digits"), torch.randn(1, 1, 8, 8))


def test_nan_weights_say_the_layer():
    model = own()
    model.encoder.blocks[1].attention.qkv.weight.data[0, 0] = float("nan")
    with pytest.raises(ValueError, match=r"blocks.1.*is NaN"):
        attention_rollout(model, IMAGES[:1])
