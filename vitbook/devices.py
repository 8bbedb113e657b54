"""On what to compute: chosen, and checked, in one place."""

import os

import torch


def choose_device(device: str | torch.device | None = None) -> torch.device:
    """The device that was asked for; by default the GPU if there is one.

    Raises:
        ValueError: no such device, or none on this machine.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device {device}: expected cpu or cuda, or leave it out") from error
    if chosen.type not in ("cpu", "cuda"):
        raise ValueError(f"device {device}: expected cpu or cuda, or leave it out")
    there = torch.cuda.device_count() if chosen.type == "cuda" else 1
    if (chosen.index or 0) >= there:
        raise ValueError(f"device {device}: torch sees {there} of this kind here; take cpu")
    return chosen


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
