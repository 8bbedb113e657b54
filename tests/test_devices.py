"""Without a GPU: what torch says of one is replaced, and what would run there is written down."""

import os
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from vitbook import devices, measure, runs
from vitbook.devices import autocast, choose_device, set_threads, to_float64, training_dtype
from vitbook.training.engine.memory import is_out_of_memory, largest_fitting_batch

CPU, CUDA, MPS = (torch.device(kind) for kind in ("cpu", "cuda", "mps"))


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many CUDA devices, and MPS or not."""

    def of(cuda: int, mps: bool) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return of


@pytest.fixture
def called(monkeypatch):
    """The calls that would reach a GPU, in order; a CUDA device holds 5 bytes, and held 12."""
    seen = []
    for name, answer in {
        "cuda.synchronize": None,
        "cuda.empty_cache": None,
        "cuda.set_device": None,
        "cuda.reset_peak_memory_stats": None,
        "cuda.memory_allocated": 5,
        "cuda.max_memory_allocated": 12,
        "cuda.get_device_name": "NVIDIA H200",
        "mps.synchronize": None,
        "mps.empty_cache": None,
    }.items():

        def note(*given, name=name, answer=answer):
            seen.append((name, *map(str, given)))
            return answer

        kind, function = name.split(".")
        monkeypatch.setattr(getattr(torch, kind), function, note)
    return seen


@pytest.mark.parametrize(
    ("cuda", "mps", "chosen"),
    [(0, False, "cpu"), (0, True, "mps"), (1, False, "cuda"), (2, True, "cuda")],
)
def test_the_default_is_the_fastest_that_is_there(cuda, mps, chosen, machine):
    machine(cuda, mps)
    assert choose_device() == torch.device(chosen)
    assert choose_device("cpu") == CPU
    assert choose_device(chosen) == choose_device(torch.device(chosen)) == torch.device(chosen)


@pytest.mark.parametrize(
    ("name", "gpus", "said"),
    [
        *((name, 2, "expected cpu, cuda or mps, or leave it out") for name in ("foo", "", "meta")),
        *((name, 2, "torch sees [12] of this kind") for name in ("cpu:1", "cuda:99", "mps:1")),
        *((name, 0, "torch sees 0 of this kind here; take cpu") for name in ("cuda:0", "mps")),
    ],
)
def test_a_device_that_is_not_there(name, gpus, said, machine):
    machine(gpus, gpus > 0)
    with pytest.raises(ValueError, match=f"device {name}: {said}") as error:
        choose_device(name)
    assert "\n" not in str(error.value)


def test_training_is_in_bfloat16_where_the_gpu_has_it(monkeypatch):
    for has in (True, False):

        def supported(including_emulation=True, has=has):
            return has or including_emulation  # a T4 says yes if emulation counts

        monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
        assert training_dtype(CUDA) == (torch.bfloat16 if has else torch.float32)
        assert training_dtype(CPU) == training_dtype(MPS) == torch.float32


def test_autocast():
    left, right = torch.randn(4, 4), torch.randn(4, 4)
    with autocast(CPU, torch.bfloat16):
        assert (left @ right).dtype == torch.bfloat16
    assert isinstance(autocast(MPS, torch.float32), nullcontext)


def test_float64_is_computed_where_it_is():
    assert devices.float64_device(MPS) == CPU
    assert devices.float64_device(CUDA) == CUDA
    x = torch.tensor([1 / 3])
    assert torch.equal(to_float64(x), x.double())
    assert to_float64(x.to("meta")).device.type == "meta"


def test_waiting_and_releasing(called):
    for device in (CPU, CUDA, MPS):
        devices.synchronize(device)
        devices.release_memory(device)
    assert called == [
        *(("cuda.synchronize", "cuda"), ("cuda.empty_cache",)),
        *(("mps.synchronize",), ("mps.empty_cache",)),
    ]


def test_a_gpus_own_memory_is_read(called, machine):
    machine(2, False)
    assert measure.peak_memory(lambda: called.append("run"), "cuda:1") == 12 - 5
    before, after = called[: called.index("run")], called[called.index("run") + 1 :]
    names = ["cuda.synchronize", "cuda.reset_peak_memory_stats", "cuda.memory_allocated"]
    assert before == [(name, "cuda:1") for name in names]
    assert after == [("cuda.synchronize", "cuda:1"), ("cuda.max_memory_allocated", "cuda:1")]
    assert measure.memory_so_far(CUDA) == 12


def test_mps_counts_no_peak(called, machine):
    machine(0, True)
    with pytest.raises(ValueError, match="no peak of memory on mps: measure on cpu or cuda"):
        measure.peak_memory(lambda: None, "mps")
    assert measure.peak_memory(lambda: torch.zeros(1000)) == 4000  # by default the CPU's
    assert measure.memory_so_far(MPS) > 10**6
    assert not called


def test_a_gpu_is_waited_for_around_each_timed_call(called, machine):
    machine(0, True)
    measure.interleaved_seconds([lambda: called.append("run")], rounds=1, warmup=0)
    assert called == [("mps.synchronize",), "run", ("mps.synchronize",)]


def test_names(called):
    runs.device_name.cache_clear()
    assert runs.device_name("cuda") == "NVIDIA H200"
    assert runs.device_name("mps") == "Apple GPU (MPS)"
    assert "thread" in runs.device_name("cpu")
    runs.device_name.cache_clear()


def test_each_process_takes_a_gpu_of_its_own(called):
    assert devices.gpu_of_process(CPU, 1) == CPU
    assert devices.gpu_of_process(CUDA, 1) == torch.device("cuda:1")
    assert called == [("cuda.set_device", "cuda:1")]
    with pytest.raises(ValueError, match="several processes on mps: expected cpu or cuda"):
        devices.gpu_of_process(MPS, 0)


def test_out_of_memory_on_mps(called):
    full = "MPS backend out of memory (MPS allocated: 17.27 GB, other allocations: 704.18 MB)"
    assert is_out_of_memory(RuntimeError(full))

    class Small(torch.nn.Linear):
        """Takes two images at most."""

        def forward(self, images: Tensor) -> Tensor:
            if len(images) > 2:
                raise RuntimeError(full)
            return super().forward(images.mean((2, 3)))

    assert largest_fitting_batch(Small(3, 3), torch.rand(3, 4, 4), 16) == 2


def test_threads():
    before = torch.get_num_threads()
    set_threads(None)
    assert torch.get_num_threads() == before
    set_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
    for threads in (0, 1_000_000):
        with pytest.raises(
            ValueError, match=f"threads {threads}: expected 1 to {4 * os.cpu_count()}"
        ):
            set_threads(threads)
