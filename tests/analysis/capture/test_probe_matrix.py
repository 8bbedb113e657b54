"""Every probe on models of others, as their libraries build them, two narrow layers deep.

Each cell is a result checked by hand, or the sentence with which the probe refuses. The matrix:

    python -m pytest -o addopts= tests/analysis/capture/test_probe_matrix.py -s
"""

from functools import cached_property
from math import hypot

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from einops import rearrange
from torch import nn

from vitbook import analysis

SIDE = 112  # px: 7 x 7 patches of 16; of DINOv2's 14 they make 8 x 8


class ProbedModel:
    """A model, two images, and what a probe should find, computed without the library."""

    def __init__(self, make, patch, prefix, blocks):
        torch.manual_seed(0)
        self.model, self.patch, self.prefix, self.blocks = make().eval(), patch, prefix, blocks
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.02)
        self.images, self.side = torch.randn(4, 3, SIDE, SIDE), SIDE // patch
        self.labels = torch.tensor([1, 2, 3, 4])
        self.grid = (self.side, self.side)

    def run(self, images=None):
        with torch.no_grad():
            return self.model(self.images if images is None else images)

    @cached_property
    def top(self):
        return self.run().argmax(1)

    @cached_property
    def seen(self):
        """For each block its attention, the derivative of the top logit by it, and its output."""
        top, found, handles = self.top, [], []

        def attend(module, args, kwargs, output):
            tokens = args[0] if args else kwargs["query"]
            if isinstance(module, nn.MultiheadAttention):
                projected = F.linear(tokens, module.in_proj_weight, module.in_proj_bias)
                output, last = output[0], module.out_proj
            else:
                projected, last = module.qkv(tokens), module.proj
            q, k, v = rearrange(projected, "b n (t h d) -> t b h n d", t=3, h=module.num_heads)
            heads = [
                (q[:, h] @ k[:, h].mT / q.shape[-1] ** 0.5).softmax(-1) for h in range(q.shape[1])
            ]
            output.retain_grad()
            found.append(
                (torch.stack(heads, dim=1).detach(), output, last.weight.detach(), v.detach())
            )

        outputs = []
        for module in self.model.modules():
            if isinstance(module, nn.MultiheadAttention) or type(module).__name__ == "Attention":
                handles.append(module.register_forward_hook(attend, with_kwargs=True))
        for path in self.blocks:
            block = self.model.get_submodule(path)
            handles.append(block.register_forward_hook(lambda _, given, out: outputs.append(out)))
        self.model(self.images).gather(1, top[:, None]).sum().backward()
        for handle in handles:
            handle.remove()
        self.model.zero_grad()
        maps, slopes = [], []
        for weights, output, last, v in found:
            # The output is (weights v) last^T: back through the projection, then to the weights.
            joined = rearrange(output.grad @ last, "b n (h d) -> b h n d", h=v.shape[1])
            maps.append(weights)
            slopes.append(joined @ v.mT)
        return maps, slopes, [out.detach() for out in outputs]

    def from_what_is_read(self, rows):
        """The class token; of a distilled model its other token too."""
        read = 2 if "Distilled" in type(self.model).__name__ else 1
        return rows[:, :read, self.prefix :].mean(1).unflatten(1, self.grid)


def near(found, expected, tolerance=1e-3):
    assert found.shape == expected.shape and expected.std() > 0
    assert (found - expected).abs().max() <= tolerance * expected.abs().max()


def attention(subject):
    with analysis.capture_attention(subject.model) as maps:
        subject.run()
    own, _, _ = subject.seen
    assert len(maps) == len(own) == 2
    for weights, by_hand in zip(maps.values(), own, strict=True):
        assert weights.std() > 1e-4 and (weights - by_hand).abs().max() < 1e-5


def distance(subject):
    steps = [(subject.patch * r, subject.patch * c) for r in range(subject.side)
             for c in range(subject.side)]  # fmt: skip
    pixels = torch.tensor([[hypot(y - v, x - u) for v, u in steps] for y, x in steps])
    patches = [own[..., subject.prefix :, subject.prefix :] for own in subject.seen[0]]
    far = torch.stack([(own * pixels).sum(-1).mean((0, 2)) for own in patches])
    near(analysis.mean_attention_distance(subject.model, subject.images), far)


def weight_on_prefix(subject):
    p = subject.prefix
    given = torch.stack([own[..., p:, :p].sum(-1).mean((0, 2)) for own in subject.seen[0]])
    near(analysis.mean_weight_on_prefix(subject.model, subject.images), given)


def rollout(subject):
    eye = product = torch.eye(subject.prefix + subject.side**2)
    for own in subject.seen[0]:
        product = (own.mean(1) + eye) / 2 @ product
    found = analysis.attention_rollout(subject.model, subject.images)
    near(found, subject.from_what_is_read(product))


def gradient_rollout(subject):
    eye = product = torch.eye(subject.prefix + subject.side**2)
    for own, slope in zip(*subject.seen[:2], strict=True):
        mixed = ((own * slope).clamp(min=0).mean(1) + eye) / 2
        product = mixed / mixed.sum(-1, keepdim=True) @ product
    found = analysis.gradient_rollout(subject.model, subject.images)
    near(found, subject.from_what_is_read(product), 0.01)


def relevance(subject):
    total = torch.eye(subject.prefix + subject.side**2)
    for own, slope in zip(*subject.seen[:2], strict=True):
        total = total + (own * slope).clamp(min=0).mean(1) @ total
    near(
        analysis.relevance(subject.model, subject.images), subject.from_what_is_read(total), 0.01
    )  # fmt: skip


def filters(subject):
    first = next(m for m in subject.model.modules() if isinstance(m, nn.Conv2d))
    found = analysis.embedding_filters(subject.model).filters
    assert torch.equal(found, first.weight.detach())
    shares = analysis.principal_filters(found).shares
    singular = torch.linalg.svdvals((found - found.mean(0)).flatten(1).double())
    near(shares, (singular**2 / (singular**2).sum())[: len(shares)])


def positions(subject):
    (table,) = (
        parameter
        for name, parameter in subject.model.named_parameters()
        if name.rpartition(".")[2] in ("pos_embed", "pos_embedding")
    )
    rows = F.normalize(table[0, -(subject.side**2) :].detach(), dim=1)
    (found,) = analysis.position_tables(subject.model).values()
    near(analysis.positional_similarity(*found).flatten(0, 1).flatten(1), rows @ rows.T)


def feature_maps(subject):
    found = analysis.feature_maps(subject.model, subject.images, subject.blocks)
    for path, out in zip(subject.blocks, subject.seen[2], strict=True):
        expected = out[:, subject.prefix :].mT.unflatten(2, subject.grid)
        near(found[path], expected)


def effective_field(subject):
    found = analysis.effective_field(subject.model, subject.images[:2])
    assert found.shape == (SIDE, SIDE) and (found >= 0).all()
    # A token's own patch moves it most: by the shortcut no layer comes between.
    row = column = subject.side // 2
    patches = found.unflatten(0, (subject.side, -1)).unflatten(2, (subject.side, -1)).sum((1, 3))
    assert divmod(int(patches.argmax()), subject.side) == (row, column)


def cka(subject):
    model, blocks = subject.model, subject.blocks
    found = analysis.cka(model, model, subject.images, blocks, blocks)
    first, second = (out.flatten(1) for out in subject.seen[2])
    between = analysis.linear_cka(first, second).item()
    assert found.diagonal().tolist() == pytest.approx([1, 1], abs=1e-6)
    assert found[0, 1].item() == pytest.approx(between, abs=1e-4)


def integrated_gradients(subject):
    images, top = subject.images[:2], subject.top[:2]
    found = analysis.integrated_gradients(subject.model, images, top, baseline="blur", steps=16)
    gone = analysis.baseline_images(images, "blur")
    gained = (subject.run(images) - subject.run(gone)).gather(1, top[:, None])[:, 0]
    near(found.sum((1, 2)), gained, 0.1)


def occlusion(subject):
    one, top = subject.images[:1], subject.top[:1]
    found = analysis.patch_occlusion(subject.model, one, top)
    black, said = one.clone(), getattr(subject.model, "pretrained_cfg", None)
    mean, deviation = (said["mean"], said["std"]) if said else ((0.5,) * 3, (0.5,) * 3)
    for channel in range(3):  # zero, normalised as the model's images are
        level = -mean[channel] / deviation[channel]
        black[:, channel, : subject.patch, -subject.patch :] = level
    fall = (subject.run(one) - subject.run(black))[0, top]
    assert found[0, 0, -1].item() == pytest.approx(fall.item(), abs=1e-3)


def grad_cam(subject):
    kept = []
    block = subject.model.get_submodule(subject.blocks[0])
    handle = block.register_forward_hook(lambda _, given, out: kept.append(out))
    logits = subject.model(subject.images).gather(1, subject.top[:, None]).sum()
    handle.remove()
    (slope,) = torch.autograd.grad(logits, kept[0])
    p = subject.prefix
    cam = (kept[0][:, p:] * slope[:, p:].mean(1, keepdim=True)).sum(-1).relu().detach()
    found = analysis.token_grad_cam(subject.model, subject.images, subject.top)
    near(found, cam.unflatten(1, subject.grid), 0.01)


PROBES = [
    attention, distance, weight_on_prefix, rollout, gradient_rollout, relevance, filters,
    positions, feature_maps, effective_field, cka, integrated_gradients,
    occlusion, grad_cam,
]  # fmt: skip

TIMM_BLOCKS = ("blocks.0", "blocks.1")


def of_timm(name):
    small = dict(img_size=SIDE, depth=2, embed_dim=192, num_heads=3, num_classes=10)
    return lambda: timm.create_model(name, **small)


def of_torchvision():
    return torchvision.models.VisionTransformer(
        SIDE, 16, num_layers=2, num_heads=3, hidden_dim=192, mlp_dim=768, num_classes=10
    )


MODELS = {  # name -> (model, patch, prefix tokens, its blocks)
    "timm vit_base_patch16_224": (of_timm("vit_base_patch16_224"), 16, 1, TIMM_BLOCKS),
    "timm deit_base_distilled_patch16_224": (
        of_timm("deit_base_distilled_patch16_224"), 16, 2, TIMM_BLOCKS,
    ),
    "timm vit_base_patch14_reg4_dinov2": (
        of_timm("vit_base_patch14_reg4_dinov2"), 14, 5, TIMM_BLOCKS,
    ),
    "torchvision vit_b_16": (
        of_torchvision, 16, 1,
        ("encoder.layers.encoder_layer_0", "encoder.layers.encoder_layer_1"),
    ),
    "timm resnet18": (lambda: timm.create_model("resnet18", num_classes=10), 16, 0, ()),
}  # fmt: skip

NO_ATTENTION = "no attention ran"
NO_GRID = "does not say its (grid_size|num_prefix_tokens)"
# What cannot be asked of a convolutional network, and the sentence that says so.
REFUSED = {
    ("timm resnet18", probe): sentence
    for sentence, probes in {
        NO_ATTENTION: (attention,),
        NO_GRID: (distance, weight_on_prefix, rollout, gradient_rollout, relevance,
                  integrated_gradients, occlusion, grad_cam),
        "adds no table of positions": (positions,),
    }.items()
    for probe in probes
}  # fmt: skip
# Checked elsewhere: there is no block here whose output is known by hand.
ELSEWHERE = {
    ("timm resnet18", probe): "see test_feature_maps, test_similarity"
    for probe in (feature_maps, effective_field, cka)
}


@pytest.fixture(scope="module")
def subjects():
    return {}


@pytest.fixture(scope="module")
def matrix():
    cells = {}
    yield cells
    for name in dict.fromkeys(name for name, _ in cells):
        print(f"\n{name}")
        for (of, probe), cell in cells.items():
            if of == name:
                print(f"  {probe:20} {cell}")


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
@pytest.mark.parametrize("name", MODELS)
def test_cell(name, probe, subjects, matrix):
    if (name, probe) in ELSEWHERE:
        pytest.skip(ELSEWHERE[name, probe])
    subject = subjects.get(name) or subjects.setdefault(name, ProbedModel(*MODELS[name]))
    if sentence := REFUSED.get((name, probe)):
        with pytest.raises((ValueError, RuntimeError), match=sentence) as refusal:
            CALLS.get(probe, probe)(subject)
        matrix[name, probe.__name__] = f"refused: {refusal.value}"
    else:
        probe(subject)
        matrix[name, probe.__name__] = "checked"


def call(name, *needs):
    """A probe called alone, for a model of which nothing is known by hand."""
    return lambda subject: getattr(analysis, name)(
        subject.model, *(getattr(subject, need) for need in needs)
    )


CALLS = {
    distance: call("mean_attention_distance", "images"),
    weight_on_prefix: call("mean_weight_on_prefix", "images"),
    rollout: call("attention_rollout", "images"),
    gradient_rollout: call("gradient_rollout", "images"),
    relevance: call("relevance", "images"),
    positions: call("position_tables"),
    integrated_gradients: call("integrated_gradients", "images", "top"),
    occlusion: call("patch_occlusion", "images", "top"),
    grad_cam: call("token_grad_cam", "images", "top"),
}
