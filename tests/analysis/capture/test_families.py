"""Families of Transformers that are not ours: each captured whole and right, or refused by name."""

import pytest
import timm
import torch
import torchvision
import transformers
from einops import rearrange

from vitbook.analysis.capture.record import record_attention

WHY = {
    "folded": "folds its heads into the batch in an order that is not known",
    "channels": "mixes channels and not tokens",
    "after": "changes its weights after the softmax or mixes no tokens",
    "unknown": "is called an attention, but none was seen in it",
}
# Name in timm -> side of the image, and what is refused in it, or how many attentions are seen.
TIMM = {
    "vit_tiny_patch16_224": (64, 12),
    "deit_tiny_distilled_patch16_224": (64, 12),
    "deit3_small_patch16_224": (64, 12),
    "beit_base_patch16_224": (64, 12),
    "eva02_tiny_patch14_224": (56, 12),
    "vit_small_patch14_reg4_dinov2": (56, 12),
    "vit_small_patch16_dinov3": (64, 12),
    "vit_xsmall_patch16_clip_224": (64, 10),
    "vit_base_patch16_siglip_224": (64, 13),  # the head pools by attention
    "vit_relpos_small_patch16_224": (64, 12),
    "pit_ti_224": (None, 12),
    "swin_tiny_patch4_window7_224": (None, 12),
    "swinv2_tiny_window8_256": (None, 12),
    "mvitv2_tiny": (None, 10),
    "pvt_v2_b0": (64, 8),
    "twins_svt_small": (64, 18),
    "levit_128s": (None, 11),
    "tnt_s_legacy_patch16_224": (None, 24),
    "crossvit_tiny_240": (None, 21),
    "hiera_tiny_224": (None, 12),
    "vit_pe_core_tiny_patch16_384": (64, 13),
    "samvit_base_patch16_224": (None, "folded"),
    "naflexvit_base_patch16_gap": (64, 12),
    "mobilevit_xxs": (64, 9),
    "maxvit_rmlp_pico_rw_256": (None, 22),
    "nest_tiny": (None, 12),
    "volo_d1_224": (None, "unknown"),
    "visformer_tiny": (None, 8),
    "gcvit_xxtiny": (None, 12),
    "tiny_vit_5m_224": (None, 10),
    "efficientformerv2_s0": (None, "unknown"),
    "cait_xxs24_224": (None, "unknown"),
    "convit_tiny": (None, 12),
    "xcit_nano_12_p16_224": (None, "channels"),
    "davit_tiny": (None, "channels"),
    "edgenext_xx_small": (None, "channels"),
    "mobilevitv2_050": (None, "unknown"),
    "coat_lite_tiny": (None, "unknown"),
}
TORCHVISION = {
    "vit_b_16": (224, 12),
    "swin_t": (64, 12),
    "swin_v2_t": (64, 12),
    "maxvit_t": (224, 22),
}
SMALL = dict(
    hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=48,
    image_size=32, patch_size=8,
)  # fmt: skip
HUGGING_FACE = {
    "ViT": (transformers.ViTModel, transformers.ViTConfig, 2),
    "DeiT": (transformers.DeiTModel, transformers.DeiTConfig, 2),
    "BEiT": (transformers.BeitModel, transformers.BeitConfig, 2),
    "MAE": (transformers.ViTMAEModel, transformers.ViTMAEConfig, 2),
    "DINOv2": (transformers.Dinov2Model, transformers.Dinov2Config, 2),
    "DINOv3": (transformers.DINOv3ViTModel, transformers.DINOv3ViTConfig, 2),
    "CLIP": (transformers.CLIPVisionModel, transformers.CLIPVisionConfig, 2),
    "SigLIP": (transformers.SiglipVisionModel, transformers.SiglipVisionConfig, 3),
    "Swin": (transformers.SwinModel, transformers.SwinConfig, 4),
    "PVT v2": (transformers.PvtV2Model, transformers.PvtV2Config, 8),
}


# Seconds each; `make colab` runs them too.
LARGE = {
    *("beit_base_patch16_224", "vit_base_patch16_siglip_224", "samvit_base_patch16_224"),
    *("naflexvit_base_patch16_gap", "volo_d1_224", "swinv2_tiny_window8_256", "nest_tiny"),
    *("davit_tiny", "mvitv2_tiny", "vit_b_16", "maxvit_t"),
}


def marked(names):
    return [pytest.param(n, marks=pytest.mark.slow if n in LARGE else ()) for n in names]


def of_timm(name, side):
    size = {} if side is None else {"img_size": side}
    try:
        model = timm.create_model(name, **size)
    except TypeError:  # it takes any size
        model = timm.create_model(name)
    return model, side or model.default_cfg["input_size"][-1]


def of_hugging_face(name):
    kind, config, _ = HUGGING_FACE[name]
    if name == "Swin":
        config = config(image_size=32, patch_size=2, embed_dim=12, depths=[2, 2], num_heads=[2, 3],
                        window_size=4)  # fmt: skip
    elif name == "PVT v2":
        config = config(image_size=32)
    else:
        config = config(**SMALL)
    return kind(config), 32


def look(model, side):
    """How many attentions were seen, or the sentence that refuses; the worst of two errors."""
    worst, calls = 0.0, 0

    def check(call):
        nonlocal worst, calls
        calls += 1
        weights = call.weights()
        mixed, output = weights @ call.v.float(), call.output
        if call.projection is not None:  # seen only after it, and after its bias
            joined = rearrange(mixed, f"b h n d -> {call.layout}") @ call.projection.mT
            mixed, output = joined - joined.mean((0, 1)), output - output.mean((0, 1))
        elif mixed.ndim == 4:
            output = rearrange(output, f"{call.layout} -> b h n d", h=mixed.shape[1])
        assert mixed.shape == output.shape
        rows = (weights.sum(-1) - 1).abs().max()
        worst = max(worst, rows.item(), ((mixed - output).abs().max() / output.abs().max()).item())

    images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        outside = model(images)
        try:
            with record_attention(model, check):
                inside = model(images)
        except RuntimeError as error:
            return str(error), worst
    if isinstance(outside, torch.Tensor):
        assert torch.equal(inside, outside)
    return calls, worst


@pytest.fixture(scope="module")
def table():
    lines = []
    yield lines
    print("\n" + "\n".join(sorted(lines)))


def judge(table, where, name, model, side, expected):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():  # far from even attention
            parameter.add_(torch.randn_like(parameter) * 0.02)
    found, worst = look(model.eval(), side)
    table.append(f"{where:12} {name:34} {found if isinstance(found, str) else f'{found} maps'}")
    assert worst < 1e-4
    if isinstance(expected, int):
        assert found == expected
    else:
        assert isinstance(found, str) and WHY[expected] in found


@pytest.mark.parametrize("name", marked(TIMM))
def test_timm(name, table):
    torch.manual_seed(0)
    side, expected = TIMM[name]
    judge(table, "timm", name, *of_timm(name, side), expected)


@pytest.mark.parametrize("name", marked(TORCHVISION))
def test_torchvision(name, table):
    side, expected = TORCHVISION[name]
    judge(table, "torchvision", name, getattr(torchvision.models, name)(), side, expected)


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_hugging_face(name, table):
    judge(table, "Hugging Face", name, *of_hugging_face(name), HUGGING_FACE[name][2])
