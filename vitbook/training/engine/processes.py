"""One process or many: ``torchrun`` starts them, this file lets them speak."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from vitbook.devices import choose_device, gpu_of_process


@dataclass(frozen=True)
class Processes:
    """Which one of how many this process is."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def sum(self, numbers: Tensor) -> Tensor:
        """The sum over all processes, the same in each."""
        if self.count > 1:
            numbers = numbers.clone()
            dist.all_reduce(numbers)
        return numbers

    def wait(self) -> None:
        if self.count > 1:
            dist.barrier()


def processes() -> Processes:
    """Those that :func:`joined` has joined, or this one alone."""
    if not (dist.is_available() and dist.is_initialized()):
        return Processes()
    return Processes(dist.get_rank(), dist.get_world_size())


@contextmanager
def joined(device: str | None = None) -> Iterator[torch.device]:
    """Join the processes that ``torchrun`` started, if it did; yields this one's device.

    Args:
        device: "cpu" or "cuda"; by default the GPU if there is one. Each process of a machine
            takes a GPU of its own.
    """
    kind = choose_device(device)
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        yield kind
        return
    kind = gpu_of_process(kind, int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(dist.get_default_backend_for_device(kind))
    try:
        yield kind
    finally:
        dist.destroy_process_group()
