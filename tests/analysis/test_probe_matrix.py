"""Every probe of attention on models of others, as their libraries build them, two layers deep."""

from math import hypot

import pytest
import timm
import torch
import torchvision
from einops import rearrange
from torch import nn

from vitbook.analysis import (
    attention_rollout,
    capture_attention,
    gradient_rollout,
    mean_attention_distance,
    mean_weight_on_prefix,
    relevance,
)


def from_torchvision():
    return torchvision.models.VisionTransformer(
        image_size=224, patch_size=16, num_layers=2, num_heads=12, hidden_dim=768, mlp_dim=3072
    )


# name -> (model, side of the picture, patch, prefix tokens)
MODELS = {
    "timm vit_base_patch16_224": (lambda: _timm("vit_base_patch16_224"), 224, 16, 1),
    "timm deit_base_distilled_patch16_224": (
        lambda: _timm("deit_base_distilled_patch16_224"), 224, 16, 2,
    ),
    "timm vit_base_patch14_reg4_dinov2": (
        lambda: _timm("vit_base_patch14_reg4_dinov2", img_size=126, num_classes=10), 126, 14, 5,
    ),
    "torchvision vit_b_16": (from_torchvision, 224, 16, 1),
}  # fmt: skip


def _timm(name, **changes):
    return timm.create_model(name, depth=2, **changes)


def by_hand(model, images):
    """Attention from the model's own projection of what each block gets, head by head."""
    found = []

    def look(module, args, kwargs):
        tokens = args[0] if args else kwargs["query"]
        if isinstance(module, nn.MultiheadAttention):
            projected = nn.functional.linear(tokens, module.in_proj_weight, module.in_proj_bias)
        else:
            projected = module.qkv(tokens)
        q, k, _ = rearrange(projected, "b n (t h d) -> t b h n d", t=3, h=module.num_heads)
        heads = [(q[:, h] @ k[:, h].mT / q.shape[-1] ** 0.5).softmax(-1) for h in range(q.shape[1])]
        found.append(torch.stack(heads, dim=1))

    handles = [
        module.register_forward_pre_hook(look, with_kwargs=True)
        for module in model.modules()
        if isinstance(module, nn.MultiheadAttention) or type(module).__name__ == "Attention"
    ]
    with torch.no_grad():
        model(images)
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("name", MODELS)
def test_every_probe_is_right_on_it(name):
    torch.manual_seed(0)
    make, side, patch, prefix = MODELS[name]
    model, images = make().eval(), torch.randn(2, 3, side, side)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
        with capture_attention(model) as maps:
            model(images)
    expected = by_hand(model, images)
    assert len(maps) == len(expected) == 2
    for weights, own in zip(maps.values(), expected, strict=True):
        assert weights.std() > 1e-4 and (weights - own).abs().max() < 1e-5

    rows = side // patch
    places = [(patch * r, patch * c) for r in range(rows) for c in range(rows)]
    pixels = torch.tensor([[hypot(y - v, x - u) for v, u in places] for y, x in places])
    far = [(own[..., prefix:, prefix:] * pixels).sum(-1).mean((0, 2)) for own in expected]
    assert torch.allclose(mean_attention_distance(model, images), torch.stack(far), rtol=1e-4)
    given = [own[..., prefix:, :prefix].sum(-1).mean((0, 2)) for own in expected]
    assert torch.allclose(mean_weight_on_prefix(model, images), torch.stack(given), atol=1e-5)

    eye = torch.eye(prefix + rows * rows)
    product = eye
    for own in expected:
        product = (own.mean(1) + eye) / 2 @ product
    rolled = attention_rollout(model, images)
    assert rolled.shape == (2, rows, rows)
    assert torch.allclose(rolled.flatten(1), product[:, 0, prefix:], rtol=1e-3)

    # The last layer's part of relevance, from the logit's derivative along its weights.
    with torch.no_grad():
        top = model(images).argmax(1)
    assert torch.equal(relevance(model, images), relevance(model, images, top))
    for explain in (gradient_rollout, relevance):
        found = explain(model, images)
        assert found.shape == (2, rows, rows) and found.min() >= 0 and found.std() > 0
    print(f"\n{name}: attention, distance, weight on prefix, rollout, relevance: checked")
