"""Weights with the names and shapes of the authors' codes: our logits are those of their sums."""

from dataclasses import asdict, replace

import pytest
import timm
import torch
from authors_codes import sl_logits, sl_weights, t2t_logits, t2t_weights

import vitbook
from vitbook.models.papers.sl_vit import SL_VIT_MODELS
from vitbook.models.papers.t2t_vit import T2T_VIT_MODELS, t2t_vit
from vitbook.models.papers.vit import VIT_MODELS, vit
from vitbook.models.weights.authors import load_deit, load_sl_vit, load_t2t_vit
from vitbook.training import save_checkpoint


def t2t(name, depth=2):
    """Ours at 32 pixels, its body, and weights in its size."""
    settings = T2T_VIT_MODELS[name] | dict(image_size=32, num_classes=5)
    settings["body"] = body = replace(settings["body"], depth=depth)
    weights = t2t_weights("_t_" not in name, body.width, body.mlp_width, depth)
    return t2t_vit(**settings).eval(), body, weights


@pytest.mark.parametrize(
    ("name", "depth"),
    [("t2t_vit_7", 2), ("t2t_vit_t_14", 2), ("t2t_vit_14_resnext", 2), ("t2t_vit_14_wide", 1)],
)
@torch.no_grad()
def test_t2t_vit(name, depth):
    ours, body, weights = t2t(name, depth=depth)
    assert load_t2t_vit(ours, weights) is ours
    images = torch.randn(2, 3, 32, 32)
    logits = t2t_logits(weights, images, body.num_heads, depth)
    assert logits.std() > 0.1
    assert (ours(images) - logits).abs().max() < 1e-4
    assert torch.equal(ours.position.table, weights["pos_embed"][0])
    if "_t_" not in name:
        core = ours.tokenizer.block2.core
        assert torch.equal(core.directions, weights["tokens_to_token.attention2.w"])
        core.epsilon = 0.0
        assert (ours(images) - logits).abs().max() > 1e-3


def sl(name, depth=3):
    """Ours on four by four patches, and weights in its size."""
    settings = (VIT_MODELS | SL_VIT_MODELS)[name]
    patch = settings["patch_size"]
    settings = settings | dict(image_size=4 * patch, num_classes=10)
    settings["body"] = replace(settings["body"], depth=depth)
    weights = sl_weights(
        shifted=name.startswith(("sl", "spt")),
        lsa=name.startswith(("sl", "lsa")),
        width=192,
        heads=12,
        mlp_width=384,
        depth=depth,
        patch=patch,
    )
    return vit(**settings).eval(), weights, patch


SMALL_NAMES = [
    "vit_tiny_patch4_32",
    "spt_vit_tiny_patch4_32",
    "lsa_vit_tiny_patch4_32",
    "sl_vit_tiny_patch8_64",
]


@pytest.mark.parametrize("name", SMALL_NAMES)
@torch.no_grad()
def test_sl_vit(name):
    ours, weights, patch = sl(name)
    assert load_sl_vit(ours, weights) is ours
    images = torch.randn(2, 3, 4 * patch, 4 * patch)
    logits = sl_logits(weights, images, heads=12, patch=patch, depth=3)
    assert logits.std() > 0.1
    assert (ours(images) - logits).abs().max() < 1e-4


@torch.no_grad()
def test_sl_vits_norms_keep_flat_tokens_apart():
    """Where tokens hardly vary, what a norm adds to the variance shows: it must be theirs."""
    ours, weights, patch = sl("vit_tiny_patch4_32", depth=1)
    for name in ("cls_token", "pos_embedding", "to_patch_embedding.1.bias"):
        weights[name] *= 0.005
    load_sl_vit(ours, weights)
    images = torch.zeros(1, 3, 16, 16)
    logits = sl_logits(weights, images, heads=12, patch=patch, depth=1)
    assert (ours(images) - logits).abs().max() < 1e-4
    for module in ours.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    assert (ours(images) - logits).abs().max() > 1e-2


# DeiT: its code is timm's of its day, whose names are today's.
@pytest.mark.parametrize("name", ["deit_tiny_distilled_patch16_224", "vit_tiny_patch16_224"])
@torch.no_grad()
def test_deit(name):
    torch.manual_seed(0)
    source = timm.create_model(name, img_size=64, num_classes=5).eval()
    for parameter in source.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.05)
    ours = vitbook.create_model(name, image_size=64, num_classes=5).eval()
    load_deit(ours, {"model": source.state_dict(), "epoch": 300})
    images = torch.randn(2, 3, 64, 64)
    assert source(images).std() > 0.1
    assert (ours(images) - source(images)).abs().max() < 1e-4
    if "distilled" in name:
        assert torch.equal(ours.prefix[1], source.dist_token[0, 0])
        assert torch.equal(ours.head.distillation.weight, source.head_dist.weight)


def without(weights, *names):
    return {name: tensor for name, tensor in weights.items() if name not in names}


@pytest.mark.parametrize(
    ("load", "name", "weights", "words"),
    [
        (load_t2t_vit, "t2t_vit_7", lambda: t2t("t2t_vit_t_14")[2], "missing: .*1.w, .*attn.qkv"),
        (load_t2t_vit, "t2t_vit_14_se", lambda: t2t("t2t_vit_14")[2], "missing: .*attention.gate"),
        (
            load_t2t_vit,
            "resnet20",
            lambda: t2t("t2t_vit_7")[2],
            "weights of T2T-ViT do not fit this model",
        ),
        (load_deit, "deit_tiny_distilled_patch4_32", lambda: sl("vit_tiny_patch4_32")[1], "DeiT"),
        (load_sl_vit, "rot_vit_micro_r4_patch2_8", dict, "made by RotatedPatches, SL-ViT's by"),
        (load_sl_vit, "resnet20", dict, "tokens are made by NoneType"),
    ],
)
def test_another_models_weights(load, name, weights, words):
    with torch.device("meta"):
        model = vitbook.create_model(name)
    with pytest.raises(ValueError, match=words):
        load(model, weights())


@pytest.mark.parametrize("name", ["sl_vit_tiny_patch4_32", "t2t_vit_7"])
@torch.no_grad()
def test_a_checkpoint_keeps_what_is_no_weight(name, tmp_path):
    torch.manual_seed(0)
    model = vitbook.create_model(name, image_size=32).eval()
    if name.startswith("sl"):
        weights = sl_weights(shifted=True, lsa=True, width=192, heads=12, mlp_width=384,
                             depth=len(model.encoder.blocks), patch=4)  # fmt: skip
        model = vitbook.create_model(name, image_size=16).eval()
        load_sl_vit(model, weights)
    else:
        model = vitbook.create_model(name, image_size=32, num_classes=5).eval()
        load_t2t_vit(model, t2t(name, depth=7)[2])
    images = torch.randn(2, 3, *[model.spec.image_size] * 2)
    logits = model(images)
    back = vitbook.load_checkpoint(save_checkpoint(tmp_path / "x", model)).model
    assert torch.equal(back(images), logits)
    plain = vitbook.create_model(**asdict(model.spec)).eval()
    plain.load_state_dict(model.state_dict())
    assert not torch.equal(plain(images), logits)  # what a checkpoint of weights alone gave
