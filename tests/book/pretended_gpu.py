"""A GPU that is not there: its tensors lie on the CPU, and mixing the two fails as CUDA's would.

``python tests/book/pretended_gpu.py book/vit.ipynb`` runs every cell of a chapter on it and says
which stop. Which tensors are on the device is known by their storage, so that views, gradients and
what autograd makes on its way are on it too.
"""

import json
import os
import sys
import traceback
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device("cuda", 0)
MIXED = "Expected all tensors to be on the same device, but found at least two, cuda:0 and cpu"
INDEXED = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
TO_NUMPY = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first"


class PretendedError(RuntimeError):
    """What a GPU would have refused."""


class Tags(TorchDispatchMode):
    """Follows the device through every operation, those of a backward pass too."""

    def __init__(self):
        super().__init__()
        self._there: dict[int, StorageWeakRef] = {}
        self._most = 100  # entries, before those are dropped that nothing holds any more

    def on(self, tensor: Tensor) -> bool:
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a tensor of vmap, a sparse one
            return False
        known = self._there.get(storage._cdata)
        return known is not None and not known.expired()

    def put(self, tensor: Tensor, there: bool) -> Tensor:
        storage = tensor.untyped_storage()
        if there:
            if len(self._there) >= self._most:  # a storage that is watched keeps its memory
                left = {key: ref for key, ref in self._there.items() if not ref.expired()}
                self._there, self._most = left, 2 * len(left) + 100
            self._there[storage._cdata] = StorageWeakRef(storage)
        else:
            self._there.pop(storage._cdata, None)
        return tensor

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = tensors_in((args, kwargs))
        there = [self.on(each) for each in given]
        if not any(there):
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        if torch._C._is_torch_function_all_disabled():
            pass  # a capture at its sums: what it makes on a tensor's device is not seen
        elif name in INDEXING:
            if not there[0]:
                raise PretendedError(f"{INDEXED} in {name}")
        elif name not in ("copy_", "set_"):
            left = [tuple(x.shape) for x, on in zip(given, there, strict=True) if x.ndim and not on]
            if left:
                raise PretendedError(f"{MIXED} (in {name}, on the CPU: {left[:3]})")
        out = func(*args, **kwargs)
        if name != "copy_":
            for each in tensors_in((out,)):
                self.put(each, True)
        return out


INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")


def tensors_in(values) -> list[Tensor]:
    found = []
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, Tensor):
            if value.device.type != "meta":
                found.append(value)
        elif isinstance(value, (list, tuple, dict)) and value:
            found += tensors_in(value)
    return found


def is_gpu(device) -> bool | None:
    """None if it is no device at all."""
    if isinstance(device, (torch.device, str)):
        return torch.device(device).type == "cuda"
    return None


class PretendedGPU(TorchFunctionMode):
    """Devices as code names them: ``tensor.device``, ``tensor.to``, ``torch.zeros(device=)``."""

    def __init__(self):
        super().__init__()
        self.tags = Tags()
        self._cuda = [
            mock.patch.object(torch.cuda, name, lambda *_, answer=answer, **__: answer)
            for name, answer in {
                "is_available": True, "device_count": 1, "current_device": 0, "synchronize": None,
                "get_device_name": "pretended", "is_bf16_supported": False, "empty_cache": None,
                "reset_peak_memory_stats": None, "memory_allocated": 0, "set_device": None,
                "max_memory_allocated": 2**20, "get_device_capability": (8, 0),
            }.items()
        ]  # fmt: skip
        fork = torch.random.fork_rng
        for owner, name, stand_in in (
            (torch.random, "fork_rng", lambda *_, **__: fork(devices=[])),
            (torch.optim.Optimizer, "_accelerator_graph_capture_health_check", lambda self: None),
        ):
            self._cuda.append(mock.patch.object(owner, name, stand_in))

    def __enter__(self):
        for patch in self._cuda:
            patch.start()
        self.tags.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.tags.__exit__(*error)
        for patch in self._cuda:
            patch.stop()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, tags = dict(kwargs or {}), self.tags
        if func == Tensor.device.__get__:
            return DEVICE if tags.on(args[0]) else func(*args)
        if func == Tensor.is_cuda.__get__:
            return tags.on(args[0])
        if func is Tensor.to:
            return self._moved(args[0], args[1:], kwargs)
        if func in (Tensor.cpu, Tensor.cuda):
            return self._moved(args[0], ("cpu" if func is Tensor.cpu else DEVICE,), {})
        if (
            func in (Tensor.numpy, Tensor.__array__)
            and tags.on(args[0])
            and not kwargs.get("force")
        ):
            raise PretendedError(TO_NUMPY)
        if is_gpu(kwargs.get("device")):
            if kwargs.get("generator") is not None:
                raise PretendedError("Expected a 'cuda' device type for generator but found 'cpu'")
            return tags.put(func(*args, **kwargs | {"device": "cpu"}), True)
        if kwargs.get("device") is not None and any(
            tags.on(each) for each in args if isinstance(each, Tensor)
        ):  # torch.zeros_like(there, device="cpu")
            return tags.put(func(*args, **kwargs), False)
        return func(*args, **kwargs)

    def _moved(self, tensor: Tensor, args: tuple, kwargs: dict) -> Tensor:
        there = goes = self.tags.on(tensor)
        rest, named = [], {key: value for key, value in kwargs.items() if key != "device"}
        for value in (*args, kwargs.get("device")):
            if isinstance(value, Tensor):
                goes, value = self.tags.on(value), value.dtype
            if is_gpu(value) is not None:
                if torch.device(value).type == "meta":
                    return tensor.to(*args, **kwargs)
                goes = is_gpu(value)
            elif isinstance(value, torch.dtype):
                rest.append(value)
        out = tensor.to(*rest, **named) if rest or named else tensor
        if goes != there:
            out = self.tags.put(out.clone() if out is tensor else out, goes)
        return out


def cut_training() -> list[int]:
    """Let an epoch be one step: what a training reaches is not looked at, where it runs is.

    Returns:
        A list that grows with each training.
    """
    from vitbook.training.engine.batches import Batches

    begin, cut = Batches.__init__, []

    def begin_cut(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        cut.append(self.steps_an_epoch)
        self.steps_an_epoch = 1

    Batches.__init__ = begin_cut
    return cut


def stops_of(path: Path) -> list[str]:
    """Where a chapter stops on a GPU, one line a cell.

    Once a training was cut, what the chapter asserts of it cannot hold, and is left out.
    """
    from IPython.core.interactiveshell import InteractiveShell

    shell, said, cut = InteractiveShell.instance(), [], cut_training()
    os.chdir(path.parent)
    with PretendedGPU():
        for number, cell in enumerate(json.loads(path.read_text())["cells"]):
            if cell["cell_type"] != "code":
                continue
            source = shell.transform_cell("".join(cell["source"]))
            try:
                code = compile(source, f"cell {number}", "exec", optimize=1 if cut else 0)
                exec(code, shell.user_ns)
            except Exception as error:
                if cut and isinstance(error, AssertionError):
                    continue
                if "raises-exception" in cell["metadata"].get("tags", []):
                    continue
                frames = traceback.extract_tb(error.__traceback__)
                place = " < ".join(
                    f"{Path(frame.filename).name}:{frame.lineno}"
                    for frame in reversed(frames)
                    if frame.filename != __file__ and "torch" not in frame.filename
                )
                said.append(f"cell {number}: {type(error).__name__}: {error} ({place[:160]})")
    return said


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "agg"
    found = stops_of(Path(sys.argv[1]).resolve())
    print("\n".join(found))
    sys.exit(bool(found))
