"""Parameters, operations, speed, memory: how each is counted is said where it is counted."""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def count_parameters(model: nn.Module) -> int:
    """Numbers that are learned; buffers do not count."""
    return sum(parameter.numel() for parameter in model.parameters())


@torch.no_grad()
def count_macs(model: nn.Module, *inputs) -> int:
    """Multiply-accumulates of one forward pass of ``inputs``, whole batch.

    torch's flop counter sees matrix products, convolutions and attention, each multiply-add as
    two; this is half of it. Norms, activations and additions are not counted, as in the papers.
    """
    # The fused kernel of the CPU is one the counter has no formula for; the plain one it has.
    with (
        FlopCounterMode(display=False) as counter,
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    ):
        model(*inputs)
    return counter.get_total_flops() // 2


@dataclass(frozen=True)
class Ratio:
    """How many times as fast A is as B: the median over pairs, and its 95 % interval."""

    median: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}] over {self.pairs} pairs"


def compare_speed(
    a: Callable[[], object], b: Callable[[], object], pairs: int = 20, warmup: int = 3
) -> Ratio:
    """Speed of ``a`` over that of ``b``, in interleaved pairs on the same machine.

    Above 1, ``a`` is faster. Absolute times are not given: on a shared machine they mean nothing,
    the ratio of two neighbours in time does. The interval is a bootstrap of the median.
    """

    def seconds(function: Callable[[], object]) -> float:
        _synchronize()
        start = time.perf_counter()
        function()
        _synchronize()
        return time.perf_counter() - start

    for _ in range(warmup):
        a(), b()
    ratios = []
    for pair in range(pairs):
        if pair % 2:  # whoever goes second may find the caches warm
            time_a = seconds(a)
            time_b = seconds(b)
        else:
            time_b = seconds(b)
            time_a = seconds(a)
        ratios.append(time_b / time_a)
    draws = np.random.default_rng(0).choice(ratios, size=(10_000, pairs))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return Ratio(median(ratios), float(low), float(high), pairs)


def peak_memory(function: Callable[[], object]) -> int:
    """Most bytes that torch's allocator held at once while ``function`` ran, over its start.

    On a GPU the allocator's own counter; on the CPU the running sum of every allocation and
    release that the profiler saw.
    """
    if torch.cuda.is_available():
        _synchronize()
        torch.cuda.reset_peak_memory_stats()
        start = torch.cuda.memory_allocated()
        function()
        _synchronize()
        return torch.cuda.max_memory_allocated() - start
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


def memory_so_far(device: torch.device) -> int:
    """Most bytes held at once since the start: on a GPU by torch, else by the whole process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
