"""Every printed count of parameters and multiply-adds, beside the one that is counted here."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache

import torch
from torch import nn

from vitbook import runs
from vitbook.extras import from_extra
from vitbook.measure import count_macs, count_parameters
from vitbook.models import create_model, list_models

QUANTITIES = ("parameters", "macs")
# Counters differ in what they call an operation; parameters are parameters.
MACS_TOLERANCE = 0.02
UNITS = {"M": 10**6, "G": 10**9}
WHAT_IS_COUNTED = """\
A parameter count agrees if it rounds to the printed digits; of multiply-adds (MACs), within 2 % is
enough. MACs are those of one image, by torch's counter: matrix products, convolutions and
attention; no norms, activations or additions. T2T-ViT's sinusoids and random features are fixed:
its code keeps them as frozen parameters, and "learned and fixed" counts them too. For its first
version the authors took MACs from ELECTRA's script (issue 5 of their repository), which adds
embeddings, biases, norms, activations and a hidden layer at every token; where a reason quotes it,
the 768 numbers of a patch stand for the words."""


@dataclass(frozen=True)
class Figure:
    """A printed number and what is counted in its place.

    Attributes:
        row: of ``data/published.json``.
        counted: None where the model is not here.
        way: what was counted: "learned", "learned and fixed" or "without the head"; "macs".
        agrees: to the printed digit; for multiply-adds, within 2 % is enough.
    """

    row: dict
    counted: int | None
    way: str
    agrees: bool

    @property
    def difference(self) -> float | None:
        """Of the counted from the printed, as a share of the printed."""
        return None if self.counted is None else self.counted / self.row["value"] - 1

    @property
    def verdict(self) -> str:
        if self.counted is None:
            return "not here"
        return "agrees" if self.agrees else "contradicts"


def audit(rows: Sequence[dict] | None = None) -> list[Figure]:
    """Count again what others printed; every row of :data:`QUANTITIES`, none left out.

    Args:
        rows: as :func:`vitbook.runs.published` gives them; by default all of them.
    """
    rows = runs.published() if rows is None else rows
    return [_figure(row) for row in rows if row["quantity"] in QUANTITIES]


def _figure(row: dict) -> Figure:
    name = row.get("counted_as", row["model"])
    if name not in list_models() and not name.startswith(tuple(LIBRARIES)):
        return Figure(row, None, "", False)
    options = tuple(row.get("options", {}).items())
    size = row.get("image_size")
    if row["quantity"] == "macs":
        counted = macs(name, size, options)
        near = abs(counted / row["value"] - 1) <= MACS_TOLERANCE
        return Figure(row, counted, "macs", near or to_the_digit(counted, row["printed"]))
    ways = parameters(name, size, options)
    for way, counted in ways.items():
        if to_the_digit(counted, row["printed"]):
            return Figure(row, counted, way, True)
    return Figure(row, ways["learned"], "learned", False)


def to_the_digit(counted: int, printed: str) -> bool:
    """Whether a count, rounded as far as the printed one is, reads the same."""
    number, unit = read_printed(printed)
    return (Decimal(counted) / UNITS[unit]).quantize(number, ROUND_HALF_UP) == number


def read_printed(printed: str) -> tuple[Decimal, str]:
    """The number and the unit of, for example, "17.6 G"."""
    match = re.fullmatch(r"([\d.]+) ?([MG])", printed)
    if not match:
        raise ValueError(f"printed as {printed!r}: expected a number and a unit, 21.5 M or 4.8 G")
    return Decimal(match[1]), match[2]


def _torchvision(name: str, **options) -> nn.Module:
    with from_extra("train"):
        import torchvision
    return getattr(torchvision.models, name)(**options)


def _timm(name: str, **options) -> nn.Module:
    with from_extra("pretrained"):
        import timm
    return timm.create_model(name, **options)


# Where the networks come from that the papers compare with.
LIBRARIES: dict[str, Callable[..., nn.Module]] = {"torchvision.": _torchvision, "timm.": _timm}


@cache
def build(name: str, image_size: int | None, options: tuple = ()) -> nn.Module:
    """The model without memory for its weights, as it answers."""
    with torch.device("meta"):
        for library, make in LIBRARIES.items():
            if name.startswith(library):
                return make(name.removeprefix(library), **dict(options)).eval()
        return create_model(name, image_size=image_size, **dict(options)).eval()


@cache
def parameters(name: str, image_size: int | None, options: tuple = ()) -> dict[str, int]:
    """The ways to count that papers have.

    T2T-ViT's fixed sinusoids and random features are buffers here and frozen parameters in its
    code; the ViT paper counts a body that has lost its head. BatchNorm's running means are no
    weights.
    """
    model = build(name, image_size, options)
    learned = count_parameters(model)
    ways = {"learned": learned}
    norms = (nn.BatchNorm1d, nn.BatchNorm2d)
    modules = (module for module in model.modules() if not isinstance(module, norms))
    fixed = sum(b.numel() for module in modules for b in module.buffers(recurse=False))
    if fixed:
        ways["learned and fixed"] = learned + fixed
    if name in list_models():
        ways["without the head"] = learned - count_parameters(model.head)
    return ways


@cache
def macs(name: str, image_size: int | None, options: tuple = ()) -> int:
    """Multiply-adds for one image: matrix products, convolutions and attention, nothing else."""
    model = build(name, image_size, options)
    channels, size = 3, image_size or 224
    if name in list_models():
        channels, size = model.spec.channels, model.spec.image_size
    return count_macs(model, torch.empty(1, channels, size, size, device="meta"))


def table(figures: Sequence[Figure]) -> list[dict[str, str]]:
    """A line for each figure, in words: the same for the command and for the page."""
    return [_line(figure) for figure in figures]


def _line(figure: Figure) -> dict[str, str]:
    row, counted = figure.row, figure.counted
    unit = "G" if row["quantity"] == "macs" else "M"
    another_way = figure.agrees and figure.way not in ("learned", "macs")
    return {
        "model": row["model"] + (f" at {row['image_size']} px" if "image_size" in row else ""),
        "quantity": {"macs": "MACs"}.get(row["quantity"], row["quantity"]),
        "printed": row["printed"],
        "counted": "-" if counted is None else f"{counted / UNITS[unit]:.2f} {unit}",
        "differs": "-" if counted is None else f"{figure.difference:+.1%}",
        "verdict": figure.verdict + f", {figure.way}" * another_way,
        "why": row.get("why", ""),
        "source": row["source"],
    }
