"""Forward speed against timm's twin: more than 1 is faster than timm.

Run by `make bench`, without the checking of shapes that pytest turns on elsewhere.
"""

import pytest
import timm
import torch

import vitbook
from vitbook.measure import compare_speed
from vitbook.models.weights.timm import load_timm

SMALL_BODY = dict(
    img_size=32, patch_size=4, embed_dim=192, depth=9, num_heads=12, mlp_ratio=2, num_classes=10
)
TWINS = {
    "vit_tiny_patch4_32": (lambda: timm.models.VisionTransformer(**SMALL_BODY, qkv_bias=False), 64),
    "vit_base_patch16_224": (lambda: timm.create_model("vit_base_patch16_224"), 4),
}


def share_weights(ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
    """Let both read the same memory: where weights lie is worth some percent, by chance."""
    for own in ours.parameters():
        same = (p for p in theirs.parameters() if p.numel() == own.numel())
        own.data = next(p.data.view_as(own) for p in same if torch.equal(p.view_as(own), own))


@pytest.mark.parametrize("name", TWINS)
@torch.inference_mode()
def test_forward(name):
    make_twin, batch = TWINS[name]
    theirs = make_twin().eval()
    ours = load_timm(vitbook.create_model(name), theirs).eval()
    share_weights(ours, theirs)
    size = ours.spec.image_size
    images = torch.randn(batch, 3, size, size)
    assert (ours(images) - theirs(images)).abs().max() < 1e-4
    ratio = compare_speed(lambda: ours(images), lambda: theirs(images), pairs=40)
    print(f"\n{name}: {ratio} against timm, batch {batch}, {torch.get_num_threads()} threads, CPU")
    assert ratio.low >= 0.97
