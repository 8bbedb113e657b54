"""Small inputs that several figures take, the same at every call."""

import copy

import numpy as np
import torch

from vitbook import create_model

NAMES = ("one", "two", "three")


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def digits():
    """Three grey images of noise, uint8 "3 1 8 8"."""
    return torch.randint(0, 256, (3, 1, 8, 8), dtype=torch.uint8, generator=seeded(0))


def photo(height: int, width: int):
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=seeded(2))


def maps():
    """Two models' maps, "2 layers, 3 images, 2 heads, 17 tokens", rows summing to one."""
    scores = np.random.default_rng(0).normal(scale=2, size=(2, 2, 3, 2, 17, 17))
    powers = np.exp(scores)
    sharp, soft = powers / powers.sum(-1, keepdims=True)
    return {"trained": sharp, "uniform": np.full_like(soft, 1 / 17)}


def loud(module, seed: int, std: float = 0.15):
    """A module whose weights are so large that its attention is far from uniform."""
    generator = seeded(seed)
    with torch.no_grad():
        for name, value in module.named_parameters():
            if "norm" not in name:
                value.normal_(std=std, generator=generator)
    return module.eval()


def digits_model():
    return loud(create_model("vit_micro_patch2_8"), 1)


def blind_model():
    """The same with nothing in its table of positions."""
    blind = copy.deepcopy(digits_model())
    torch.nn.init.zeros_(blind.position.table)
    return blind
