"""ViT with designs of convolutional networks: what is printed of them, and what they count."""

from dataclasses import replace

import pytest
import torch

from vitbook import create_model, list_models
from vitbook.analysis import capture_attention
from vitbook.measure import count_macs, count_parameters
from vitbook.models.papers.cnn_designs import CNN_DESIGN_MODELS, DENSE_DESIGN_MODELS, vit_dense
from vitbook.models.papers.t2t_vit import SIZES, t2t_vit
from vitbook.models.papers.vit import IMAGENET, vit

NAMES = [*CNN_DESIGN_MODELS, *DENSE_DESIGN_MODELS]


def on_meta(make, settings):
    with torch.device("meta"):
        return make(**settings)


def block(width, mlp_width, attention):
    """Two norms, an attention, an MLP with biases."""
    return 4 * width + attention + 2 * width * mlp_width + mlp_width + width


def plain(width):
    """Queries, keys and values without a bias, and a projection with one."""
    return 4 * width * width + width


def around(width, last=None):
    """Class token, patches in, last norm and head."""
    last = last or width
    return width + (768 + 1) * width + 2 * last + (last + 1) * 1000


PARAMETERS = {
    "vit_s16_t2t": around(768) + 8 * block(768, 2304, plain(768)),
    "vit_resnext": around(768) + 8 * block(768, 2304, plain(768)),
    "vit_dn": around(384) + 16 * block(384, 1152, plain(384)),
    "vit_sw": around(1024) + 4 * block(1024, 3584, plain(1024)),
    "vit_se": around(768) + 8 * block(768, 2304, plain(768) + 2 * 768 * 48),
    "vit_ghost": around(768)
    + 8 * (4 * 768 + 768 * 1152 + 1152 + 769 * 768 + 769 * 768 + 1536 + 2305 * 768),
    "vit_dense": around(128, last=736)
    + sum(
        block(width, 6 * width, plain(width)) + (width + 1) * 64
        for start, depth in ((128, 2), (128, 4), (192, 6), (288, 7))
        for width in range(start, start + 64 * depth, 64)
    )
    + sum((2 * half + 1) * half for half in (128, 192, 288)),
}


def test_the_printed_widths_of_dense():
    widths = on_meta(vit_dense, DENSE_DESIGN_MODELS["vit_dense"]).encoder.blocks
    blocks = [each.block.norm1.normalized_shape[0] for each in widths if hasattr(each, "growth")]
    assert len(blocks) == 19 and blocks[0] == 128 and blocks[-1] + 64 == 736


def test_sixteen_layers_behind_tokens_to_token_count_24_5_m_and_5_4_g():
    """DN's printed parameters, fixed numbers included; its multiply-adds only by our counter."""
    model = on_meta(t2t_vit, IMAGENET | dict(body=replace(SIZES["14"], depth=16))).eval()
    fixed = sum(buffer.numel() for buffer in model.buffers())
    assert count_parameters(model) + fixed == 24_501_582
    macs = count_macs(model, torch.empty(1, 3, 224, 224, device="meta"))
    assert macs == pytest.approx(5.42e9, abs=0.005e9)


def small(name):
    torch.manual_seed(0)
    if name in CNN_DESIGN_MODELS:
        settings = CNN_DESIGN_MODELS[name]
        cut = dict(image_size=(32, 48), num_classes=5, body=replace(settings["body"], depth=2))
        return vit(**settings | cut).eval()
    cut = dict(image_size=(32, 48), depths=(1, 1), num_classes=5)
    return vit_dense(**DENSE_DESIGN_MODELS[name] | cut).eval()


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_the_contract_and_capture(name):
    model, images = small(name), torch.randn(2, 3, 32, 48)
    assert (model.grid_size, model.num_prefix_tokens, model.patch_size) == ((2, 3), 1, 16)
    features = model.features(images)
    assert features.shape == (2, 7, model.head.classifier.in_features)
    outside = model(images)
    assert torch.equal(outside, model.head(features)) and outside.shape == (2, 5)
    with capture_attention(model) as maps:
        assert torch.equal(model(images), outside)
    heads = 32 if name == "vit_resnext" else next(iter(maps.values())).shape[1]
    assert [each.shape for each in maps.values()] == [(2, heads, 7, 7)] * 2


@pytest.mark.parametrize("kind", ["vit", "t2t_vit"])
def test_equal_designs_cost_what_the_plain_model_costs(kind):
    names = [n for n in list_models() if n.startswith(f"{kind}_") and "_equal_micro" in n]
    image = torch.empty(1, 1, 8, 8, device="meta")
    plain, *others = (
        count_macs(on_meta(create_model, {"name": name}).eval(), image)
        for name in (f"{kind}_micro_patch2_8", *names)
    )
    assert others and others == [pytest.approx(plain, rel=0.02)] * len(others)
