"""Parameters of the mini and of all that it is compared with, as sums that can be followed."""

# Weights, norms and biases of one of the mini's six blocks; of one half as wide, one and a half
# times, or twice (the tiny's).
BLOCK = 4 * 96**2 + 2 * 96 * 192 + 4 * 96 + 96 + 192 + 96
NARROW = 4 * 48**2 + 2 * 48 * 96 + 4 * 48 + 48 + 96 + 48
WIDER = 4 * 144**2 + 2 * 144 * 288 + 4 * 144 + 144 + 288 + 144
BROAD = 296_448
# Patches, class token, places, last norm and head.
AROUND_NARROW = 49 * 48 + 48 + 65 * 48 + 96 + 490
# Patches of 192 numbers and not 48; then 256 places and not 64. The head's classes.
MINI_32 = 459_178
MINI_64 = MINI_32 + 144 * 96 + 97 * 190
MINI_128 = MINI_32 + 144 * 96 + 192 * 96 - 97 * 5

# A token twice with its norm: five copies of an image, or three. One temperature a head.
SPT_4, SPT_8 = 2 * 240 + 192 * 96, 2 * 960 + 768 * 96
RPT_4, RPT_8 = 2 * 144 + 96 * 96, 2 * 576 + 384 * 96
LSA = 6 * 6
# Half of queries, keys, values and of the MLP's hidden layer; gates of 96 -> 6 -> 96.
GHOST = -(144 * 96 - 144) - (96 * 97 - 96)
GATE = 2 * 96 * 6

# T2T: blocks, class token, last norm, projection; token blocks that read 27, 216 or 147 numbers.
T2T_BODY = 6 * BLOCK + 96 + 192 + 217 * 96
READS_27, READS_216, READS_147 = (2 * n + (n + 1) * 72 + 600 + 48 + 1200 for n in (27, 216, 147))
T2T_32 = T2T_BODY + 970 + READS_27
T2T_64 = T2T_BODY + 97 * 200 + READS_27 + READS_216
T2T_128 = T2T_BODY + 97 * 5 + READS_147

# SW: three blocks 128 wide, and what is around them.
SW_32 = 3 * (4 * 128**2 + 2 * 128 * 320 + 4 * 128 + 128 + 320 + 128) + (
    49 * 128 + 128 + 65 * 128 + 256 + 1290
)


def dense(widths: tuple[int, ...], halved: tuple[int, ...], growth: int, ratio: int) -> int:
    """Blocks of these widths with their growths, and the transitions to half of a width."""
    blocks = sum((4 + 2 * ratio) * w * w + (6 + ratio) * w + (w + 1) * growth for w in widths)
    return blocks + sum((2 * half + 1) * half for half in halved)


DENSE_32 = dense(
    (24, 36, 24, 36, 48, 60, 36, 48, 60, 36, 48, 60, 72, 84), (24, 36, 36), growth=12, ratio=4
) + (49 * 24 + 24 + 65 * 24 + 192 + 970)
T2T_DENSE = dense((32, 32, 64, 96, 64, 96, 128, 80), (32, 64, 80), growth=32, ratio=2)
T2T_DENSE_MICRO = dense((32, 32, 64, 48, 40, 72), (32, 48, 40), growth=32, ratio=2)

# The hybrids' first convolution, two stages of two blocks, and the projection.
CONV = 3 * 49 * 32 + 64
STAGE_1, STAGE_2 = 19_072 + 17_792, 95_488 + 70_400

PARAMETERS = {
    "vit_mini_patch4_32": MINI_32,
    "vit_mini_patch8_64": MINI_64,
    "vit_mini_patch8_128": MINI_128,
    "vit_mini_d2_patch4_32": MINI_32 - 4 * BLOCK,
    "vit_mini_d3_patch4_32": MINI_32 - 3 * BLOCK,
    "vit_mini_d12_patch4_32": MINI_32 + 6 * BLOCK,
    "vit_mini_d24_patch4_32": MINI_32 + 18 * BLOCK,
    "vit_mini_w48_patch4_32": 6 * NARROW + AROUND_NARROW,
    "vit_mini_w144_patch4_32": 6 * WIDER + 49 * 144 + 144 + 65 * 144 + 288 + 1450,
    "vit_mini_mlp640_patch4_32": MINI_32 + 6 * 448 * (96 + 96 + 1),
    "vit_mini_mlp1536_patch4_32": MINI_32 + 6 * 1344 * (96 + 96 + 1),
    "vit_mini_w192_patch4_32": 2_692_426 - 3 * BROAD,  # the tiny with six of nine layers
    "vit_postnorm_mini_patch4_32": MINI_32 - 2 * 96,  # no last norm
    "vit_mini_patch2_32": MINI_32 - 36 * 96 + 192 * 96,
    "vit_mini_patch8_32": MINI_32 + 144 * 96 - 48 * 96,
    # No table; rows and columns of half a token; six layers of offsets and the class token's three.
    "vit_nopos_mini_patch4_32": MINI_32 - 65 * 96,
    "vit_pos2d_mini_patch4_32": MINI_32 - 64 * 96 + 16 * 48,
    "vit_sinusoid2d_mini_patch4_32": MINI_32 - 65 * 96,
    "vit_relpos2d_mini_patch4_32": MINI_32 - 65 * 96 + 6 * (15 + 15 + 3) * 16,
    "sl_vit_mini_patch4_32": MINI_32 + SPT_4 + LSA,
    "sl_vit_mini_no_norm_patch4_32": MINI_32 + SPT_4 + LSA - 2 * 240,
    "sl_vit_mini_patch8_64": MINI_64 + SPT_8 + LSA,
    "sl_vit_mini_patch8_128": MINI_128 + SPT_8 + LSA,
    "spt_vit_mini_patch4_32": MINI_32 + SPT_4,
    "spt_vit_mini_patch8_64": MINI_64 + SPT_8,
    "spt_vit_mini_patch8_128": MINI_128 + SPT_8,
    "lsa_vit_mini_patch4_32": MINI_32 + LSA,
    "lsa_vit_mini_patch8_64": MINI_64 + LSA,
    "lsa_vit_mini_patch8_128": MINI_128 + LSA,
    "performer_vit_mini_patch4_32": MINI_32,
    "vit_overlap_mini_patch4_32": MINI_32 + 3 * (8**2 - 4**2) * 96,
    "rot_vit_mini_patch4_32": MINI_32 + RPT_4,
    "rot_vit_mini_zero_patch4_32": MINI_32 + RPT_4,
    "rot_vit_mini_fixed_patch4_32": MINI_32 + RPT_4,
    "rot_vit_mini_border_patch4_32": MINI_32 + RPT_4,
    "rot_vit_mini_no_norm_patch4_32": MINI_32 + RPT_4 - 2 * 144,
    "rot_vit_mini_zero_no_norm_patch4_32": MINI_32 + RPT_4 - 2 * 144,
    "rot_vit_mini_patch8_64": MINI_64 + RPT_8,
    "rot_vit_mini_patch8_128": MINI_128 + RPT_8,
    # A second token with its place and its head.
    "deit_mini_distilled_patch4_32": MINI_32 + 96 + 96 + 970,
    "deit_mini_distilled_patch8_64": MINI_64 + 96 + 96 + 97 * 200,
    "deit_mini_distilled_patch8_128": MINI_128 + 96 + 96 + 97 * 5,
    "t2t_vit_mini_patch4_32": T2T_32,
    "t2t_vit_mini_patch8_64": T2T_64,
    "t2t_vit_mini_patch8_128": T2T_128,
    "t2t_vit_t_mini_patch4_32": T2T_32 - 72,  # no bias
    "t2t_vit_t_mini_patch8_64": T2T_64 - 2 * 72,
    "t2t_vit_t_mini_patch8_128": T2T_128 - 72,
    "t2t_vit_wide_mini_patch4_32": 2 * BROAD + 192 + 384 + 217 * 192 + 1930 + READS_27,
    "t2t_vit_se_mini_patch4_32": T2T_32 + 6 * GATE,
    "t2t_vit_resnext_mini_patch4_32": T2T_32,
    "t2t_vit_ghost_mini_patch4_32": T2T_32 + BLOCK + 7 * GHOST,
    "t2t_vit_dense_mini_patch4_32": T2T_DENSE + 32 + 224 + 217 * 32 + 1130 + READS_27,
    # The micro's token block has 1346.
    "t2t_vit_wide_micro_patch2_8": 8 * 128 * 129 + 128 + 256 + 145 * 128 + 1290 + 1346,
    "t2t_vit_se_micro_patch2_8": 144_588 + 4 * 2 * 64 * 4,
    "t2t_vit_resnext_micro_patch2_8": 144_588,
    "t2t_vit_ghost_micro_patch2_8": 144_588 + 33_280 - 5 * (96 * 64 - 96) - 5 * (64 * 65 - 64),
    "t2t_vit_dense_micro_patch2_8": T2T_DENSE_MICRO + 32 + 208 + 145 * 32 + 1050 + 1346,
    "vit_mini_r8_s4_32": MINI_32 - 49 * 96 + CONV + STAGE_1 + 129 * 96,
    "vit_mini_r14_s8_64": MINI_64 - 193 * 96 + CONV + STAGE_1 + STAGE_2 + 257 * 96,
    "vit_mini_r14_s8_128": MINI_128 - 193 * 96 + CONV + STAGE_1 + STAGE_2 + 257 * 96,
    "vit_dn_mini_patch4_32": 12 * NARROW + AROUND_NARROW,
    "vit_dn_mini_patch8_64": 12 * NARROW + AROUND_NARROW + 144 * 48 + 49 * 190,
    "vit_dn_mini_patch8_128": 12 * NARROW + AROUND_NARROW + 144 * 48 + 192 * 48 - 49 * 5,
    "vit_sw_mini_patch4_32": SW_32,
    "vit_sw_mini_patch8_64": SW_32 + 144 * 128 + 129 * 190,
    "vit_sw_mini_patch8_128": SW_32 + 144 * 128 + 192 * 128 - 129 * 5,
    "vit_dense_mini_patch4_32": DENSE_32,
    "vit_dense_mini_patch8_64": DENSE_32 + 144 * 24 + 97 * 190,
    "vit_dense_mini_patch8_128": DENSE_32 + 144 * 24 + 192 * 24 - 97 * 5,
    "vit_se_mini_patch4_32": MINI_32 + 6 * GATE,
    "vit_se_mini_patch8_64": MINI_64 + 6 * GATE,
    "vit_se_mini_patch8_128": MINI_128 + 6 * GATE,
    "vit_resnext_mini_patch4_32": MINI_32,
    "vit_resnext_mini_patch8_64": MINI_64,
    "vit_resnext_mini_patch8_128": MINI_128,
    "vit_ghost_mini_patch4_32": MINI_32 + 6 * GHOST,
    # Patches, class token, places, last norm and head are 127 widths and 10.
    "vit_dn_equal_mini_patch4_32": 12 * (4 * 64**2 + 2 * 64 * 144 + 6 * 64 + 144) + 127 * 64 + 10,
    "vit_ghost_equal_mini_patch4_32": 6 * (4 * 112**2 + 2 * 112 * 224 + 6 * 112 + 224)
    - 6 * (168 * 112 - 168 + 112 * 113 - 112)
    + (127 * 112 + 10),
    "vit_ghost_mini_patch8_64": MINI_64 + 6 * GHOST,
    "vit_ghost_mini_patch8_128": MINI_128 + 6 * GHOST,
    # Two blocks 80 wide, with a bias of queries, keys and values; then Dense on the micro.
    "vit_sw_micro_patch2_8": 2 * (4 * 80**2 + 2 * 80 * 240 + 4 * 80 + 240 + 80 + 240 + 80)
    + (5 * 80 + 80 + 17 * 80 + 160 + 810),
    "vit_dense_micro_patch2_8": dense(
        (24, 36, 24, 36, 24, 36, 24, 36, 48), (24, 24, 24), growth=12, ratio=4
    )
    + (5 * 24 + 24 + 17 * 24 + 120 + 610),
    # A stem of 7x7 and not 3x3, and the head's classes.
    "resnet20_64": 269_722 + 16 * 3 * (49 - 9) + 65 * 190,
    "resnet20_128": 269_722 + 16 * 3 * (49 - 9) - 65 * 5,
}
