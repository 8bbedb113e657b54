"""What the changes cost: a step beside plain's, attention fused and written out, compilation."""

import time
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

import vitbook
from vitbook.measure import Ratio, interleaved_seconds, peak_memory, ratio_of
from vitbook.runs import get_recipe
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.modern.changes import PLAIN, ROLES
from vitbook.training.engine.muon import nearly_orthogonal
from vitbook.training.engine.optimization import make_optimizer

ROUNDS, BATCH = 20, 128
TOKENS = (64, 256, 1024)
HEADS = (4, 6, 64)  # images, heads, width of a head


def written_out(
    q: Float[Tensor, "*lead n d"], k: Float[Tensor, "*lead n d"], v: Float[Tensor, "*lead n d"]
) -> Float[Tensor, "*lead n d"]:
    r"""Attention as the formula says it, :math:`\mathrm{softmax}(qk^\top/\sqrt d)\,v`."""
    # Queries are divided, not scores: at 1,024 tokens there are 16 times as many of these.
    return (q / q.shape[-1] ** 0.5 @ k.mT).softmax(-1) @ v


def step_lengths(state: Mapping[str, Tensor]) -> dict[str, Float[Tensor, "directions"]]:
    """How far the next step of a matrix goes along each direction, over the first.

    Args:
        state: what AdamW keeps of the matrix's gradients; the other ways take its mean.
    """
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    ways = {
        "averaged gradient": mean, "AdamW": mean / (square.sqrt() + 1e-8),
        "Muon": nearly_orthogonal(mean[None])[0],
    }  # fmt: skip
    found = {name: torch.linalg.svdvals(step) for name, step in ways.items()}
    return {name: values / values[0] for name, values in found.items()}


def _ends(ratio: Ratio) -> list[float]:
    return [round(each, 4) for each in (ratio.median, ratio.low, ratio.high)]


def step_of(model: nn.Module, recipe: object, images: Tensor, labels: Tensor) -> Callable[[], None]:
    """A training step, ready to be called: forward, backward, clipped, the optimizer's part."""
    model.train()
    optimizer = make_optimizer(model, recipe)

    def step() -> None:
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def _clock(sheet: Sheet) -> Callable[[], float]:
    """On a CPU that others keep busy, one thread's own time; a GPU's work is waited for."""
    alone = sheet.device.type == "cpu" and torch.get_num_threads() == 1
    return time.process_time if alone else time.perf_counter


def _steps(sheet: Sheet, rounds: int) -> list[dict]:
    images = torch.randn(BATCH, 3, 32, 32, device=sheet.device)
    labels = torch.arange(BATCH, device=sheet.device) % 10
    steps = {}
    for role, (name, changes) in ROLES.items():
        torch.manual_seed(0)
        model = vitbook.create_model(name).to(sheet.device)
        steps[role] = step_of(model, get_recipe("quick", **changes), images, labels)
    seconds = interleaved_seconds(
        list(steps.values()), rounds, 2, "steps of all rows", _clock(sheet)
    )
    plain = seconds[list(steps).index("plain")]
    return [
        {"role": role, "step": _ends(ratio_of(own, plain))}
        for role, own in zip(steps, seconds, strict=True)
    ]


def _attention(sheet: Sheet, rounds: int) -> list[dict]:
    rows = []
    for tokens in tqdm(TOKENS, "attention fused and written out"):
        images, heads, width = HEADS
        torch.manual_seed(0)
        q, k, v = torch.randn(3, images, heads, tokens, width, device=sheet.device)
        ways = [
            lambda q=q, k=k, v=v: written_out(q, k, v),
            lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v),
        ]
        apart = (ways[0]() - ways[1]()).abs().max().item()
        seconds = interleaved_seconds(ways, rounds, 3, clock=_clock(sheet))
        written, fused = (peak_memory(way, sheet.device) for way in ways)
        rows.append({
            "tokens": tokens, "faster": _ends(ratio_of(*seconds)), "apart": apart,
            "written_out_mb": round(written / 1e6, 2), "fused_mb": round(fused / 1e6, 2),
        })  # fmt: skip
    return rows


def _compiled(sheet: Sheet, rounds: int) -> list[dict]:
    images = torch.randn(BATCH, 3, 32, 32, device=sheet.device)
    labels = torch.arange(BATCH, device=sheet.device) % 10
    pairs: dict[str, list[Callable[[], object]]] = {"forward": [], "training step": []}
    for compiled in (False, True):
        torch.manual_seed(0)
        models = [vitbook.create_model(PLAIN).to(sheet.device) for _ in pairs]
        forward, trained = map(torch.compile, models) if compiled else models
        forward.eval()
        pairs["forward"].append(torch.no_grad()(lambda forward=forward: forward(images)))
        pairs["training step"].append(step_of(trained, get_recipe("quick"), images, labels))
    return [
        {"what": what, "faster": _ends(ratio_of(*interleaved_seconds(
            pair, rounds, 3, f"compiled: {what}", _clock(sheet))))}
        for what, pair in pairs.items()
    ]  # fmt: skip


@measurement(
    change_costs={"role": "{role}", "step / plain": "{step:.2f}"},
    fused_attention={"tokens": "{tokens}", "times as fast": "{faster:.2f}",
                     "written out, MB": "{written_out_mb}", "fused, MB": "{fused_mb}"},
    compiled={"what": "{what}", "times as fast": "{faster:.2f}"},
)  # fmt: skip
def modern_costs(sheet: Sheet, rounds: int = ROUNDS) -> None:
    """Time a training step of each change beside plain, fused attention, and a compiled model."""
    sheet.expect(PLAIN)
    about = {
        "rounds": rounds, "threads": torch.get_num_threads(), "precision": "float32",
        "interval": "95 %, bootstrap of the median over interleaved rounds",
        "clock": "the process's own time on one thread, else wall time",
    }  # fmt: skip
    steps = sheet.once("steps", _steps, sheet, rounds)
    attention = sheet.once("attention", _attention, sheet, rounds)
    compiled = sheet.once("compiled", _compiled, sheet, rounds)
    sheet.write(PLAIN, about | {"batch": BATCH, "recipe": "quick"}, steps)
    images, heads, width = HEADS
    shapes = {"images": images, "heads": heads, "head_width": width}
    memory = {"memory": "most bytes held at once by torch's allocator, over the start"}
    sheet.write(PLAIN, about | shapes | memory, attention, kind="fused_attention")
    sheet.write(PLAIN, about | {"batch": BATCH, "model": PLAIN}, compiled, kind="compiled")
