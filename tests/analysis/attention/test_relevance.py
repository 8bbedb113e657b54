import pytest
import timm
import torch
import torchvision
from einops import rearrange
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

import vitbook
from vitbook.analysis import gradient_rollout, relevance
from vitbook.analysis.attention.class_relevance import weighted_attention
from vitbook.analysis.capture import streaming
from vitbook.layers import LocalitySelfAttention, RelativePosition
from vitbook.models.papers.vit import Body, vit
from vitbook.models.papers.vit_positions import one_for_each_layer, relative_vit

BODY = dict(
    image_size=(16, 24), patch_size=8, num_classes=5, body=Body(24, 3, num_heads=3, mlp_width=48)
)
IMAGES = torch.randn(4, 3, 16, 24, generator=torch.Generator().manual_seed(0))
TARGETS = torch.tensor([0, 4, 2, 2])


class WrittenOut(nn.Module):
    """Attention that writes its weights, and keeps them for their gradient."""

    def __init__(self, store):
        super().__init__()
        self.store = store

    def forward(self, q, k, v, mask=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None and mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, float("-inf"))
        elif mask is not None:
            scores = scores + mask
        weights = scores.softmax(-1)
        weights.retain_grad()
        self.store.append(weights)
        return weights @ v


class WrittenOutTorch(nn.Module):
    def __init__(self, attention, store):
        super().__init__()
        self.attention, self.core = attention, WrittenOut(store)

    def forward(self, tokens, *_, **__):
        a = self.attention
        qkv = nn.functional.linear(tokens, a.in_proj_weight, a.in_proj_bias)
        q, k, v = rearrange(qkv, "b n (t h d) -> t b h n d", t=3, h=a.num_heads)
        return a.out_proj(rearrange(self.core(q, k, v), "b h n d -> b n (h d)")), None


def own(**parts):
    return vit(**BODY, **parts)


MODELS = {
    "own": own,
    "LSA": lambda: own(make_attention=LocalitySelfAttention),
    "relative": lambda: relative_vit(**BODY, make_positions=one_for_each_layer(RelativePosition)),
    "timm, mean of the patches": lambda: timm.models.VisionTransformer(
        img_size=(16, 24), patch_size=8, embed_dim=24, depth=3, num_heads=3, num_classes=5,
        class_token=False, global_pool="avg",
    ),
    "timm, registers, normed": lambda: timm.models.VisionTransformer(
        img_size=(16, 24), patch_size=8, embed_dim=24, depth=3, num_heads=3, num_classes=5,
        reg_tokens=4, scale_attn_norm=True,
    ),
    "torchvision": lambda: torchvision.models.VisionTransformer(
        image_size=16, patch_size=4, num_layers=3, num_heads=2, hidden_dim=24, mlp_dim=48,
        num_classes=5,
    ),
}  # fmt: skip


def random_model(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform attention
            parameter.add_(torch.randn_like(parameter) * 0.3)
    images = IMAGES[..., :16] if name == "torchvision" else IMAGES
    return model, images


def written_out(model, images, targets):
    """The weights and their gradients, from a model that writes them."""
    store = []
    for name, module in list(model.named_modules()):
        if isinstance(module, vitbook.layers.Attention):
            model.set_submodule(name, WrittenOut(store))
        elif isinstance(module, nn.MultiheadAttention):
            model.set_submodule(name, WrittenOutTorch(module, store))
        elif hasattr(module, "fused_attn"):
            module.fused_attn = False
            module.attn_drop.register_forward_hook(
                lambda m, args, output: (output.retain_grad(), store.append(output))[0]
            )
    model(images)[torch.arange(len(targets)), targets].sum().backward()
    return [(weights.detach(), weights.grad) for weights in store]


@pytest.mark.parametrize("name", MODELS)
def test_it_is_what_autograd_says_of_written_weights(name):
    model, images = random_model(name)
    prefix = {"timm, mean of the patches": 0, "timm, registers, normed": 5}.get(name, 1)
    grid = (4, 4) if name == "torchvision" else (2, 3)
    found = next(weighted_attention(model, images, TARGETS, 8, grid, prefix))
    rolled = gradient_rollout(model, images, TARGETS)
    related = relevance(model, images, TARGETS)
    assert all(parameter.grad is None for parameter in model.parameters())
    pairs = written_out(model, images, TARGETS)
    assert len(found) == len(pairs) == 3
    by_hand = [(weights * gradient).clamp(min=0).mean(1) for weights, gradient in pairs]
    for fused, expected in zip(found.values(), by_hand, strict=True):
        assert expected.max() > 1e-4
        assert (fused - expected).abs().max() < 1e-5 * max(1, expected.max())
    eye = torch.eye(by_hand[0].shape[-1]).expand(4, -1, -1)
    product, total = eye, eye
    for fused in by_hand:
        product = (eye + fused) / (1 + fused.sum(-1, keepdim=True)) @ product
        total = total + fused @ total
    rows = slice(prefix, None) if prefix == 0 else slice(0, 1)
    assert rolled.shape == related.shape == (4, *grid)
    expected = product[:, rows, prefix:].mean(1)
    assert (rolled.flatten(1) - expected).abs().max() < 1e-5
    expected = (total - eye)[:, rows, prefix:].mean(1)
    assert (related.flatten(1) - expected).abs().max() < 1e-4 * expected.max()


def test_hugging_faces_wrapped_logits():
    torch.manual_seed(0)
    config = ViTConfig(
        image_size=16, patch_size=8, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=48, num_labels=5,
    )  # fmt: skip
    model = ViTForImageClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    images = IMAGES[..., :16]
    found = list(next(weighted_attention(model, images, TARGETS, 8, (2, 2), 1)).values())
    model.set_attn_implementation("eager")
    out = model(images, output_attentions=True)
    score = out.logits[torch.arange(4), TARGETS].sum()
    gradients = torch.autograd.grad(score, out.attentions)
    for fused, weights, gradient in zip(found, out.attentions, gradients, strict=True):
        expected = (weights * gradient).clamp(min=0).mean(1)
        assert expected.max() > 1e-4 and (fused - expected).abs().max() < 1e-5
    assert relevance(model, images, TARGETS).shape == (4, 2, 2)


@pytest.mark.parametrize("explain", [gradient_rollout, relevance])
def test_a_batch_is_its_images_and_pieces_change_nothing(explain, monkeypatch):
    model, _ = random_model("own")
    whole = explain(model, IMAGES, TARGETS)
    singles = [explain(model, IMAGES[i : i + 1], TARGETS[i : i + 1]) for i in range(4)]
    assert (whole - torch.cat(singles)).abs().max() < 1e-6 * whole.max()
    assert (whole - explain(model, IMAGES, TARGETS, batch_size=3)).abs().max() < 1e-6 * whole.max()
    monkeypatch.setattr(streaming, "AT_ONCE", 50)
    assert (whole - explain(model, IMAGES, TARGETS)).abs().max() < 1e-6 * whole.max()


@pytest.mark.parametrize("explain", [gradient_rollout, relevance])
def test_the_class_matters_and_the_predicted_one_is_the_default(explain):
    model, _ = random_model("own")
    said = model(IMAGES).argmax(1)
    assert torch.equal(explain(model, IMAGES), explain(model, IMAGES, said))
    assert not torch.allclose(explain(model, IMAGES), explain(model, IMAGES, (said + 1) % 5))


def test_the_model_is_left_as_it_came():
    model, _ = random_model("own")
    model.train().requires_grad_(False)
    with torch.no_grad():
        relevance(model, IMAGES)
    assert model.training and not any(p.requires_grad for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert not IMAGES.requires_grad


def test_start_layer_and_another_query():
    model, _ = random_model("own")
    late = relevance(model, IMAGES, TARGETS, start_layer=2)
    last = list(next(weighted_attention(model, IMAGES, TARGETS, 8, (2, 3), 1)).values())[-1]
    assert torch.allclose(late.flatten(1), last[:, 0, 1:])
    patch = relevance(model, IMAGES, TARGETS, start_layer=2, query=4)
    assert torch.allclose(patch.flatten(1), last[:, 5, 1:], atol=1e-7)


@pytest.mark.parametrize("explain", [gradient_rollout, relevance])
@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (torch.tensor([0, 5, 0, 0]), r"targets \[0, 5, 0, 0\]: expected classes, 0 to 4"),
        (torch.tensor([0, -1, 0, 0]), "0 to 4"),
        (torch.tensor([0]), "1 targets for 4 images: expected one class for each"),
    ],
)
def test_targets_that_are_no_classes(explain, targets, words):
    with pytest.raises(ValueError, match=words):
        explain(random_model("own")[0], IMAGES, targets)


def test_models_that_cannot():
    with pytest.raises(ValueError, match="axial and block-local attention, a row, a column"):
        relevance(vitbook.create_model("axial_vit_micro_patch2_8"), torch.randn(1, 1, 8, 8))
    with pytest.raises(RuntimeError, match="no attention ran"):
        relevance(vitbook.create_model("resnet8_digits"), torch.randn(1, 1, 8, 8))
    with pytest.raises(ValueError, match="residual 1.0"):
        gradient_rollout(random_model("own")[0], IMAGES, residual=1.0)
