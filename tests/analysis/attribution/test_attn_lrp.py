"""The rules of AttnLRP, each by hand, and the law that relevance is handed on and not made."""

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

import vitbook
from vitbook.analysis import attn_lrp
from vitbook.analysis.attribution.attn_lrp import Rules
from vitbook.model_utilities import evaluating

IMAGES = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
TARGETS = torch.tensor([0, 4, 9])


def ours():
    torch.manual_seed(0)
    return vitbook.create_model("vit_micro_patch2_8").eval()


def timms(fused):
    torch.manual_seed(0)
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=8, patch_size=2, in_chans=1, num_classes=10, depth=2,
        init_values=0.5,
    )  # fmt: skip
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = fused
    return model.eval()


MODELS = {"ours": ours, "timm's": lambda: timms(True), "written out": lambda: timms(False)}


CONSTANTS = {"prefix", "position", "cls_token", "pos_embed"}


def without_constants(model):
    """Nothing but the image adds anything: no bias, no position, a class token of zeros."""
    for name, weight in model.named_parameters():
        if name.endswith("bias") or {*name.split(".")} & CONSTANTS:
            nn.init.zeros_(weight)
        elif weight.ndim > 1:
            nn.init.normal_(weight, std=0.1)  # a head of zeros would tell nothing
    return model


def relevance(compute, *given, gamma=0.0, **rules):
    """Input times gradient under the rules, of each input."""
    given = [each.clone().requires_grad_() for each in given]
    with Rules(gamma, **rules):
        out = compute(*given)
    found = torch.autograd.grad(out, given)
    return [each.detach() * slope for each, slope in zip(given, found, strict=True)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("gamma", [0.0, 0.25])
def test_the_rules_change_no_value(name, gamma):
    model = MODELS[name]()
    with torch.no_grad(), evaluating(model):
        expected = model(IMAGES)
        with Rules(gamma):
            found = model(IMAGES)
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("gamma", [0.0, 0.25])
def test_a_model_without_constants_hands_the_whole_logit_to_its_patches(name, gamma):
    model = without_constants(MODELS[name]()).double()
    images = IMAGES.double()
    logits = model(images).gather(1, TARGETS[:, None])[:, 0]
    maps = attn_lrp(model, images, TARGETS, gamma=gamma, through_softmax=False)
    assert logits.abs().min() > 1e-3
    assert torch.allclose(maps.sum((1, 2)), logits, rtol=1e-3)
    # The control: GELU and norm leave input times gradient with another sum.
    given = images.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(given).gather(1, TARGETS[:, None]).sum(), given)
    plain = (images * slope).sum((1, 2, 3))
    assert ((plain - logits) / logits).abs().max() > 0.05


def test_fused_and_written_out_attention_are_one():
    fused, written = (
        attn_lrp(MODELS[each](), IMAGES, TARGETS) for each in ("timm's", "written out")
    )
    assert torch.allclose(fused, written, atol=1e-6)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "compiled", "in parts"])
def test_one_model_has_one_map_however_it_is_kept(name):
    expected, model = attn_lrp(timms(True), IMAGES, TARGETS), timms(True)
    if name == "compiled":
        model = torch.compile(model, backend="eager")
    elif name == "in parts":
        model.blocks[0] = torch.compile(model.blocks[0], backend="eager")
    else:
        model = model.to(getattr(torch, name))
    found = attn_lrp(model, IMAGES, TARGETS, batch_size=2).float()
    near = 0.05 if name.endswith("float16") else 1e-4
    assert (found - expected).norm() < near * expected.norm()


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: F.rms_norm(x, (6,)),
        lambda x: F.group_norm(x, 2),
        lambda x: torch.einsum("b i, c i -> b c", x, x.abs()),
        lambda x: torch.mm(x, x.T),
        lambda x: x * torch.sigmoid(1.702 * x),
    ],
)
def test_each_operation_hands_on_what_it_got(compute):
    x = torch.rand(4, 6).double()
    x = x - x.view(4, 2, 3).mean(2).repeat_interleave(3, 1)  # a norm leaves no mean to take away
    outgoing = torch.arange(1.0, 5)[:, None]
    (found,) = relevance(lambda x: (compute(x) * outgoing).sum(), x)
    assert torch.allclose(found.sum(), (compute(x) * outgoing).sum())
    with Rules(0.0):
        assert torch.allclose(compute(x.requires_grad_()), compute(x.detach()))


def test_a_linear_model_has_input_times_gradient():
    class Linear(nn.Linear):
        grid_size, num_prefix_tokens = (4, 4), 0

        def forward(self, images):
            return super().forward(images.flatten(1))

    model = Linear(64, 10)
    found = attn_lrp(model, IMAGES, TARGETS, gamma=0.0)
    by_hand = (IMAGES[:, 0].flatten(1) * model.weight[TARGETS]).view(3, 4, 2, 4, 2).sum((2, 4))
    assert torch.allclose(found, by_hand, atol=1e-6)


def test_gamma_by_hand():
    x, weight, bias = torch.randn(5), torch.randn(4, 5), torch.randn(4)
    outgoing, gamma = torch.randn(4), 0.5
    found, _, _ = relevance(
        lambda x, w, b: (F.linear(x, w, b) * outgoing).sum(), x, weight, bias, gamma=gamma
    )
    expected = torch.zeros(5)
    for j in range(4):
        parts = [*(x[i] * weight[j, i] for i in range(5)), bias[j]]
        z = sum(parts)
        counted = [part * (1 + gamma * (part * z > 0)) for part in parts]
        for i in range(5):
            expected[i] += counted[i] / sum(counted) * z * outgoing[j]
    assert torch.allclose(found, expected, atol=1e-5)


def test_softmax_and_products_as_printed():
    x, outgoing = torch.randn(6), torch.randn(6)
    (found,) = relevance(lambda x: (x.softmax(0) * outgoing).sum(), x)
    s = x.softmax(0)
    received = s * outgoing
    assert torch.allclose(found, x * (received - s * received.sum()), atol=1e-6)
    a, v = torch.rand(3, 4), torch.randn(4, 2)
    of_a, of_v = relevance(lambda a, v: (a @ v).sum(), a, v)
    assert torch.allclose(of_a.sum(), (a @ v).sum() / 2)
    assert torch.allclose(of_v.sum(), (a @ v).sum() / 2)


def test_a_norm_and_an_activation_hand_on_what_they_got():
    x = torch.randn(7)
    outgoing = torch.randn(7)
    (found,) = relevance(lambda x: (F.layer_norm(x, (7,)) * outgoing).sum(), x)
    assert torch.allclose(found.sum(), (F.layer_norm(x, (7,)) * outgoing).sum(), atol=1e-4)
    (found,) = relevance(lambda x: (F.gelu(x) * outgoing).sum(), x)
    assert torch.allclose(found, F.gelu(x) * outgoing, atol=1e-6)


def test_the_model_is_left_as_it_came():
    model = ours()
    model.head.requires_grad_(False)
    before = [weight.requires_grad for weight in model.parameters()]
    attn_lrp(model, IMAGES)
    assert [weight.requires_grad for weight in model.parameters()] == before
    assert all(weight.grad is None for weight in model.parameters())


def test_what_has_no_rule_is_refused():
    with pytest.raises(ValueError, match="gamma -1: expected a number from 0 on"):
        attn_lrp(ours(), IMAGES, gamma=-1)
    model = timms(True)
    model.set_grad_checkpointing(True)
    with pytest.raises(ValueError, match=r"are checkpointed: .*set_grad_checkpointing\(False\)"):
        attn_lrp(model, IMAGES)
    model = torchvision.models.vit_b_16(image_size=32, num_classes=10)
    with pytest.raises(ValueError, match="MultiheadAttention keeps its parts inside one function"):
        attn_lrp(model, torch.rand(1, 3, 32, 32))
