import pytest
import torch
import torch.nn.functional as F

from vitbook.analysis import capture_attention
from vitbook.layers import SelfAttention
from vitbook.layers.cnn_designs import (
    DenseEncoder,
    GhostMLP,
    GhostSelfAttention,
    SqueezedSelfAttention,
    SqueezeExcitation,
)
from vitbook.measure import count_parameters
from vitbook.models.papers.t2t_vit import (
    T2T_VIT_DENSE_MODELS,
    T2T_VIT_MODELS,
    t2t_vit,
    t2t_vit_dense,
)

# What is learned, the fixed sinusoids, the fixed random features (32 x 64, two blocks), and their
# sum, which is what the authors' code counts.
COUNTS = {
    "t2t_vit_7": (4_255_694, 197 * 256, 4096, 4_310_222),
    "t2t_vit_10": (5_834_702, 197 * 256, 4096, 5_889_230),
    "t2t_vit_12": (6_887_374, 197 * 256, 4096, 6_941_902),
    "t2t_vit_14": (21_465_806, 75_648, 4096, 21_545_550),
    "t2t_vit_19": (39_085_070, 197 * 448, 4096, 39_177_422),
    "t2t_vit_24": (64_000_974, 197 * 512, 4096, 64_105_934),
    "t2t_vit_t_14": (21_465_422, 75_648, 0, 21_541_070),
    "t2t_vit_t_19": (39_084_686, 197 * 448, 0, 39_172_942),
    "t2t_vit_t_24": (64_000_590, 197 * 512, 0, 64_101_454),
    "t2t_vit_14_wide": (25_000_910, 197 * 768, 4096, 25_156_302),
    "t2t_vit_14_resnext": (21_465_806, 75_648, 4096, 21_545_550),
    "t2t_vit_14_se": (21_723_854, 75_648, 4096, 21_803_598),
    "t2t_vit_14_ghost": (16_173_518, 75_648, 4096, 16_253_262),
    "t2t_vit_14_dense": (23_617_750, 197 * 128, 4096, 23_647_062),
    "t2t_vit_t_12_patch4_32": (6_484_928, 65 * 256, 0, 6_501_568),
    "t2t_vit_t_12_patch8_64": (6_658_110, 65 * 256, 0, 6_674_750),
    "t2t_vit_micro_patch2_8": (144_588, 17 * 64, 8 * 16, 145_804),
    "t2t_vit_t_micro_patch2_8": (144_540, 17 * 64, 0, 145_628),
    "t2t_vit_even_micro_patch2_8": (144_268, 17 * 64, 0, 145_356),
    "t2t_vit_mlp_micro_patch2_8": (143_996, 17 * 64, 0, 145_084),
    "t2t_vit_bare_micro_patch2_8": (143_402, 17 * 64, 0, 144_490),
    "t2t_vit_mini_patch4_32": (472_984, 65 * 96, 12 * 24, 479_512),
    "t2t_vit_mini_patch8_64": (509_318, 65 * 96, 2 * 12 * 24, 516_134),
    "t2t_vit_mini_patch8_128": (481_379, 257 * 96, 12 * 24, 506_339),
    "t2t_vit_t_mini_patch4_32": (472_912, 65 * 96, 0, 479_152),
    "t2t_vit_t_mini_patch8_64": (509_174, 65 * 96, 0, 515_414),
    "t2t_vit_t_mini_patch8_128": (481_307, 257 * 96, 0, 505_979),
    "t2t_vit_wide_mini_patch4_32": (640_984, 65 * 192, 12 * 24, 653_752),
    "t2t_vit_se_mini_patch4_32": (479_896, 65 * 96, 12 * 24, 486_424),
    "t2t_vit_resnext_mini_patch4_32": (472_984, 65 * 96, 12 * 24, 479_512),
    "t2t_vit_ghost_mini_patch4_32": (387_208, 65 * 96, 12 * 24, 393_736),
    "t2t_vit_dense_mini_patch4_32": (471_048, 65 * 32, 12 * 24, 473_416),
    "t2t_vit_wide_micro_patch2_8": (153_676, 17 * 128, 8 * 16, 155_980),
    "t2t_vit_se_micro_patch2_8": (146_636, 17 * 64, 8 * 16, 147_852),
    "t2t_vit_resnext_micro_patch2_8": (144_588, 17 * 64, 8 * 16, 145_804),
    "t2t_vit_ghost_micro_patch2_8": (127_148, 17 * 64, 8 * 16, 128_364),
    "t2t_vit_dn_equal_micro_patch2_8": (140_652, 17 * 48, 8 * 16, 141_596),
    "t2t_vit_ghost_equal_micro_patch2_8": (143_324, 17 * 76, 8 * 16, 144_744),
    "t2t_vit_dense_micro_patch2_8": (150_820, 17 * 32, 8 * 16, 151_492),
}
MODELS = {name: (t2t_vit, settings) for name, settings in T2T_VIT_MODELS.items()} | {
    name: (t2t_vit_dense, settings) for name, settings in T2T_VIT_DENSE_MODELS.items()
}
IDEAS = ["t2t_vit_7", "t2t_vit_t_14", "t2t_vit_14_se", "t2t_vit_14_ghost", "t2t_vit_14_dense"]


def small(name, **changes):
    """The model on a grid of two by three, with few blocks."""
    torch.manual_seed(0)
    make, settings = MODELS[name]
    shallow = {"depths": (1, 2)} if "depths" in settings else {"depth": 2}
    return make(**settings | shallow | {"image_size": (32, 48), "num_classes": 5} | changes)


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_and_frozen_numbers(name):
    make, settings = MODELS[name]
    with torch.device("meta"):
        model = make(**settings)
    learned, positions, features, total = COUNTS[name]
    assert count_parameters(model) == learned
    frozen = {path: buffer.numel() for path, buffer in model.named_buffers()}
    assert frozen.pop("position.table") == positions
    assert sum(frozen.values()) == features
    assert learned + positions + features == total


def test_no_entry_is_missing_from_the_counts():
    assert set(MODELS) == set(COUNTS)


@pytest.mark.parametrize(
    ("name", "grids"),
    [
        ("t2t_vit_t_12_patch4_32", [(16, 16), (8, 8)]),
        ("t2t_vit_t_12_patch8_64", [(32, 32), (16, 16), (8, 8)]),
        ("t2t_vit_mini_patch8_128", [(32, 32), (16, 16)]),
        ("t2t_vit_dense_mini_patch4_32", [(16, 16), (8, 8)]),
        ("t2t_vit_micro_patch2_8", [(8, 8), (4, 4)]),
    ],
)
def test_the_grids_of_small_images(name, grids):
    make, settings = MODELS[name]
    with torch.device("meta"):
        tokenizer = make(**settings).tokenizer
    assert (tokenizer.grids, tokenizer.patch_size) == (
        grids,
        settings["image_size"] // grids[-1][0],
    )


def test_every_norm_adds_what_the_papers_code_adds():
    for name in ("t2t_vit_t_14", "t2t_vit_14_dense"):
        norms = [m for m in small(name).modules() if isinstance(m, torch.nn.LayerNorm)]
        assert len(norms) > 8
        assert {norm.eps for norm in norms} == {1e-5}


@pytest.mark.parametrize("name", IDEAS)
@torch.no_grad()
def test_the_contract(name):
    model = small(name).eval()
    images = torch.randn(2, 3, 32, 48)
    assert (model.grid_size, model.num_prefix_tokens, model.patch_size) == ((2, 3), 1, 16)
    tokens = model.embed(images)
    assert torch.equal(tokens[:, 0], (model.prefix + model.position.table[:1]).expand(2, -1))
    patches = model.tokenizer(images) + model.position.table[1:]
    assert torch.equal(tokens[:, 1:], patches)
    features = model.features(images)
    assert features.shape == (2, 7, model.head.classifier.in_features)
    assert torch.equal(model(images), model.head(features))


@pytest.mark.parametrize("name", IDEAS)
def test_a_step_moves_every_parameter_and_no_buffer(name):
    model = small(name)
    before = {path: tensor.clone() for path, tensor in model.state_dict().items()}
    loss = F.cross_entropy(model(torch.randn(4, 3, 32, 48)), torch.tensor([0, 1, 2, 3]))
    loss.backward()
    torch.optim.AdamW(model.parameters(), 1e-2).step()
    after = model.state_dict()
    frozen = {path for path, _ in model.named_buffers()}
    assert {path for path in before if torch.equal(before[path], after[path])} == frozen


@pytest.mark.parametrize("name", IDEAS)
@torch.no_grad()
def test_capture_changes_no_bit_and_sees_every_attention(name):
    model = small(name).eval()
    images = torch.randn(1, 3, 32, 48)
    outside = model(images)
    with capture_attention(model) as maps:
        assert torch.equal(model(images), outside)
    paths = list(maps)
    assert paths[:2] == ["tokenizer.block1.core", "tokenizer.block2.core"]
    assert [maps[path].shape[-1] for path in paths[:2]] == [96, 24]
    encoder = [maps[path] for path in paths[2:]]
    assert len(encoder) == (3 if name == "t2t_vit_14_dense" else 2)
    assert all(each.shape[-2:] == (7, 7) for each in encoder)
    assert all(
        torch.allclose(m.sum(-1), torch.ones(m.shape[:-1]), atol=1e-5) for m in maps.values()
    )


def test_other_channels_and_classes():
    model = small("t2t_vit_7", channels=1, num_classes=2)
    assert model(torch.randn(1, 1, 32, 48)).shape == (1, 2)


@torch.no_grad()
def test_squeeze_excitation_gates_channels_by_the_images_mean():
    gate, tokens = SqueezeExcitation(32, 16), torch.randn(2, 5, 32)
    for b in range(2):
        hidden = (gate.squeeze.weight @ tokens[b].mean(0)).clamp(min=0)
        expected = tokens[b] / (1 + (-gate.excite.weight @ hidden).exp())
        assert torch.allclose(gate(tokens)[b], expected, atol=1e-6)
    layer = SqueezedSelfAttention(32, 2)
    plain = SelfAttention.forward(layer, tokens)
    assert torch.equal(layer(tokens), layer.gate(plain))


@torch.no_grad()
def test_ghost_attention_is_attention_whose_second_half_is_rescaled():
    layer, tokens = GhostSelfAttention(8, 4), torch.randn(2, 5, 8) * 20
    scale = layer.cheap.view(3, 4)
    thirds = layer.qkv.weight.view(3, 4, 8)
    plain = SelfAttention(8, 4, qkv_bias=False)
    whole = [part for w, s in zip(thirds, scale, strict=True) for part in (w, s[:, None] * w)]
    plain.qkv.weight.copy_(torch.cat(whole))
    plain.projection.load_state_dict(layer.projection.state_dict())
    assert torch.allclose(layer(tokens), plain(tokens), atol=1e-5)


@torch.no_grad()
def test_ghost_mlp_is_its_sum():
    layer, tokens = GhostMLP(4, 12), torch.randn(2, 5, 4)
    true = F.gelu(tokens @ layer.expand.weight.T + layer.expand.bias)
    ghosts = [F.gelu(true * layer.cheap[:4]), F.gelu(true * layer.cheap[4:])]
    assert torch.allclose(layer(tokens), layer.contract(torch.cat([true, *ghosts], -1)), atol=1e-6)


@torch.no_grad()
def test_the_dense_encoder_keeps_its_input_beside_what_it_finds():
    encoder = DenseEncoder(8, depths=(2,), growth=4, num_heads=2, mlp_ratio=2)
    first, second = encoder.blocks
    z = torch.randn(2, 5, 8)
    wider = torch.cat([z, first.growth(first.block(z))], -1)
    widest = torch.cat([wider, second.growth(second.block(wider))], -1)
    assert torch.allclose(encoder(z), encoder.norm(widest), atol=1e-6)


def test_the_papers_dense_widths():
    with torch.device("meta"):
        encoder = DenseEncoder(128, (3, 6, 6, 4), 64, num_heads=8, mlp_ratio=2)
    halved = [block[0].out_features for block in encoder.blocks if hasattr(block, "__getitem__")]
    assert halved == [160, 272, 328]
    assert encoder.out_width == 584


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GhostSelfAttention(9, 3), "width 9 is not divisible by 3 heads and by 2: use"),
        (lambda: GhostMLP(8, 20), "hidden width 20 is no multiple of width 8: use 16"),
        (lambda: SqueezeExcitation(8), "width 8 reduced by 16 leaves no channel: expected"),
        (lambda: small("t2t_vit_7", num_classes=0), "0 classes: expected at least 1"),
        (lambda: small("t2t_vit_7", image_size=2), "image 2x2 is too small"),
        (lambda: small("t2t_vit_14", num_heads=5), "width 384 is not divisible by 5 heads"),
        (lambda: small("t2t_vit_14_dense", growth=3), "width 65 is not divisible by 8 heads"),
    ],
)
def test_what_cannot_be(make, words):
    with pytest.raises(ValueError, match=words):
        make()
