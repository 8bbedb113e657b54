import runpy
from functools import partial
from pathlib import Path

import mini_counts
import pytest
import torch

import vitbook
from vitbook.errors import UnknownNameError
from vitbook.layers import ClassTokenHead
from vitbook.measure import count_macs, count_parameters
from vitbook.models.papers.vit import Body, vit

# The published or counted numbers, to the last digit; patch 14 and 32 of the other sizes
# differ from patch 16 by the patch embedding and the positions alone (see the test below).
# T2T-ViT's fixed waves and random features are buffers: test_t2t_vit.py counts them too.
PARAMETERS = mini_counts.PARAMETERS | {
    "vit_tiny_patch14_224": 5_694_376,
    "vit_tiny_patch16_224": 5_717_416,
    "vit_tiny_patch32_224": 6_131_560,
    "vit_small_patch14_224": 22_004_584,
    "vit_small_patch16_224": 22_050_664,
    "vit_small_patch32_224": 22_878_952,
    "vit_base_patch14_224": 86_475_496,
    "vit_base_patch16_224": 86_567_656,
    "vit_base_patch32_224": 88_224_232,
    "vit_large_patch14_224": 304_203_752,
    "vit_large_patch16_224": 304_326_632,
    "vit_large_patch32_224": 306_535_400,
    "vit_huge_patch14_224": 632_045_800,
    "vit_huge_patch16_224": 632_199_400,
    "vit_huge_patch32_224": 634_960_360,
    "vit_halfbase_patch32_224": 22_878_952,
    "vit_small_patch14_dinov2": 22_825_192,
    "vit_base_patch14_dinov2": 88_116_712,
    "vit_large_patch14_dinov2": 306_416_616,
    "vit_postnorm_tiny_patch4_32": 2_692_042,
    "vit_tiny_patch4_32": 2_692_426,
    "vit_tiny_patch8_64": 2_756_744,
    "vit_tiny_patch8_128": 2_755_973,
    "vit_micro_patch2_8": 136_138,
    "vit_micro_d1_patch2_8": 136_138 - 3 * 33_472,
    "vit_micro_d8_patch2_8": 136_138 + 4 * 33_472,
    "vit_micro_d10_patch2_8": 136_138 + 6 * 33_472,
    "vit_micro_d13_patch2_8": 136_138 + 9 * 33_472,
    "vit_micro_d16_patch2_8": 136_138 + 12 * 33_472,
    # A block, then patches, class token, places, last norm and head.
    **{
        f"vit_micro_w{w}_patch2_8": 4 * (8 * w * w + 11 * w) + 5 * w + 18 * w + 2 * w + 10 * w + 10
        for w in (32, 92, 128)
    },
    **{f"vit_micro_mlp{m}_patch2_8": 136_138 + 4 * 129 * (m - 128) for m in (400, 960)},
    "vit_micro_patch1_8": 136_138 - 3 * 64 + 48 * 64,
    "vit_micro_patch4_8": 136_138 + 12 * 64 - 12 * 64,
    "vit_postnorm_micro_patch2_8": 136_138 - 2 * 64,
    "vit_nano_patch1_8": 17_088 + 64 + 32 + 65 * 32 + 64 + 330,  # two blocks, and the rest
    "vit_nano_patch2_8": 17_088 + 160 + 32 + 17 * 32 + 64 + 330,
    "vit_nano_patch4_8": 17_088 + 544 + 32 + 5 * 32 + 64 + 330,
    "vit_postnorm_nano_patch2_8": 17_088 + 160 + 32 + 17 * 32 + 330,
    "vit_nopos_nano_patch2_8": 17_088 + 160 + 32 + 64 + 330,
    "vit_nopos_tiny_patch4_32": 2_679_946,  # less 65 x 192
    "vit_pos2d_tiny_patch4_32": 2_681_674,  # and then (8 + 8) x 96 + 192
    "vit_sinusoid_tiny_patch4_32": 2_679_946,
    "vit_sinusoid2d_tiny_patch4_32": 2_679_946,
    "vit_overlap_tiny_patch4_32": 2_720_074,  # 192 x 3 x (8 x 8 - 4 x 4) more
    "vit_layerpos_tiny_patch4_32": 2_792_266,  # 9 x 65 x 192 on none
    "vit_layerpos2d_tiny_patch4_32": 2_695_498,
    "vit_sharedpos_tiny_patch4_32": 2_692_426,
    "vit_sharedpos2d_tiny_patch4_32": 2_681_674,
    "vit_relpos_tiny_patch4_32": 2_698_666,  # 9 x (127 + 3) x 16 on none
    "vit_relpos2d_tiny_patch4_32": 2_684_698,  # 9 x (15 + 15 + 3) x 16 on none
    "vit_rope_tiny_patch4_32": 2_679_946,  # nothing to learn
    "vit_rope_mini_patch4_32": 459_178 - 65 * 96,
    "vit_rope_micro_patch2_8": 135_050,
    "vit_rope_micro_patch1_8": 134_858,
    "vit_pos2d_micro_patch1_8": 134_858 + (8 + 8) * 32 + 64,
    "vit_sinusoid2d_micro_patch1_8": 134_858,
    "vit_relpos2d_micro_patch1_8": 134_858 + 4 * (15 + 15 + 3) * 16,
    "vit_nopos_micro_patch2_8": 135_050,  # less 17 x 64
    "vit_nopos_micro_patch1_8": 134_858,
    "vit_nopos_micro_patch4_8": 135_818,
    "vit_pos2d_micro_patch2_8": 135_370,  # and then (4 + 4) x 32 + 64
    "vit_sinusoid_micro_patch2_8": 135_050,
    "vit_sinusoid2d_micro_patch2_8": 135_050,
    "vit_overlap_nopos_tiny_patch4_32": 2_720_074 - 65 * 192,
    "vit_overlap_nopos_micro_patch2_8": 136_906 - 17 * 64,
    "vit_overlap_wrapped_nopos_tiny_patch4_32": 2_720_074 - 65 * 192,
    "vit_overlap_wrapped_nopos_micro_patch2_8": 136_906 - 17 * 64,
    "vit_overlap_micro_patch2_8": 136_906,  # 64 x (4 x 4 - 2 x 2) more
    "vit_layerpos_micro_patch2_8": 139_402,  # 4 x 17 x 64 on none
    "vit_layerpos2d_micro_patch2_8": 136_330,
    "vit_sharedpos_micro_patch2_8": 136_138,
    "vit_sharedpos2d_micro_patch2_8": 135_370,
    "vit_relpos_micro_patch2_8": 137_226,  # 4 x (31 + 3) x 16 on none
    "vit_relpos2d_micro_patch2_8": 136_138,  # 4 x (7 + 7 + 3) x 16 on none
    "vit_gap_micro_patch2_8": 136_138 - 2 * 64,  # no class token and no place for it
    "vit_gap_micro_patch1_8": 136_138 - 2 * 64 - 3 * 64 + 48 * 64,
    "sl_vit_tiny_patch4_32": 2_729_878,
    "sl_vit_tiny_patch8_64": 2_906_228,
    "sl_vit_tiny_patch8_128": 2_755_973 + (2 * 960 + 768 * 192) + 9 * 12,
    "spt_vit_tiny_patch4_32": 2_729_770,
    "lsa_vit_tiny_patch4_32": 2_692_534,
    "spt_vit_tiny_patch8_64": 2_756_744 + (2 * 960 + 768 * 192),
    "lsa_vit_tiny_patch8_64": 2_756_744 + 9 * 12,
    "sl_vit_micro_patch2_8": 137_218,
    "spt_vit_micro_patch2_8": 137_202,
    "spt_vit_micro_zero_patch2_8": 137_202,
    "lsa_vit_micro_patch2_8": 136_154,
    "rot_vit_tiny_patch4_32": 2_711_146,
    "rot_vit_tiny_patch8_64": 2_831_624,
    "rot_vit_tiny_patch8_128": 2_830_853,
    "rot_vit_micro_patch2_8": 136_674,
    "rot_vit_micro_batch_patch2_8": 136_674,
    "rot_vit_micro_fixed_patch2_8": 136_674,
    "rot_vit_micro_border_patch2_8": 136_674,
    "rot_vit_micro_zero_patch2_8": 136_674,
    "rot_vit_micro_no_norm_patch2_8": 136_674 - 2 * 12,
    "rot_vit_micro_zero_no_norm_patch2_8": 136_674 - 2 * 12,
    "rot_vit_micro_no_class_patch2_8": 136_674 - 2 * 64,  # no token, no place for it
    "rot_vit_micro_r4_patch2_8": 136_138 + 2 * 20 + 16 * 64,
    "deit_tiny_distilled_patch16_224": 5_910_800,
    "deit_small_distilled_patch16_224": 22_436_432,
    "deit_base_distilled_patch16_224": 87_338_192,
    "deit_tiny_distilled_patch4_32": 2_694_740,
    # A second token with its place and its head; then patches of one pixel, 64 of them.
    "deit_micro_distilled_patch2_8": 136_138 + 64 + 64 + 650,
    "deit_micro_distilled_patch1_8": 136_138 + 64 + 64 + 650 - 3 * 64 + 48 * 64,
    # The small body and 2 matrices of 16 x 65 in each of 9 layers.
    "linformer_vit_tiny_patch4_32": 2_692_426 + 9 * 2 * 16 * 65,
    "linformer_vit_micro_patch2_8": 136_138 + 4 * 2 * 8 * 17,
    "linformer_vit_micro_k4_patch2_8": 136_138 + 4 * 2 * 4 * 17,
    "linformer_vit_micro_shared_patch2_8": 136_138 + 8 * 17,
    # Random features are buffers.
    "performer_vit_tiny_patch4_32": 2_692_426,
    "performer_vit_micro_patch2_8": 136_138,
    "performer_vit_micro_m8_patch2_8": 136_138,
    # No class token and no place for it; a second set of blocks (296,448 and 33,472 each).
    "axial_vit_tiny_patch4_32": 2_692_426 - 2 * 192 + 9 * 296_448,
    "axial_vit_micro_patch2_8": 136_138 - 2 * 64 + 4 * 33_472,
    # A kernel of 1 instead of 4 pixels, 64 places instead of 16.
    "axial_vit_micro_patch1_8": 136_138 - 2 * 64 + 4 * 33_472 - 3 * 64 + 48 * 64,
    "block_local_vit_tiny_patch4_32": 2_692_426 - 2 * 192,
    "block_local_vit_micro_patch2_8": 136_138 - 2 * 64,
    "block_local_vit_micro_patch1_8": 136_138 - 2 * 64 - 3 * 64 + 48 * 64,
    # The micro body on pixels: causal attention and a head on the mean have the same weights.
    "igpt_micro_patch1_8": 136_138 - 3 * 64 + 48 * 64,
    # T2T-ViT-12's blocks, last norm and class token; the head; token blocks; the projection.
    "t2t_vit_t_12_patch8_64": 12 * 526_336 + 768 + 51_400 + 17_846 + 124_352 + 147_712,
    "t2t_vit_micro_patch2_8": 4 * 33_280 + 192 + 650 + 1346 + 9280,
    "t2t_vit_t_micro_patch2_8": 4 * 33_280 + 192 + 650 + 1298 + 9280,
    "t2t_vit_even_micro_patch2_8": 4 * 33_280 + 192 + 650 + 1026 + 9280,
    "t2t_vit_mlp_micro_patch2_8": 4 * 33_280 + 192 + 650 + 1026 - (16 * 16 + 16) + 9280,
    "t2t_vit_bare_micro_patch2_8": 4 * 33_280 + 192 + 650 + (9 * 16 + 16) + 9280,
    # Queries and keys, with their biases, are missing in two layers or in three.
    "vit_reuse_half_micro_patch2_8": 136_138 - 2 * 2 * (64 * 64 + 64),
    "vit_even_half_micro_patch2_8": 136_138 - 2 * 2 * (64 * 64 + 64),
    "vit_reuse_rest_micro_patch2_8": 136_138 - 3 * 2 * (64 * 64 + 64),
    "vit_even_rest_micro_patch2_8": 136_138 - 3 * 2 * (64 * 64 + 64),
    # The micro body on 64 tokens without its class token; the table, or the convolution.
    "shrinking_vit_mean_micro_patch1_8": 138_890,
    "shrinking_vit_linear_micro_patch1_8": 138_890 + 64 * 16,
    "shrinking_vit_placed_micro_patch1_8": 138_890 + 64 * 16 + 16 * 64,
    "shrinking_vit_conv_micro_patch1_8": 138_890 + 4 * 64 * 64 + 64,
    # Patches, places; blocks of width 52, then of 104; a convolution; the last norm, the head.
    "shrinking_vit_pyramid_micro_patch1_8": 104
    + 64 * 52
    + 2 * (4 * 52 * 52 + 4 * 52 + 2 * 52 * 96 + 96 + 52 + 4 * 52)
    + 2 * (4 * 104 * 104 + 4 * 104 + 2 * 104 * 192 + 192 + 104 + 4 * 104)
    + 4 * 52 * 104
    + 104
    + 208
    + 1050,
    "vit_base_r50_s16_224": 98_659_112,
    "vit_base_r50_s16_384": 98_950_952,
    # The micro body without its patches' 320; the first convolution, two stages, the projection.
    "vit_micro_r8_s2_8": 135_818 + 352 + 19_072 + 95_488 + 16_448,
    "vit_micro_r14_s2_8": 135_818 + 352 + 19_072 + 17_792 + 95_488 + 70_400 + 16_448,
    # 48 places more; the paper's first convolution with 64 channels, a block, the projection.
    "vit_micro_r5_s4_32": 135_818 + 48 * 64 + 3264 + 75_008 + 16_448,
    "bit_resnet50x1": 25_549_352,
    "bit_resnet50x3": 217_319_080,
    "bit_resnet101x1": 44_541_480,
    "bit_resnet101x3": 387_934_888,
    "bit_resnet152x2": 236_335_208,
    "bit_resnet152x4": 936_533_224,
    # Stem; two blocks; the second stage's two; last norm and head.
    "bit_resnet8x1_digits": 3136 + 74_112 + 70_400 + 512 + 2570,
    "bit_resnet14x1_digits": 3136 + 74_112 + 70_400 + 377_856 + 280_064 + 1024 + 5130,
    "resnet8_digits": 75_002,
    # Kernels at 64, 16 and 4 places; the norms and the head, 1,130, stay.
    "resnet8_unshared_digits": 64 * (9 + 2 * 144) * 16 + 16 * 432 * 32 + 4 * 864 * 64 + 1_130,
    "resnet20_digits": 269_434,
    # Gates of 64 -> 4 -> 64; half of queries, keys, values and of the MLP's hidden layer.
    "vit_se_micro_patch2_8": 136_138 + 4 * 2 * 64 * 4,
    "vit_resnext_micro_patch2_8": 136_138,
    "vit_ghost_micro_patch2_8": 136_138 - 4 * (96 * 65 - 96) - 4 * (64 * 65 - 64),
    # At the plain micro's cost. Patches, class token, places, last norm and head are 35 widths and
    # 10; a block's weights, its norms and its biases.
    "vit_dn_equal_micro_patch2_8": 35 * 48 + 10 + 7 * (4 * 48**2 + 2 * 48 * 96 + 9 * 48 + 96),
    "vit_sw_equal_micro_patch2_8": 35 * 80 + 10 + 2 * (4 * 80**2 + 2 * 80 * 260 + 9 * 80 + 260),
    "vit_ghost_equal_micro_patch2_8": 35 * 76
    + 10
    + 4 * (4 * 76**2 + 2 * 76 * 152 + 9 * 76 + 152 - 114 * 76 - 76 * 76),
    "t2t_vit_dn_equal_micro_patch2_8": 140_652,  # test_t2t_vit counts the parts
    "t2t_vit_ghost_equal_micro_patch2_8": 143_324,
    # Patches, class token, places, last norm and head; blocks of 4 x 32^2 + 2 x 32 x 64 weights.
    "vit_dn_micro_patch2_8": 160 + 32 + 17 * 32 + 64 + 330 + 8 * (8192 + 128 + 128 + 96),
    "resnet20": 269_722,
    "resnet56": 853_018,
    "resnet110": 1_727_962,
}

# A paper's own test file may have the counts of its models.
for file in Path(__file__).parent.glob("papers/test_*.py"):
    PARAMETERS |= runpy.run_path(str(file)).get("PARAMETERS", {})


def on_meta(name, **changes):
    with torch.device("meta"):
        return vitbook.create_model(name, **changes)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name):
    assert count_parameters(on_meta(name)) == PARAMETERS[name]


def test_no_entry_is_missing_from_the_counts():
    assert set(vitbook.list_models()) == set(PARAMETERS)


def test_the_contract():
    model = vitbook.create_model("vit_tiny_patch4_32", image_size=(16, 24), num_classes=7).eval()
    images = torch.randn(2, 3, 16, 24)
    assert model.grid_size == (4, 6)
    assert (model.num_prefix_tokens, model.patch_size) == (1, 4)
    tokens = model.embed(images)
    assert tokens.shape == (2, 25, 192)
    assert torch.equal(tokens[:, 0], (model.prefix + model.position.table[:1]).expand(2, -1))
    assert torch.equal(model.features(images), model.encoder(tokens))
    assert torch.equal(model(images), model.head(model.features(images)))
    assert model.spec == vitbook.models.ModelSpec("vit_tiny_patch4_32", (16, 24), 7, 3)


def test_a_causal_model_answers_by_what_has_seen_the_image():
    asked = vitbook.create_model("igpt_micro_patch1_8", pool="mean").spec
    assert asked.pool == "mean"
    for pool in ("class", "class_and_mean"):
        with pytest.raises(ValueError, match=f'pool "{pool}": its class token .* sees no pixel'):
            vitbook.create_model("igpt_micro_patch1_8", pool=pool)


def test_the_pretraining_head():
    sizes = dict(image_size=8, patch_size=4, num_classes=2, body=Body(8, 1, 2, mlp_width=8))
    plain, hidden = (
        count_parameters(vit(**sizes, make_head=head))
        for head in (ClassTokenHead, partial(ClassTokenHead, hidden_width=8))
    )
    assert hidden - plain == 8 * 8 + 8


def test_an_unknown_model():
    with pytest.raises(UnknownNameError, match="unknown model 'vit_tiny_patch16'.*did you mean"):
        vitbook.create_model("vit_tiny_patch16")
    with pytest.raises(UnknownNameError, match="known: .*vit_base"):
        vitbook.create_model("zzz")


@pytest.mark.parametrize(
    ("images", "error", "words"),
    [
        (torch.zeros(2, 1, 32, 32), ValueError, "images have 1 channels, the model takes 3"),
        (torch.zeros(2, 3, 32, 36), ValueError, "image 32x36, but the model takes 32x32"),
        (torch.zeros(3, 32, 32), ValueError, r"shape \(3, 32, 32\): expected \(batch"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.uint8), TypeError, "images are uint8: expected"),
    ],
)
def test_images_that_the_model_cannot_take(images, error, words, plain_vitbook):
    plain_vitbook(
        f"""
        import pytest, torch, vitbook
        model = vitbook.create_model("vit_tiny_patch4_32")
        images = torch.zeros({tuple(images.shape)}, dtype={images.dtype})
        with pytest.raises({error.__name__}, match={words!r}):
            model(images)
        """
    )


@pytest.mark.parametrize("change", [dict(num_classes=0), dict(channels=0), dict(image_size=30)])
def test_sizes_that_cannot_be(change):
    with pytest.raises(ValueError, match=r"0 (classes|channels): expected|not divisible by patch"):
        vitbook.create_model("vit_tiny_patch4_32", **change)


@pytest.mark.parametrize(
    ("times", "changed"),
    [
        (0.25, ("d1_patch2", "w32_patch2", "patch4")),
        (2, ("d8_patch2", "w92_patch2", "mlp400_patch2")),
        (4, ("d16_patch2", "w128_patch2", "mlp960_patch2", "patch1")),
    ],
)
def test_neighbours_of_the_micro_cost_alike(times, changed):
    def cost(name):
        with torch.device("meta"):
            return count_macs(vitbook.create_model(name).eval(), torch.empty(1, 1, 8, 8))

    micro = cost("vit_micro_patch2_8")
    costs = [cost(f"vit_micro_{name}_8") / micro for name in changed]
    # A patch of 1 px makes 65 tokens of 17, and their attention costs more than four times as much.
    assert costs == pytest.approx([times] * len(changed), rel=0.14)
