"""Swin, PVT v2, Hiera and plain pyramids: parameters, timm's logits, contracts, costs, refusals."""

import os
from functools import partial

import pytest
import timm
import torch
from timm.models.hiera import Hiera
from timm.models.pvt_v2 import PyramidVisionTransformerV2
from timm.models.swin_transformer import SwinTransformer

import vitbook
from vitbook.analysis import attention_rollout, capture_attention, token_grad_cam
from vitbook.blocks import list_blocks
from vitbook.devices import autocast
from vitbook.layers import NormedMeanHead
from vitbook.measure import count_macs
from vitbook.models.catalog import ModelSpec, create_again
from vitbook.models.papers.hiera import hiera
from vitbook.models.papers.pvt import pvt_v2
from vitbook.models.papers.pyramid import MINI_PYRAMIDS, doubling, pyramid_vit
from vitbook.models.papers.shrinking import by_convolution
from vitbook.models.papers.swin import swin
from vitbook.models.papers.vit import Body
from vitbook.models.weights.timm import load_timm


def stage(width, depth, mlp_width, qkv_bias=False):
    """Blocks of plain attention: matrices, their biases, norms."""
    block = 4 * width**2 + 2 * width * mlp_width + 6 * width + mlp_width
    return depth * (block + 3 * width * qkv_bias)


# Patches, places, last norm and head around the stages; the layers between them.
BODY = stage(64, 4, 130) + stage(128, 6, 260) + stage(256, 4, 520)
PYRAMID = BODY + 49 * 64 + 64 * 64 + 2 * 256 + 2570
WIDENINGS = 65 * 128 + 129 * 256
SWIN_BODY = stage(64, 4, 144, True) + stage(128, 6, 288, True) + stage(256, 4, 576, True)
SWIN_BIASES = 49 * (4 * 4 + 6 * 8) + 9 * 4 * 16  # windows of 4 x 4 twice, of 2 x 2 last
# As B. Yu's slides sketch it. A block has 12 d^2 weights and 13 d biases and gains.
SKETCHED = sum(3 * (12 * width**2 + 13 * width) for width in (64, 160, 400, 1024))
SHRINKS = sum(4 * a * b + b for a, b in ((64, 160), (160, 400), (400, 1024)))
MERGINGS = 2 * 256 + 256 * 128 + 2 * 512 + 512 * 256
PARAMETERS = {
    "pyramid_vit_linear_mini_patch4_32": PYRAMID + WIDENINGS + 64 * 16 + 16 * 4,
    "pyramid_vit_conv_mini_patch4_32": PYRAMID + 257 * 128 - 128 + 128 + 513 * 256 - 256 + 256,
    "pyramid_vit_mean_mini_patch4_32": PYRAMID + WIDENINGS,
    "vit_gap_mini_d14_patch4_32": stage(64, 14, 96) + 49 * 64 + 64 * 64 + 128 + 650,
    "swin_mini_patch4_window4_32": SWIN_BODY + SWIN_BIASES + MERGINGS + 51 * 64 + 512 + 2570,
    "pyramid_vit_conv_patch8_256": (
        SKETCHED + SHRINKS + (193 + 32 * 32) * 64 + 2 * 1024 + 1025 * 1000
    ),
    # timm's.
    "swin_tiny_patch4_window7_224": 28_288_354,
    "swin_small_patch4_window7_224": 49_606_258,
    "swin_base_patch4_window7_224": 87_768_224,
    "swin_base_patch4_window12_384": 87_903_584,
    "swin_large_patch4_window7_224": 196_532_476,
    "swin_large_patch4_window12_384": 196_735_516,
    "pvt_v2_b0": 3_666_760,
    "pvt_v2_b1": 14_009_000,
    "pvt_v2_b2": 25_362_856,
    "pvt_v2_b3": 45_238_696,
    "pvt_v2_b4": 62_556_072,
    "pvt_v2_b5": 81_956_008,
    "hiera_tiny_224": 27_910_216,
    "hiera_small_224": 35_008_072,
    "hiera_base_224": 51_524_968,
    "hiera_base_plus_224": 69_896_616,
    "hiera_large_224": 213_739_912,
    "hiera_huge_224": 672_779_752,
}
COMPARED = [name for name in PARAMETERS if "mini" in name] + ["vit_gap_mini_patch4_32"]

# Two shifted stages of three, not square; the last one's window is its grid.
SWIN_STAGES = doubling(Body(16, 2, num_heads=2, mlp_width=64), (2, 3, 2))
PVT_STAGES = (
    Body(16, 2, num_heads=1, mlp_width=128),
    Body(24, 1, num_heads=2, mlp_width=96),
    Body(40, 2, num_heads=5, mlp_width=80),
)


def our_swin(size=(32, 64), **changes):
    sizes = dict(image_size=size, patch_size=2, num_classes=5, stages=SWIN_STAGES, window_size=4)
    return swin(**sizes | changes).eval()


def timms_swin(size=(32, 64)):
    return SwinTransformer(
        img_size=size, patch_size=2, num_classes=5, embed_dim=16, depths=(2, 3, 2),
        num_heads=(2, 4, 8), window_size=4,
    )  # fmt: skip


def our_pvt(size=(32, 64), **changes):
    sizes = dict(image_size=size, patch_size=4, num_classes=5, stages=PVT_STAGES)
    return pvt_v2(**sizes | dict(reductions=(4, 2, 1)) | changes).eval()


def timms_pvt(_=None):
    return PyramidVisionTransformerV2(
        num_classes=5, depths=(2, 1, 2), embed_dims=(16, 24, 40), num_heads=(1, 2, 5),
        sr_ratios=(4, 2, 1), mlp_ratios=(8, 4, 2),
    )  # fmt: skip


HIERA_STAGES = doubling(Body(16, 2, num_heads=1, mlp_width=64), (2, 1, 2, 2))


def our_hiera(size=(32, 64), **changes):
    sizes = dict(image_size=size, patch_size=4, num_classes=5, stages=HIERA_STAGES)
    return hiera(**sizes | changes).eval()


def timms_hiera(size=(32, 64), **changes):
    sizes = dict(img_size=size, embed_dim=16, stages=(2, 1, 2, 2), num_classes=5)
    return Hiera(**sizes | changes)


def randomized(model):
    """No weight at zero or one, so that none can be left out unseen."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


PAIRS = {
    "swin": (our_swin, timms_swin),
    "pvt": (our_pvt, timms_pvt),
    "hiera": (our_hiera, timms_hiera),
}
EACH = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)


@EACH
@torch.no_grad()
def test_the_logits_are_timms(pair):
    ours, source = pair[0](), randomized(pair[1]())
    images = torch.randn(2, 3, 32, 64)
    logits = source(images)
    assert logits.std() > 0.05
    assert (load_timm(ours, source)(images) - logits).abs().max() < 1e-4


@EACH
def test_weights_of_another_depth_do_not_fit(pair):
    few = {
        our_swin: dict(stages=SWIN_STAGES[:2]),
        our_pvt: dict(stages=PVT_STAGES[:2], reductions=(4, 2)),
        our_hiera: dict(stages=HIERA_STAGES[:3]),
    }[pair[0]]
    with pytest.raises(ValueError, match="the weights of the timm model do not fit this model"):
        load_timm(pair[0](**few), pair[1]())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(num_heads=2), r"heads: \[2, 2, 4, 8, 8, 16, 16\] in the timm model"),
        (dict(mask_unit_size=(4, 4)), "tokens of a mask unit, block by block"),
        (dict(mask_unit_size=(4, 16)), r"the first mask unit: \[4, 16\] in the timm model"),
        (dict(mask_unit_attn=(True, True, True, False)), "tokens of a mask unit, block by block"),
        (dict(q_pool=2), "queries that become one"),
        (dict(patch_padding=(2, 2)), "zeros around the image"),
        (dict(global_pool="max"), "pooling of the last map"),
    ],
)
def test_a_hiera_that_computes_something_else_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        load_timm(our_hiera(), timms_hiera(**changes))


@EACH
@torch.no_grad()
def test_without_a_head_the_body_is_loaded_and_gives_the_mean(pair):
    source, images = randomized(pair[1]()), torch.randn(2, 3, 32, 64)
    source.reset_classifier(0)
    ours = pair[0]()
    kept = ours.head.classifier.weight.clone()
    load_timm(ours, source)
    assert torch.equal(ours.head.classifier.weight, kept)
    ours.head.classifier = torch.nn.Identity()
    assert torch.allclose(ours(images), source(images), atol=1e-4)


@torch.no_grad()
def test_of_no_classes_each_gives_what_its_head_would_classify():
    for name in ("swin_mini_patch4_window4_32", "pyramid_vit_mean_mini_patch4_32"):
        model = create_again(ModelSpec(name, 32, 0, 3)).eval()
        images = torch.randn(2, 3, 32, 32)
        assert torch.allclose(model(images), model.features(images).mean(1))
    body = vitbook.create_model("hiera_tiny_224", image_size=32, pool="mean")
    assert isinstance(body.head, NormedMeanHead)


# Of the largest, which take long, the parameters alone are compared.
MOST = 5e8 if os.environ.get("ALL") else 1e8


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, count in PARAMETERS.items()
        if "mini" not in name and "pyramid_vit" not in name and count < MOST
    ],
)
@torch.no_grad()
def test_the_logits_of_the_papers_sizes_are_timms(name, undrawn):
    source = randomized(timm.create_model(name, num_classes=1000))
    ours, size = undrawn(name), vitbook.models.default_image_size(name)
    images = torch.randn(1, 3, size, size)
    logits = source(images)
    error = (load_timm(ours, source)(images) - logits).abs().max()
    assert error < 1e-3 * logits.abs().max()


@EACH
@torch.no_grad()
def test_features_are_the_last_map_row_by_row(pair):
    source = randomized(pair[1]())
    ours, images = load_timm(pair[0](), source), torch.randn(2, 3, 32, 64)
    tokens = ours.features(images)
    step = {our_swin: 8, our_pvt: 16, our_hiera: 32}[pair[0]]
    assert (ours.grid_size, ours.patch_size) == ((32 // step, 64 // step), step)
    assert ours.num_prefix_tokens == 0
    theirs = source.forward_features(images)
    if pair[0] is not our_hiera:  # Swin's map has the channels last
        theirs = theirs.flatten(1, 2) if pair[0] is our_swin else theirs.flatten(2).mT
    assert torch.allclose(tokens, theirs, atol=1e-4)
    assert torch.equal(ours.features(images), ours.encoder(ours.embed(images)))
    assert torch.equal(ours(images), ours.head(tokens))


@torch.no_grad()
def test_swins_attention_is_seen_window_by_window():
    model, images = randomized(our_swin()), torch.randn(2, 3, 32, 64)
    whole = model(images)
    with capture_attention(model) as maps:
        assert torch.equal(model(images), whole)
    # Grids of 16 x 32, 8 x 16 and 4 x 8 in windows of 16 tokens.
    windows = [32] * 2 + [8] * 3 + [2] * 2
    heads = [2] * 2 + [4] * 3 + [8] * 2
    assert [found.shape for found in maps.values()] == [
        (2 * n, h, 16, 16) for n, h in zip(windows, heads, strict=True)
    ]
    assert all(torch.allclose(found.sum(-1), torch.ones(())) for found in maps.values())
    assert [bool((found == 0).any()) for found in maps.values()] == [0, 1, 0, 1, 0, 0, 1]


@torch.no_grad()
def test_hieras_attention_stays_in_mask_units_and_then_does_not():
    model, images = randomized(our_hiera()), torch.randn(2, 3, 32, 64)
    with capture_attention(model) as maps:
        model(images)
    # 8 x 16 tokens in two units of 8 x 8; 4 x 8 tokens in as many; then all of 2 x 4, and of 1 x 2.
    sizes = [(64, 64)] * 2 + [(16, 64), (4, 16), (8, 8), (2, 8), (2, 2)]
    units, heads = [4] * 4 + [2] * 3, [1, 1, 2, 4, 4, 8, 8]
    assert [tuple(found.shape) for found in maps.values()] == [
        (unit, head, *size) for unit, head, size in zip(units, heads, sizes, strict=True)
    ]


def test_what_needs_a_map_of_the_whole_grid_refuses_all():
    images = torch.randn(1, 3, 32, 64)
    for make in (our_swin, our_hiera):
        told = "axial and block-local attention, a row, a column or a block at a time"
        with pytest.raises(ValueError, match=told):
            attention_rollout(make(), images)
    with pytest.raises(ValueError, match="a map of 128 queries by 8 keys: expected tokens by"):
        attention_rollout(our_pvt(), images)


@EACH
def test_bfloat16_answers_nearly_alike(pair):
    model, images = pair[0](), torch.randn(2, 3, 32, 64)
    whole = model(images)
    with autocast(torch.device("cpu"), torch.bfloat16):
        assert (model(images) - whole).abs().max() < 0.05
    half = model.to(torch.bfloat16)(images.to(torch.bfloat16))
    assert half.dtype == torch.bfloat16 and (half - whole).abs().max() < 0.05


def test_what_is_compared_costs_the_same():
    with torch.device("meta"):
        images = torch.empty(1, 3, 32, 32)
        costs = [count_macs(vitbook.create_model(name).eval(), images) for name in COMPARED]
    assert max(costs) < 1.03 * min(costs)


def test_a_block_costs_the_same_in_every_stage_but_for_its_attention():
    """A quarter of the tokens, four times the weights: the rule of convolutional networks."""
    first, *later = MINI_PYRAMIDS["pyramid_vit_conv_mini_patch4_32"]["stages"]
    for number, body in enumerate(later, start=1):
        matrices = [4 * b.width**2 + 2 * b.width * b.mlp_width for b in (first, body)]
        assert matrices[0] * 64 == matrices[1] * 64 // 4**number


@pytest.mark.parametrize("name", MINI_PYRAMIDS)
@torch.no_grad()
def test_the_map_shrinks_and_widens(name):
    model, seen = vitbook.create_model(name).eval(), []
    for block in model.encoder.blocks:
        block.register_forward_hook(lambda _, __, out: seen.append(tuple(out.shape[1:])))
    images = torch.randn(2, 3, 32, 32)
    assert model(images).shape == (2, 10)
    assert seen == [(64, 64)] * 4 + [(16, 128)] * 6 + [(4, 256)] * 4
    assert (model.grid_size, model.patch_size, model.num_prefix_tokens) == ((2, 2), 16, 0)


@torch.no_grad()
def test_the_sketched_pyramid_goes_from_64_to_1024():
    model, seen = vitbook.create_model("pyramid_vit_conv_patch8_256").eval(), []
    for block in model.encoder.blocks[2::3]:
        block.register_forward_hook(lambda _, __, out: seen.append(tuple(out.shape[1:])))
    assert model(torch.randn(1, 3, 256, 256)).shape == (1, 1000)
    assert seen == [(1024, 64), (256, 160), (64, 400), (16, 1024)]


@torch.no_grad()
def test_what_shrinks_keeps_tokens_about_as_long():
    torch.manual_seed(0)
    for name in MINI_PYRAMIDS:
        shrink = vitbook.create_model(name).encoder.blocks[4].shrink
        lengths = shrink(torch.randn(8, 64, 64)).std()
        # The mean of four tokens that have nothing in common is half as long.
        assert lengths == pytest.approx(0.5 if "mean" in name else 1.0, rel=0.15)


@pytest.mark.parametrize("name", ["pvt_v2_b0", "hiera_tiny_224", *COMPARED])
def test_blocks_are_listed_in_their_order(name):
    with torch.device("meta"):
        model = vitbook.create_model(name)
    names = [f"encoder.blocks.{number}" for number in range(len(model.encoder.blocks))]
    assert list_blocks(model) == tuple(names)


def test_the_last_map_is_asked_where_it_looked():
    cams = token_grad_cam(our_swin(), torch.randn(2, 3, 32, 64))
    assert cams.shape == (2, 4, 8)


SMALL = dict(num_classes=3, channels=1, patch_size=1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: our_hiera(mask_unit=6), "mask units of 6: expected a multiple of 4 tokens"),
        (
            lambda: our_hiera(mask_unit=16),
            "a grid of 8x16 tokens .* mask units of 16x16: use images whose height is a multiple",
        ),
        (
            lambda: our_swin(window_size=3),
            "a grid of 16x32 tokens is not divisible into windows of 3x3: use images",
        ),
        (
            lambda: vitbook.create_model("swin_tiny_patch4_window7_224", image_size=256),
            "windows of 7x7: use images whose height is a multiple of 224 pixels and",
        ),
        (lambda: our_pvt(reductions=(3, 2, 1)), "8x16 tokens is not divisible by reduction 3: use"),
        (
            lambda: pyramid_vit(
                **SMALL, image_size=(4, 6), make_shrink=by_convolution,
                stages=doubling(Body(8, 1, num_heads=2, mlp_width=8), (1, 1, 1)),
            ),
            "a grid of 4x6 tokens, to be halved 2 times: expected sides that 4 divides",
        ),
        (lambda: our_swin(image_size=30), "a grid of 15x15 tokens, to be halved .* use images of"),
        *((partial(make, stages=()), "no stages: expected") for make in (our_swin, our_hiera)),
        (lambda: our_pvt(stages=(), reductions=()), "no stages: expected the sizes of at least"),
        (
            lambda: pyramid_vit(**SMALL, image_size=4, stages=(), make_shrink=by_convolution),
            "no stages",
        ),
        (lambda: our_pvt(reductions=(4, 2)), "2 reductions of 3 stages: expected one each"),
    ],
)  # fmt: skip
def test_sizes_that_cannot_be(make, words):
    with pytest.raises(ValueError, match=words):
        make()
