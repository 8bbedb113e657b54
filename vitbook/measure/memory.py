"""Memory: what stands, and the most that was held at once."""

import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from vitbook.devices import choose_device, counts_memory, peak_bytes, restart_peak


def peak_memory(function: Callable[[], object], device: str | torch.device | None = None) -> int:
    """Most bytes that torch's allocator held at once while ``function`` ran, over its start.

    On a GPU the allocator's own counter; on the CPU the running sum of every allocation and
    release that the profiler saw.

    Args:
        function: what is run.
        device: whose memory; by default the GPU's, if there is one that counts it.

    Raises:
        ValueError: a GPU that does not count the most that it held.
    """
    chosen = choose_device(device)
    if counts_memory(chosen):
        start = restart_peak(chosen)
        function()
        return peak_bytes(chosen) - start
    if device is not None and chosen.type != "cpu":
        raise ValueError(f"torch counts no peak of memory on {chosen}: measure on cpu or cuda")
    # The profiler greets on stderr, and looks for a GPU that is not there.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profile:
        function()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    changes = sorted(
        (event["ts"], event["args"]["Bytes"]) for event in events if event["name"] == "[memory]"
    )
    return int(np.cumsum([0] + [size for _, size in changes]).max())


def memory_held(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> int:
    """Bytes of a model's parameters and buffers, and of what its optimizer remembers."""
    held = [*model.parameters(), *model.buffers()]
    if optimizer is not None:
        for state in optimizer.state.values():
            held += [value for value in state.values() if isinstance(value, Tensor)]
    return sum(tensor.nbytes for tensor in held)


def memory_so_far(device: torch.device) -> int:
    """Most bytes held at once since the start: on a GPU by torch, else by the whole process."""
    if counts_memory(device):
        return peak_bytes(device)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
