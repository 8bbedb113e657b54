"""What became usual since 2021: parameters, and what each part does to the whole model."""

import pytest
import torch

import vitbook
from vitbook.analysis import capture_attention
from vitbook.devices import autocast
from vitbook.layers import MLP, RotaryPosition2D, SwiGLU
from vitbook.measure import count_macs

MINI, MICRO = 459_178, 136_138
# A mini's, or a micro's, MLP and SwiGLU: three matrices with their biases for two.
SWIGLU_MINI = 6 * ((3 * 96 * 128 + 2 * 128) - (2 * 96 * 192 + 192))
SWIGLU_MICRO = 4 * ((3 * 64 * 88 + 2 * 88) - (2 * 64 * 128 + 128))
PARAMETERS = {
    # A factor for each channel of either branch.
    "vit_layerscale_mini_patch4_32": MINI + 6 * 2 * 96,
    "vit_layerscale_micro_patch2_8": MICRO + 4 * 2 * 64,
    # A gain for queries, one for keys; heads are 16 wide.
    "vit_qknorm_mini_patch4_32": MINI + 6 * 2 * 16,
    "vit_qknorm_micro_patch2_8": MICRO + 4 * 2 * 16,
    "vit_swiglu_mini_patch4_32": MINI + SWIGLU_MINI,
    "vit_swiglu_micro_patch2_8": MICRO + SWIGLU_MICRO,
    # Thirteen biases of norms less, or nine.
    "vit_rmsnorm_mini_patch4_32": MINI - 13 * 96,
    "vit_rmsnorm_micro_patch2_8": MICRO - 9 * 64,
    "vit_patchdropout_mini_patch4_32": MINI,
    "vit_patchdropout_micro_patch2_8": MICRO,
    # No class token and no position for it.
    "vit_gap_mini_patch4_32": MINI - 2 * 96,
    # Four registers for a class token, no table; and the parts above.
    "vit_modern_mini_patch4_32": MINI + 3 * 96 - 65 * 96
    + 6 * 2 * 96 + 6 * 2 * 16 + SWIGLU_MINI - 13 * 96,
    "vit_modern_micro_patch2_8": MICRO + 3 * 64 - 17 * 64
    + 4 * 2 * 64 + 4 * 2 * 16 + SWIGLU_MICRO - 9 * 64,
}  # fmt: skip
KINDS = sorted({name.split("_")[1] for name in PARAMETERS})


def of_kind(kind):
    torch.manual_seed(0)
    return vitbook.create_model(f"vit_{kind}_micro_patch2_8").eval()


@pytest.mark.parametrize("kind", KINDS)
def test_attention_is_seen_and_bfloat16_answers_nearly_alike(kind):
    model, images = of_kind(kind), torch.randn(2, 1, 8, 8)
    whole = model(images)
    with capture_attention(model) as maps:
        assert torch.equal(model(images), whole)
    tokens = 16 + model.num_prefix_tokens
    assert [each.shape for each in maps.values()] == [(2, 4, tokens, tokens)] * 4
    with autocast(torch.device("cpu"), torch.bfloat16):
        rounded = model(images)
    assert (rounded - whole).abs().max() < 0.05
    half = model.to(torch.bfloat16)(images.to(torch.bfloat16))
    assert half.dtype == torch.bfloat16 and (half - whole).abs().max() < 0.05


def test_no_layer_norm_is_left_where_rms_norms_stand():
    for name in ("vit_rmsnorm_mini_patch4_32", "vit_modern_mini_patch4_32"):
        kinds = [type(part).__name__ for part in vitbook.create_model(name).modules()]
        assert kinds.count("LayerNorm") == 0 and kinds.count("RMSNorm") >= 13


def test_rms_norms_see_the_mean_that_layer_norms_take_out():
    shift = torch.ones(1, 1, 64)
    for kind, seen in (("rmsnorm", True), ("qknorm", False)):
        encoder, tokens = of_kind(kind).encoder, torch.randn(1, 5, 64)
        moved = (encoder(tokens + shift) - encoder(tokens)).abs().max()
        assert (moved > 1e-2) == seen


def test_half_of_the_patches_cost_about_half():
    with torch.device("meta"):
        model = vitbook.create_model("vit_patchdropout_mini_patch4_32")
        images = torch.empty(1, 3, 32, 32)
        whole, plain = count_macs(model.eval(), images), vitbook.create_model("vit_mini_patch4_32")
        assert whole == count_macs(plain.eval(), images)
    model = vitbook.create_model("vit_patchdropout_mini_patch4_32").train()
    seen = []
    hook = model.encoder.blocks[0].register_forward_pre_hook(lambda _, x: seen.append(x[0].shape))
    with torch.no_grad():
        model(torch.zeros(2, 3, 32, 32))
        model.eval()(torch.zeros(2, 3, 32, 32))
    hook.remove()
    assert seen == [(2, 33, 96), (2, 65, 96)]


def test_the_modern_model_has_all_its_parts():
    model = of_kind("modern")
    (position,) = {part for part in model.modules() if isinstance(part, RotaryPosition2D)}
    assert position.num_prefix_tokens == model.num_prefix_tokens == 4
    assert not any(isinstance(part, MLP) for part in model.modules())
    assert sum(isinstance(part, SwiGLU) for part in model.modules()) == 4
    assert {block.scale1.factor.unique().item() for block in model.encoder.blocks} == {
        torch.tensor(0.1).item()
    }
    tokens = model.features(torch.randn(2, 1, 8, 8)).detach().requires_grad_()
    model.head(tokens).sum().backward()
    assert not tokens.grad[:, :4].any() and (tokens.grad[:, 4:].abs().sum(-1) > 0).all()


def test_registers_of_the_modern_model_do_not_start_alike():
    registers = of_kind("modern").prefix
    assert torch.pdist(registers).min() > 0.05
