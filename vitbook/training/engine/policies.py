"""AutoAugment, RandAugment and TrivialAugment by torchvision, drawn anew for each small group.

torchvision's v2 transforms draw once for a whole batch. A call for each image would cost more
than the training step; a call for each few images is a compromise that one can set.
"""

from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import UInt8
from torch import Tensor

from vitbook.extras import from_extra
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.batch_random import BatchRandom, seed_of


@cache
def _policy(name: str) -> Callable[[Tensor], Tensor]:
    with from_extra("train"):
        from torchvision.transforms import v2  # takes a second, and few runs need it

    return {
        "autoaugment_cifar10": lambda: v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10),
        "autoaugment_imagenet": lambda: v2.AutoAugment(v2.AutoAugmentPolicy.IMAGENET),
        "randaugment": lambda: v2.RandAugment(num_ops=2, magnitude=9),
        "trivialaugment": lambda: v2.TrivialAugmentWide(),
    }[name]()


def apply_policy(
    images: UInt8[Tensor, "batch channels height width"], recipe: Recipe, rng: BatchRandom
) -> UInt8[Tensor, "batch channels height width"]:
    """``recipe.policy_group`` neighbours of the whole batch share what is done to them."""
    policy = _policy(recipe.policy)
    groups, sizes = (rng.positions // recipe.policy_group).unique_consecutive(return_counts=True)
    changed = []
    with torch.random.fork_rng(devices=[]):  # torchvision draws from torch's own generator
        for group, few in zip(groups.tolist(), images.split(sizes.tolist()), strict=True):
            torch.random.default_generator.manual_seed(seed_of(*rng.place, "policy", group))
            changed.append(policy(few))
    return torch.cat(changed)
