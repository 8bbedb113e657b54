"""The device and its precision, chosen and checked in one place.

CUDA, MPS (the GPU of a Mac) and the CPU are known. MPS was not run: this file follows what torch
documents of it, and takes the careful choice where there are two.
"""

import os
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

KINDS = "cpu, cuda or mps"


def choose_device(device: str | torch.device | None = None) -> torch.device:
    """The device that was asked for; by default CUDA if it is there, else MPS, else the CPU.

    Raises:
        ValueError: no such device, or none on this machine.
    """
    count = {
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
        "cpu": 1,
    }
    if device is None:
        return torch.device(next(kind for kind in count if count[kind]))
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device {device}: expected {KINDS}, or leave it out") from error
    if chosen.type not in count:
        raise ValueError(f"device {device}: expected {KINDS}, or leave it out")
    if (chosen.index or 0) >= count[chosen.type]:
        raise ValueError(
            f"device {device}: torch sees {count[chosen.type]} of this kind here; take cpu"
        )
    return chosen


def gpu_of_process(device: torch.device, number: int) -> torch.device:
    """The device of process ``number`` among several on a machine: each takes its own GPU.

    Raises:
        ValueError: MPS, over which torch's processes cannot speak.
    """
    if device.type == "mps":
        raise ValueError("several processes on mps: expected cpu or cuda; use --device cpu")
    if device.type == "cuda":
        device = torch.device("cuda", number)
        torch.cuda.set_device(device)
    return device


def gpu_name(device: torch.device) -> str | None:
    """For example NVIDIA H200; None for the CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return "Apple GPU (MPS)" if device.type == "mps" else None


def training_dtype(device: torch.device) -> torch.dtype:
    """The precision of a training step's forward pass: bfloat16 if the GPU has it, else float32.

    GPUs before Ampere, such as the T4, only emulate bfloat16. MPS has it under autocast from
    macOS 14 on, and float32 on every macOS: it stays at float32.
    """
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if has_bfloat16 else torch.float32


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager:
    """A context in which matrix products run in ``dtype``; float32 changes nothing."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype)


def float64_device(device: torch.device) -> torch.device:
    """The device itself, or the CPU for MPS, which has no float64."""
    return torch.device("cpu") if device.type == "mps" else device


def to_float64(tensor: Tensor) -> Tensor:
    """The same numbers in float64, on :func:`float64_device`."""
    # In two steps: in one, torch may convert on MPS before it copies.
    return tensor.to(float64_device(tensor.device)).double()


def synchronize(device: torch.device) -> None:
    """Wait until the GPU has finished its work; the CPU never runs behind."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def release_memory(device: torch.device) -> None:
    """Give back the memory that torch's allocator keeps for later tensors."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def counts_memory(device: torch.device) -> bool:
    """Whether the device's allocator counts its peak: CUDA's does, MPS's and the CPU's do not."""
    return device.type == "cuda"


def restart_peak(device: torch.device) -> int:
    """Let :func:`peak_bytes` count from now on; returns the bytes held now."""
    synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def peak_bytes(device: torch.device) -> int:
    """Most bytes that the allocator held at once since :func:`restart_peak`, or since the start."""
    synchronize(device)
    return torch.cuda.max_memory_allocated(device)


def set_threads(threads: int | None) -> None:
    """Use so many threads of the CPU; None leaves torch's choice.

    Raises:
        ValueError: fewer than one, or more than four for each core.
    """
    most = 4 * (os.cpu_count() or 1)
    if threads is not None:
        if not 1 <= threads <= most:
            raise ValueError(f"threads {threads}: expected 1 to {most} on this machine")
        torch.set_num_threads(threads)
