"""Randomness as a function: of the seed, the step, and the place of an image in its batch.

Nothing is carried from one step to the next, so a run that was killed goes on with the same
numbers, and two processes that share a batch draw what one process would.
"""

from hashlib import blake2b

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


def seed_of(*place: int | str) -> int:
    """63 bits that look like chance, the same for the same place."""
    digest = blake2b(repr(place).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


class BatchRandom:
    """The chances of one batch.

    Numbers are drawn on the CPU for the whole batch; this process keeps those of its images,
    every ``processes``-th from ``rank`` on.

    Args:
        batch: images in the whole batch.
        place: what the numbers are a function of, for example the seed and the step.
    """

    def __init__(self, batch: int, *place: int | str, rank: int = 0, processes: int = 1):
        self.place = place
        self.positions = torch.arange(rank, batch, processes)
        self._each = torch.Generator().manual_seed(seed_of(*place, "each"))
        self._batch = batch
        self.shared = np.random.default_rng(seed_of(*place, "once"))

    def uniform(self, low: float | int = 0.0, high: float | int = 1.0) -> Float[Tensor, "own"]:
        """One number for each image of this process."""
        everyone = torch.rand(self._batch, generator=self._each)
        return everyone[self.positions] * (high - low) + low
