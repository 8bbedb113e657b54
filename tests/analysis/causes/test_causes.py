"""Patching, lens and contributions: their laws, for ours, timm's and Hugging Face's models."""

import pytest
import timm
import torch
import transformers
from torch import nn

import vitbook
from vitbook.analysis import (
    list_blocks,
    logit_contributions,
    logit_lens,
    patched_logits,
)
from vitbook.errors import UnknownNameError

SMALL = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=48,
             image_size=32, patch_size=8, num_labels=7)  # fmt: skip


def ours(name):
    return lambda: (vitbook.create_model(name), None)


def of_timm(name, side=64, **given):
    return lambda: (timm.create_model(name, img_size=side, num_classes=7, **given), side)


def hugging_face(kind, config):
    return lambda: (kind(config(**SMALL)), 32)


# With a norm in front of each of two parts, and a class token or a mean that is read.
ADDS = {
    "ours": ours("vit_micro_patch2_8"),
    "ours, a mean": lambda: (vitbook.create_model("vit_micro_patch2_8", pool="mean"), None),
    "ours, rotary": ours("vit_rope_micro_patch2_8"),
    "ours, rotated patches": ours("rot_vit_micro_patch2_8"),
    "ViT": of_timm("vit_tiny_patch16_224"),
    "ViT, a mean before the norm": of_timm("vit_tiny_patch16_224", global_pool="avg", fc_norm=True),
    "DeiT III, LayerScale": of_timm("deit3_small_patch16_224", depth=3, init_values=0.3),
    "EVA-02": of_timm("eva02_tiny_patch14_224", 56),
    "DINOv3": of_timm("vit_small_patch16_dinov3", depth=3),
    "registers": of_timm("vit_small_patch14_reg4_dinov2", 56, depth=3),
    "relative positions": of_timm("vit_relpos_small_patch16_224", depth=3),
    "Hugging Face's ViT": hugging_face(
        transformers.ViTForImageClassification, transformers.ViTConfig
    ),
    "Hugging Face's DINOv2, a class token and a mean": hugging_face(
        transformers.Dinov2ForImageClassification, transformers.Dinov2Config
    ),
}  # fmt: skip


@pytest.fixture(params=ADDS)
def family(request):
    """A model whose weights are not the first ones, whose head is not zero, and images for it."""
    torch.manual_seed(0)
    model, side = ADDS[request.param]()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.02 * torch.randn_like(weight))
    size = (1, 8, 8) if side is None else (3, side, side)
    return model.eval(), torch.randn(2, *size), torch.randn(2, *size)


class OfThreeTokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=1, num_classes=0)
        self.head = nn.Linear(3 * 192, 7)

    def forward(self, images):
        return self.head(self.body.forward_features(images)[:, :3].flatten(1))


def answers(model, images):
    with torch.no_grad():
        found = model(images)
    return getattr(found, "logits", found)


def close(given, wanted):
    assert (given - wanted).abs().max() <= 1e-3 * wanted.abs().max(), (given, wanted)


def test_what_all_parts_add_is_the_logits(family):
    model, images, _ = family
    found = logit_contributions(model, images)
    close(sum(found.values()), answers(model, images))
    assert len(found) == 2 + 2 * len(list_blocks(model))
    assert all(each.shape == answers(model, images).shape for each in found.values())


def test_the_lens_ends_in_the_models_own_logits(family):
    model, images, _ = family
    found = logit_lens(model, images)
    assert tuple(found) == list_blocks(model)
    last, wanted = list(found.values())[-1], answers(model, images)
    assert last.ndim == 3 and last.shape[-1] == wanted.shape[-1]
    reads_a_class_token = (last[:, 0] - wanted).abs().max() <= 1e-3 * wanted.abs().max()
    means = [last[:, first:].mean(1) for first in range(6)]
    if hasattr(model, "dinov2"):  # both
        close(last[:, 1:].mean(1), last[:, 0])
    reads_a_mean = any((mean - wanted).abs().max() < 1e-3 * wanted.abs().max() for mean in means)
    # Of a mean before the norm no token's own logits make up the model's.
    assert reads_a_class_token or reads_a_mean or getattr(model, "fc_norm", None) is not None


def test_all_of_the_other_image_is_the_other_answer_and_none_is_ones_own(family):
    model, one, other = family
    first = list_blocks(model)[0]
    close(patched_logits(model, one, other, first), answers(model, other))
    close(patched_logits(model, one, other, first, tokens=[]), answers(model, one))
    close(patched_logits(model, one, one, list_blocks(model)[-1]), answers(model, one))


def test_a_part_of_the_tokens_is_a_part_of_the_answer(family):
    model, one, other = family
    block = list_blocks(model)[0]
    mixed = patched_logits(model, one, other, block, tokens=[1, 2])
    for whole in (answers(model, one), answers(model, other)):
        assert (mixed - whole).abs().max() > 1e-4 * whole.abs().max()


def test_a_head_of_the_other_image():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_micro_patch2_8").eval()
    one, other = torch.rand(2, 2, 1, 8, 8)
    with torch.no_grad():
        model.head.classifier.weight.normal_()
    attention = model.encoder.blocks[1].attention
    by_hand, kept = answers(model, one), []

    def keep(_, args):
        kept.append(args[0])

    def put(_, args):
        mixed = args[0].clone()
        mixed[..., 16:32] = kept[0][..., 16:32]
        return (mixed,)

    mixing = attention.projection
    with mixing.register_forward_pre_hook(keep):
        answers(model, other)
    with mixing.register_forward_pre_hook(put):
        by_hand = answers(model, one)
    assert mixing.in_features == 64, "four heads of 16 numbers"
    assert torch.allclose(patched_logits(model, one, other, (1, 1)), by_hand, atol=1e-6)
    # All heads are the attention, less its bias, which both images share.
    path = "encoder.blocks.1.attention"
    assert not torch.allclose(patched_logits(model, one, other, path), by_hand)


def test_nothing_of_a_look_stays(family):
    model, one, other = family
    before = answers(model, one)
    model.train()
    patched_logits(model, one, other, list_blocks(model)[0])
    logit_lens(model, one)
    logit_contributions(model, one)
    assert model.training
    assert torch.equal(answers(model.eval(), one), before)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (dict(part="encoder.blocks.9"), UnknownNameError, "encoder.blocks"),
        (dict(part="encoder.blocks.1", tokens=[17]), ValueError, "token 17: there are 17"),
        (dict(part=(4, 0)), ValueError, "layer 4: the model has 4, counted from 0"),
        (dict(part=(0, 4)), ValueError, "head 4: layer 0 has 4, counted from 0"),
        (dict(part="head"), ValueError, "head gives no tokens: expected a block"),
        (dict(part="encoder.blocks.1", others=torch.rand(1, 1, 8, 10)), ValueError, "same size"),
        (dict(part="encoder.blocks.1", others=torch.full((1, 1, 8, 8), torch.nan)), ValueError,
         "others: images hold NaN"),
        (dict(part="encoder.blocks.1", tokens=torch.arange(17) == 3), TypeError, "of a mask pass"),
        (dict(part="encoder.blocks.1.attention.core", tokens=[3]), ValueError,
         r"\(1, 4, 17, 16\): expected \(images, tokens, numbers\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_patched_is_said(given, error, words):
    model = vitbook.create_model("vit_micro_patch2_8")
    with pytest.raises(error, match=words):
        patched_logits(model, torch.rand(1, 1, 8, 8), **{"others": torch.rand(1, 1, 8, 8)} | given)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (ours("vit_postnorm_micro_patch2_8"), "nothing|Linear"),
        (of_timm("vit_small_patch14_dinov2", 56, depth=2, class_token=False, global_pool="map"),
         "behind the last block"),
        (lambda: (OfThreeTokens(), 32), "reads 576 numbers, a token has 192: expected a head that"),
    ],
)  # fmt: skip
def test_heads_that_read_otherwise_are_refused(make, words):
    model, side = make()
    images = torch.rand(1, *((1, 8, 8) if side is None else (3, side, side)))
    for probe in (logit_lens, logit_contributions):
        with pytest.raises(ValueError, match=words):
            probe(model, images)


def test_what_is_told_in_another_way_is_said(plain_vitbook):
    said = plain_vitbook("""
        import torch, vitbook
        from vitbook.analysis import patched_logits
        model = vitbook.create_model("vit_micro_patch2_8")
        images, block = torch.rand(1, 1, 8, 8), "encoder.blocks.1"
        for others, part, tokens in [
            (images.byte(), block, None), ([images], block, None), (images, block, 3),
            (images, block, [3.5]), (images, (0,), None), (images, model, None),
        ]:
            try:
                patched_logits(model, images, others, part, tokens)
            except TypeError as error:
                print(error)
    """).splitlines()
    assert [line.split(": ")[0] for line in said] == [
        "others", "others", "tokens came as int, 3", "tokens came as list, 3.5",
        "part came as (0,)", "part came as VisionTransformer",
    ]  # fmt: skip
    assert all("expected" in line for line in said)


def shaken(model):
    """Other weights than the first ones, which are zero here and there."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    return model.eval()


def test_tokens_come_in_any_row_that_is_read_once():
    model = shaken(vitbook.create_model("vit_micro_patch2_8"))
    one, other = torch.rand(2, 2, 1, 8, 8)
    block = list_blocks(model)[1]
    wanted = patched_logits(model, one, other, block, tokens=[3, 4])
    for tokens in (torch.tensor([3, 4]), range(3, 5), iter([3, 4]), (4, 3, 4)):
        assert torch.equal(patched_logits(model, one, other, block, tokens=tokens), wanted)


def test_a_block_that_runs_three_times_is_exchanged_each_time():
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=1, num_classes=7)
    model.blocks = nn.Sequential(*[shaken(model).blocks[0]] * 3)
    one, other = torch.randn(2, 2, 3, 32, 32)
    close(patched_logits(model, one, other, "blocks.0"), answers(model, other))
    with pytest.raises(ValueError, match=r"blocks\.0 of VisionTransformer runs several times"):
        logit_contributions(model, one)


def test_blocks_may_be_called_with_keywords():
    class Around(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.stack = inner, nn.ModuleList(inner.blocks)
            inner.blocks = nn.Identity()

        def forward(self, images):
            tokens = self.inner._pos_embed(self.inner.patch_embed(images))
            for block in self.stack:
                tokens = block(x=tokens)
            return self.inner.head(self.inner.norm(tokens)[:, 0])

    inner = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=7)
    model, images = shaken(Around(inner)), torch.randn(2, 3, 32, 32)
    close(sum(logit_contributions(model, images).values()), answers(model, images))


def test_behind_a_stem_of_convolutions_the_blocks_of_tokens_count():
    model = shaken(vitbook.create_model("vit_micro_r8_s2_8"))
    images = torch.rand(2, 1, 8, 8)
    assert list(logit_lens(model, images)) == [f"encoder.blocks.{i}" for i in range(4)]
    close(sum(logit_contributions(model, images).values()), answers(model, images))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("pool", ["class", "mean"])
def test_in_half_precision_the_sum_is_the_logits_but_for_its_rounding(dtype, pool):
    model = shaken(vitbook.create_model("vit_micro_patch2_8", pool=pool)).to(dtype)
    images = torch.rand(2, 1, 8, 8)
    found = logit_contributions(model, images)
    wanted = answers(model, images.to(dtype))
    assert all(each.dtype == torch.float32 for each in found.values())
    far = (sum(found.values()) - wanted).abs().max() / wanted.abs().max()
    assert far < 2 * torch.finfo(dtype).eps


def test_a_large_bias_does_not_hide_how_the_head_reads():
    model = shaken(vitbook.create_model("vit_micro_patch2_8", pool="mean"))
    images = torch.rand(2, 1, 8, 8)
    with torch.no_grad():
        model.head.classifier.weight.mul_(1e-4)
        model.head.classifier.bias.zero_()
        wanted = logit_contributions(model, images)
        model.head.classifier.bias.fill_(-7)
    found = logit_contributions(model, images)
    for name in set(found) - {"bias"}:
        torch.testing.assert_close(found[name], wanted[name])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (ours("vit_layerpos_micro_patch2_8"), "does not take what encoder.blocks.0 gives"),
        (ours("vit_dense_micro_patch2_8"), "tokens of 36, 48, 60 numbers: expected one width"),
        (lambda: (timm.create_model("resnet10t", num_classes=7), 32), "expected tokens, "),
        (lambda: (timm.create_model("pvt_v2_b0", num_classes=7), 64), "32, 64, 160, 256 numbers"),
    ],
)
def test_contributions_that_would_not_sum_are_refused(make, words):
    model, side = make()
    with pytest.raises(ValueError, match=words):
        logit_contributions(shaken(model), torch.rand(1, *((3, side, side) if side else (1, 8, 8))))


def test_a_norm_of_another_kind_is_refused():
    class OneMoreRMSNorm(nn.RMSNorm):  # as Gemma's
        def forward(self, tokens):
            return super().forward(tokens) + tokens / tokens.square().mean(-1, True).sqrt()

    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=1, num_classes=7)
    model.norm = OneMoreRMSNorm(192)
    with pytest.raises(ValueError, match="add is not its logits: expected a OneMoreRMSNorm that"):
        logit_contributions(shaken(model), torch.rand(1, 3, 32, 32))


def test_a_model_without_blocks_is_refused():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with pytest.raises(ValueError, match="blocks"):
        logit_lens(model, torch.rand(1, 1, 8, 8))
