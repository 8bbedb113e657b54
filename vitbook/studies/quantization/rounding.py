"""Weights rounded for what their layer answers, not each of them to its nearest code."""

import copy
from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.capture.record import record_modules
from vitbook.layers.quantizers import quantize
from vitbook.model_utilities import evaluating

# Where the grid of a row ends, and how a code is chosen.
WAYS = {
    "nearest": ("largest weight", "nearest"),
    "clipped": ("least error", "nearest"),
    "by outputs": ("largest weight", "outputs"),
    "clipped, by outputs": ("least error", "outputs"),
}
# Ends of the grid that are tried, as shares of the largest weight.
ENDS = [share / 50 for share in range(20, 51)]
# Added to the diagonal of the inputs' squares, as a share of its mean.
DAMPING = 0.01


def largest_step(weight: Float[Tensor, "outputs inputs"], bits: int) -> Float[Tensor, "outputs 1"]:
    """Of each row: the grid ends at its largest weight.

    Raises:
        ValueError: bits other than 2 to 8.
    """
    return quantize(weight, bits, dim=1).step


def best_step(weight: Float[Tensor, "outputs inputs"], bits: int) -> Float[Tensor, "outputs 1"]:
    """Of each row: the step of least squared error; what lies beyond its grid is clipped."""
    widest = largest_step(weight, bits)
    steps = torch.stack([share * widest for share in ENDS])
    errors = torch.stack(
        [(_nearest(weight, step, bits) - weight).square().sum(1) for step in steps]
    )
    return steps.gather(0, errors.argmin(0)[None, :, None])[0]


def _nearest(weight: Tensor, step: Tensor, bits: int) -> Tensor:
    most = 2 ** (bits - 1) - 1
    return (weight / step).round().clamp(-most, most) * step


def round_by_outputs(
    weight: Float[Tensor, "outputs inputs"],
    step: Float[Tensor, "outputs 1"],
    squares: Float[Tensor, "inputs inputs"],
    bits: int,
) -> Float[Tensor, "outputs inputs"]:
    r"""Rounded weights that keep a layer's outputs, :math:`\sum_x |(W - \hat W) x|^2` small.

    The weights of one input are rounded after those of another. What the rounding of an input has
    changed in the outputs, the weights of the inputs that are still exact make good as far as they
    can (Frantar et al. 2023, "GPTQ", after LeCun et al. 1989 and Nagel et al. 2020, "AdaRound").
    Inputs with large values come first.

    Args:
        squares: :math:`\sum x x^T` of the layer's inputs, see :func:`input_squares`.

    Raises:
        ValueError: squares of inputs that are all 0.
    """
    order = squares.diagonal().argsort(descending=True)
    rest, squares = weight[:, order].clone(), squares[order][:, order]
    damping = DAMPING * squares.diagonal().mean()
    if not damping > 0:
        raise ValueError("the squares are all 0, or hold NaN: expected those of a layer's inputs")
    squares = squares + damping * torch.eye(len(squares)).to(squares)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(squares))
    upper = torch.linalg.cholesky(inverse, upper=True)
    found = torch.empty_like(rest)
    for i in range(len(squares)):
        found[:, i : i + 1] = _nearest(rest[:, i : i + 1], step, bits)
        error = (rest[:, i] - found[:, i]) / upper[i, i]
        rest[:, i:] -= torch.outer(error, upper[i, i:])
    return found[:, order.argsort()]


@torch.no_grad()
def input_squares(
    model: nn.Module, images: Iterable[Float[Tensor, "batch channels height width"]]
) -> dict[str, Float[Tensor, "inputs inputs"]]:
    """Path of each linear layer -> the sum of :math:`x x^T` over all that it reads."""
    found: dict[str, Tensor] = {}

    def watch(path: str, module: nn.Module):
        if type(module) is nn.Linear:

            def add(_: nn.Module, args: tuple) -> None:
                read = args[0].flatten(0, -2)
                found[path] = found.get(path, 0) + read.T @ read

            yield module.register_forward_pre_hook(add)

    with evaluating(model), record_modules(model, watch):
        for batch in images:
            model(batch)
    return found


@torch.no_grad()
def round_linear(
    model: nn.Module, bits: int, way: str, squares: dict[str, Tensor] | None = None
) -> nn.Module:
    """A copy of ``model`` whose linear layers have rounded weights, with a step for each row.

    Args:
        way: one of :data:`WAYS`.
        squares: of :func:`input_squares`, for the ways by outputs.

    Raises:
        ValueError: a layer whose inputs they lack, as it did not run.
    """
    ends, chosen = WAYS[way]
    small = copy.deepcopy(model)
    for path, part in small.named_modules():
        if type(part) is nn.Linear:
            if chosen != "nearest" and path not in (squares or {}):
                raise ValueError(f"no squares of what {path} reads: it did not run on the images")
            step = (largest_step if ends == "largest weight" else best_step)(part.weight, bits)
            part.weight.copy_(
                _nearest(part.weight, step, bits) if chosen == "nearest"
                else round_by_outputs(part.weight, step, squares[path], bits)
            )  # fmt: skip
    return small
