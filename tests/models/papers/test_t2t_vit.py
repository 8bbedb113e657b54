from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from vitbook.layers import SelfAttention
from vitbook.layers.cnn_designs import (
    DenseEncoder,
    GhostMLP,
    GhostSelfAttention,
    SqueezedSelfAttention,
    SqueezeExcitation,
)
from vitbook.models.papers.t2t_vit import (
    T2T_VIT_DENSE_MODELS,
    T2T_VIT_MODELS,
    t2t_vit,
    t2t_vit_dense,
)
from vitbook.models.papers.vit import Body

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
}
PARAMETERS = {name: learned for name, (learned, *_) in COUNTS.items()}
MODELS = {name: (t2t_vit, settings) for name, settings in T2T_VIT_MODELS.items()} | {
    name: (t2t_vit_dense, settings) for name, settings in T2T_VIT_DENSE_MODELS.items()
}
IDEAS = ["t2t_vit_t_14", "t2t_vit_14_ghost", "t2t_vit_14_dense"]


def small(name, **changes):
    """The model on a grid of two by three, with few blocks."""
    torch.manual_seed(0)
    make, settings = MODELS[name]
    body = settings.get("body")
    shallow = {"body": replace(body, depth=2)} if body else {"depths": (1, 2)}
    return make(**settings | shallow | {"image_size": (32, 48), "num_classes": 5} | changes)


@pytest.mark.parametrize("name", COUNTS)
def test_frozen_numbers(name):
    make, settings = MODELS[name]
    with torch.device("meta"):
        model = make(**settings)
    learned, positions, features, total = COUNTS[name]
    frozen = {path: buffer.numel() for path, buffer in model.named_buffers()}
    assert frozen.pop("position.table") == positions
    assert sum(frozen.values()) == features
    assert learned + positions + features == total


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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GhostSelfAttention(9, 3), "width 9 is not divisible by 3 heads and by 2: use"),
        (lambda: GhostMLP(8, 20), "hidden width 20 is no multiple of width 8: use 16"),
        (lambda: small("t2t_vit_7", num_classes=0), "0 classes: expected at least 1"),
        (lambda: small("t2t_vit_7", image_size=2), "image 2x2 is too small"),
        (
            lambda: small("t2t_vit_14", body=Body(384, 2, num_heads=5, mlp_width=8)),
            "width 384 is not divisible by 5 heads",
        ),
        (lambda: small("t2t_vit_14_dense", growth=3), "width 65 is not divisible by 8 heads"),
    ],
)
def test_what_cannot_be(make, words):
    with pytest.raises(ValueError, match=words):
        make()
