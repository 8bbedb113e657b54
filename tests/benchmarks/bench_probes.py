"""What a probe costs, as a multiple of a plain forward pass of the same images: `make bench`.

ViT-B/16, ours and timm's, random weights, in evaluation without gradients, attention fused. Each
probe is run as a user calls it: `mean_attention_distance(model, images)` measures every head of
every layer, `attention_rollout(model, images)` the class token's row.

    PAIRS=5 python -m pytest -o addopts= tests/benchmarks/bench_probes.py -s
"""

import os

import pytest
import timm
import torch

import vitbook
from vitbook.analysis import attention_rollout, mean_attention_distance
from vitbook.measure import compare_speed

PAIRS = int(os.environ.get("PAIRS", 20))
PROBES = {"distance": mean_attention_distance, "rollout": attention_rollout}
MODELS = {
    "vitbook": lambda size: vitbook.create_model("vit_base_patch16_224", image_size=size),
    "timm": lambda size: timm.create_model("vit_base_patch16_224", img_size=size),
}


@pytest.mark.parametrize(("size", "batch"), [(224, 16), (384, 4)])
@pytest.mark.parametrize("library", MODELS)
@pytest.mark.parametrize("probe", PROBES)
@torch.no_grad()
def test_cost(probe, library, size, batch):
    torch.manual_seed(0)
    model, images = MODELS[library](size).eval(), torch.randn(batch, 3, size, size)
    look = PROBES[probe]
    ratio = compare_speed(
        lambda: model(images), lambda: look(model, images, batch_size=batch), pairs=PAIRS
    )
    print(
        f"\n{probe} of {library}'s ViT-B/16, {size} px, {batch} images, "
        f"{torch.get_num_threads()} threads: {ratio} of a forward pass"
    )
