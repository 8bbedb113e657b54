"""A model whose speed is measured: what is timed, and what stands in memory meanwhile."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from vitbook import measure
from vitbook.commands.subject import load_subject
from vitbook.devices import autocast
from vitbook.training import BatchTooLargeError
from vitbook.training.loss import cross_entropy
from vitbook.training.memory import is_out_of_memory

FORWARD, TRAINING = "forward", "training step"
COUNTED = 2  # pictures; batch norms in training ask for more than one


@dataclass(frozen=True)
class Contender:
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


def load_contender(
    name: str,
    batch: int,
    device: torch.device,
    dtype: torch.dtype,
    *,
    compile: bool = False,
    training: bool = True,
) -> Contender:
    """A model by name, on random pictures of its own size; its memory is measured at once.

    Raises:
        BatchTooLargeError: a pass that does not fit into memory.
        What :func:`~.subject.load_subject` raises.
    """
    subject = load_subject(name)
    torch.manual_seed(0)
    shape = (batch, subject.channels, subject.size, subject.size)
    with _room_for("batch", name, batch):
        images = torch.randn(shape, device=device)
    precision = autocast(device, dtype)
    still = subject.model.to(device)

    def forward(pictures: Tensor) -> None:
        with torch.no_grad(), precision:
            still(pictures)

    steps: dict[str, Callable[[Tensor], None]] = {FORWARD: forward}
    held = {FORWARD: lambda: measure.memory_held(still)}
    models = [still]
    if training:
        learner = copy.deepcopy(still).train()
        optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-6, fused=True)
        with torch.no_grad():
            labels = still(images[:1]).argmax(dim=1).expand(max(batch, COUNTED))

        def step(pictures: Tensor) -> None:
            with precision:
                loss = cross_entropy(learner(pictures), labels[: len(pictures)])
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
    return Contender(name, measure.count_parameters(still), passes, memory)


@contextmanager
def _room_for(what: str, name: str, batch: int) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise BatchTooLargeError(
            f"a {what} of {name} with {batch:,} pictures does not fit into memory: use a "
            "smaller --batch"
        ) from error
