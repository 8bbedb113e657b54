import pytest
import timm
import torch
from transformers import ViTConfig, ViTForImageClassification, ViTModel

import vitbook
from vitbook.analysis import (
    attention_rollout,
    capture_attention,
    gradient_rollout,
    relevance,
)
from vitbook.analysis.capture.reading import tokens_read

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
BODY = dict(img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=3, num_classes=5)
PATCHES = 16


def of_timm(**settings):
    return timm.models.VisionTransformer(**BODY | settings)


def of_hugging_face(kind):
    config = ViTConfig(
        image_size=32, patch_size=8, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=48,
    )  # fmt: skip
    return kind(config)


READ = {
    "class token": (lambda: of_timm(), 1, [0]),
    "class token before registers": (lambda: of_timm(reg_tokens=2), 3, [0]),
    "mean behind a class token": (
        lambda: of_timm(global_pool="avg", fc_norm=True), 1, range(1, 17),
    ),
    "mean behind registers alone": (
        lambda: of_timm(class_token=False, reg_tokens=2, global_pool="avg"), 2, range(2, 18),
    ),
    "mean of the patches": (
        lambda: of_timm(class_token=False, global_pool="avg"), 0, range(16),
    ),
    "Hugging Face": (lambda: of_hugging_face(ViTForImageClassification), 1, [0]),
    "ours, distilled": (
        lambda: vitbook.create_model("deit_mini_distilled_patch4_32", image_size=16), 2, [0, 1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_what_the_head_reads(name):
    make, prefix, read = READ[name]
    torch.manual_seed(0)
    model, images = make().eval(), IMAGES[..., :16, :16] if "ours" in name else IMAGES
    expected = torch.zeros(prefix + PATCHES)
    expected[list(read)] = 1 / len(read)
    with torch.inference_mode():
        found = tokens_read(model, images, (4, 4), prefix)
    assert torch.allclose(found, expected)
    assert not any(parameter.grad is not None for parameter in model.parameters())


def test_registers_are_not_asked():
    torch.manual_seed(0)
    model = of_timm(class_token=False, reg_tokens=2, global_pool="avg").eval()
    targets = torch.tensor([1, 2])
    for found, asked in (
        (attention_rollout(model, IMAGES), attention_rollout(model, IMAGES, query="mean")),
        (relevance(model, IMAGES, targets), relevance(model, IMAGES, targets, query="mean")),
        (
            gradient_rollout(model, IMAGES, targets),
            gradient_rollout(model, IMAGES, targets, query="mean"),
        ),
    ):
        assert torch.allclose(found, asked, atol=1e-6)
        assert found.std() > 0
    with pytest.raises(ValueError, match="registers and no class token"):
        attention_rollout(model, IMAGES, query="class")


def test_a_head_that_pools_by_attention_is_refused():
    model = of_timm(class_token=False, global_pool="map").eval()
    with pytest.raises(ValueError, match="attn_pool: a map of 1 queries by 16 keys"):
        attention_rollout(model, IMAGES)


def test_a_model_without_a_head_needs_a_query():
    model = of_hugging_face(ViTModel).eval()
    with pytest.raises(ValueError, match=r"expected \(batch, classes\), or query= of a model"):
        attention_rollout(model, IMAGES)
    assert attention_rollout(model, IMAGES, query="class").shape == (2, 4, 4)


def test_a_head_of_zeros_reads_nothing():
    model = of_timm().eval()
    torch.nn.init.zeros_(model.head.weight)
    assert tokens_read(model, IMAGES, (4, 4), 1) is None
    asked = attention_rollout(model, IMAGES, query="class")
    assert torch.equal(attention_rollout(model, IMAGES), asked)


def test_maps_side_by_side_are_no_rollout():
    model = timm.create_model(
        "vit_dwee_patch16_reg1_gap_256", img_size=64, num_classes=5, depth=2
    ).eval()
    images = torch.randn(1, 3, 64, 64)
    with capture_attention(model) as maps:
        model(images)
    assert len(maps) == 4
    for probe in (attention_rollout, gradient_rollout, relevance):
        with pytest.raises(ValueError, match="attn#2: the layer attends more than once, side by"):
            probe(model, images)
