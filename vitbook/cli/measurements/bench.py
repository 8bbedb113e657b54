"""Speed, memory and costs of models, measured side by side."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Literal

import torch
import typer
from torch import Tensor

from vitbook import measure, runs
from vitbook.cli.probed_model import load_probed_model
from vitbook.devices import autocast
from vitbook.runs.measuring import Sheet, measurement
from vitbook.runs.tables import interval, print_table
from vitbook.training import BatchTooLargeError
from vitbook.training.asked import check_each_once
from vitbook.training.engine.loss import cross_entropy
from vitbook.training.engine.memory import is_out_of_memory

FORWARD, TRAINING = "forward", "training step"
COUNTED = 2  # images; batch norms in training ask for more than one
PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}
LONGEST_NAME = 150  # a file's has room for 255 bytes, and its kind is put in front
READING = """\
Utilisation: multiply-adds a second, over those of a {side:,} x {side:,} matrix product in the same
rounds ({peak:,.0f} G a second). On a processor that others use too, compare ratios, not images/s.
Memory: the most at once, with weights and, in training, AdamW's two moments."""


def _lines(rows: list[dict]) -> list[dict[str, str]]:
    return [
        {
            "model": row["model"],
            "pass": row["pass"],
            "parameters": f"{row['parameters']:,}",
            "MACs/image": f"{row['macs_per_image'] / 1e6:,.1f} M",
            "images/s": f"{row['images_per_second']:,.0f}",
            "utilisation": interval(row["utilisation"], ".0%"),
            "speed over the first": interval(row["speed_over_first"], ".3f"),
            "memory": f"{row['memory_bytes'] / 2**20:,.1f} MiB",
        }
        for row in rows
    ]


@measurement(bench=_lines)
def bench(
    sheet: Sheet,
    models: Annotated[
        list[str],
        typer.Argument(help="Names from `vitbook models`, timm:NAME, or checkpoints."),
    ],
    batch: Annotated[int, typer.Option(help="Images at once.", min=1)] = 16,
    rounds: Annotated[int, typer.Option(help="In each, all are timed in turn.", min=2)] = 20,
    precision: Annotated[
        Literal["float32", "bf16"], typer.Option(help="float32, or bf16 by autocast.")
    ] = "float32",
    compile: Annotated[bool, typer.Option(help="Run through torch.compile.")] = False,
    training: Annotated[bool, typer.Option(help="Time a training step too.")] = True,
    pre_training: Annotated[
        str, typer.Option(help="Images x passes; by default ImageNet-1k and DeiT's 300.")
    ] = "1281167x300",
    fine_tuning: Annotated[
        str, typer.Option(help="Likewise; by default CIFAR-10 and 100 passes.")
    ] = "50000x100",
    answers: Annotated[
        int, typer.Option(help="Images that the finished model answers.", min=1)
    ] = 1_000_000,
) -> None:
    """Time models in turn, the first being what speeds refer to; and count what each costs."""
    first_run = _schedule("--pre-training", pre_training)
    second_run = _schedule("--fine-tuning", fine_tuning)
    check_each_once(models)
    subject = _file_name(models)
    sheet.expect(subject)
    place = sheet.device
    dtype = PRECISIONS[precision]
    passes = [
        each for name in models for each in _passes(name, batch, place, dtype, compile, training)
    ]
    matmul = measure.Matmul(place, dtype)
    rows = []
    for kind in (FORWARD, TRAINING) if training else (FORWARD,):
        timed = [each for each in passes if each.kind == kind]
        works = [each.work for each in timed]
        throughputs, peak = measure.measure_throughput(works, matmul, rounds, label=kind)
        rows += [_row(each, t, peak) for each, t in zip(timed, throughputs, strict=True)]
    settings = {
        "batch": batch, "rounds": rounds, "precision": precision, "compiled": compile,
        "matmul_side": matmul.side,
    }  # fmt: skip
    sheet.write(subject, settings, rows)
    print(READING.format(side=matmul.side, peak=rows[-1]["matmul_macs_per_second"] / 1e9))
    if training:
        print()
        print_table([_costs(rows, name, first_run, second_run, answers) for name in models])
        name = runs.device_name(place)
        print(f"Hours are carried on from the rates above, on {name}; nothing was trained.")


def _file_name(models: list[str]) -> str:
    """After all of them, or after the first and a digest where that is too long for a file."""
    name = "-".join(name.replace(":", "_").replace("/", "_") for name in models)
    if len(name.encode()) <= LONGEST_NAME:
        return name
    digest = blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{name[:60]}-and-{len(models) - 1}-more-{digest}"


@dataclass(frozen=True)
class _Pass:
    """What is timed of a model, and the most bytes held at once meanwhile, with its weights."""

    model: str
    kind: str
    parameters: int
    work: measure.Work
    memory_bytes: int


def _passes(
    name: str, batch: int, device: torch.device, dtype: torch.dtype, compile: bool, training: bool
) -> list[_Pass]:
    """The passes of a model on random images of its own size; their memory is measured at once."""
    probed = load_probed_model(name)
    torch.manual_seed(0)
    with _room_for("batch", name, batch):
        images = torch.randn(batch, probed.channels, probed.size, probed.size, device=device)
    precision, still = autocast(device, dtype), probed.model.to(device)

    def forward(images: Tensor) -> None:
        with torch.no_grad(), precision:
            still(images)

    kinds = {FORWARD: (forward, still, None)}
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

        kinds[TRAINING] = step, learner, optimizer
    few = images.new_zeros(COUNTED, *images.shape[1:])
    macs = {kind: measure.count_step_macs(lambda s=s: s(few)) for kind, (s, *_) in kinds.items()}
    if compile:  # after the counting, which needs to see every operation
        for _, model, _ in kinds.values():
            model.compile()
    passes = []
    for kind, (run, model, optimizer) in kinds.items():
        work = measure.Work(lambda run=run: run(images), batch, macs[kind] * batch // COUNTED)
        with _room_for(f"{kind} pass", name, batch):
            held = measure.peak_memory(work.run, device) + measure.memory_held(model, optimizer)
        passes.append(_Pass(name, kind, measure.count_parameters(still), work, held))
    return passes


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


def _row(each: _Pass, found: measure.Throughput, peak: float) -> dict:
    used, speed = found.utilisation, found.speed
    return {
        "model": each.model,
        "pass": each.kind,
        "parameters": each.parameters,
        "macs_per_image": each.work.macs // each.work.images,
        "images_per_second": found.images_per_second,
        "utilisation": [used.median, used.low, used.high],
        "speed_over_first": [speed.median, speed.low, speed.high],
        "memory_bytes": each.memory_bytes,
        "matmul_macs_per_second": peak,
    }


def _costs(
    rows: list[dict],
    model: str,
    first_run: tuple[int, float | int],
    second_run: tuple[int, float | int],
    answers: int,
) -> dict[str, str]:
    """The three costs: counted in multiply-adds, their hours carried on from measured rates."""

    def run(kind: str, images: int, passes: float | int) -> measure.Run:
        row = next(row for row in rows if (row["model"], row["pass"]) == (model, kind))
        return measure.Run(images, passes, row["macs_per_image"], row["images_per_second"])

    costs = measure.Costs(
        pre_training=run(TRAINING, *first_run),
        practitioner=run(TRAINING, *second_run),
        deployment=run(FORWARD, answers, 1),
    )
    told = {name: f"{c.total_macs:.3g} MACs, {c.hours:.3g} h" for name, c in vars(costs).items()}
    return {
        "model": model,
        "pre-training": told["pre_training"],
        "practitioner": told["practitioner"],
        f"deployment, {answers:,} answers": told["deployment"],
    }


def _schedule(option: str, words: str) -> tuple[int, float | int]:
    try:
        images, passes = words.lower().split("x")
        schedule = int(images), float(passes)
    except ValueError:
        schedule = (0, 0.0)
    if not all(number > 0 for number in schedule):
        raise ValueError(f"{option} {words}: expected images x passes, such as 50000x100")
    return schedule
