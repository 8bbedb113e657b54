"""A model whose speed is measured: what is timed, and what stands in memory meanwhile."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from vitbook import measure
from vitbook.cli.probed_model import load_probed_model
from vitbook.devices import autocast
from vitbook.training import BatchTooLargeError
from vitbook.training.engine.loss import cross_entropy
from vitbook.training.engine.memory import is_out_of_memory

FORWARD, TRAINING = "forward", "training step"
COUNTED = 2  # images; batch norms in training ask for more than one


@dataclass(frozen=True)
class BenchmarkedModel:
    """A model that is measured.

    Attributes:
        name: as it was asked for.
        parameters: how many.
        passes: name -> what is timed.
        memory: name -> the most bytes held at once in that pass, with weights and optimizer.
    """

    name: str
    parameters: int
    passes: dict[str, measure.Work]
    memory: dict[str, int]


def load_benchmarked_model(
    name: str,
    batch: int,
    device: torch.device,
    dtype: torch.dtype,
    *,
    compile: bool = False,
    training: bool = True,
) -> BenchmarkedModel:
    """A model by name, on random images of its own size; its memory is measured at once.

    Raises:
        BatchTooLargeError: a pass that does not fit into memory.
        What :func:`~.probed_model.load_probed_model` raises.
    """
    probed = load_probed_model(name)
    torch.manual_seed(0)
    shape = (batch, probed.channels, probed.size, probed.size)
    with _room_for("batch", name, batch):
        images = torch.randn(shape, device=device)
    precision = autocast(device, dtype)
    still = probed.model.to(device)

    def forward(images: Tensor) -> None:
        with torch.no_grad(), precision:
            still(images)

    steps: dict[str, Callable[[Tensor], None]] = {FORWARD: forward}
    held = {FORWARD: lambda: measure.memory_held(still)}
    models = [still]
    if training:
        learner = copy.deepcopy(still).train()
        optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-6, fused=True)
        with torch.no_grad():
            labels = still(images[:1]).argmax(dim=1).expand(max(batch, COUNTED))

        def step(images: Tensor) -> None:
            with precision:
                loss = cross_entropy(learner(images), labels[: len(images)])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()  # last, so that no gradient stands between two steps

        steps[TRAINING] = step
        held[TRAINING] = lambda: measure.memory_held(learner, optimizer)
        models.append(learner)
    few = images.new_zeros(COUNTED, *images.shape[1:])
    macs = {kind: measure.count_step_macs(lambda s=s: s(few)) for kind, s in steps.items()}
    if compile:  # after the counting, which needs to see every operation
        for model in models:
            model.compile()
    passes = {
        kind: measure.Work(lambda s=s: s(images), batch, macs[kind] * batch // COUNTED)
        for kind, s in steps.items()
    }
    memory = {}
    for kind, work in passes.items():
        with _room_for(f"{kind} pass", name, batch):
            memory[kind] = measure.peak_memory(work.run, device) + held[kind]()
    return BenchmarkedModel(name, measure.count_parameters(still), passes, memory)


@contextmanager
def _room_for(what: str, name: str, batch: int) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise BatchTooLargeError(
            f"a {what} of {name} with {batch:,} images does not fit into memory: use a "
            "smaller --batch"
        ) from error
