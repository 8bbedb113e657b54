"""Orthogonal steps for the matrices of the blocks, AdamW's for the rest."""

from collections import defaultdict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.runs.recipe import Recipe
from vitbook.training.engine.parts_of_models import in_blocks, matrices

POLYNOMIAL = 3.4445, -4.7750, 2.0315  # Jordan's: steepest at 0, and small values grow fast
NEWTON_SCHULZ_STEPS = 5


def nearly_orthogonal(
    matrices: Float[Tensor, "number outputs inputs"],
) -> Float[Tensor, "number outputs inputs"]:
    r"""Each matrix with its singular values brought near 1, from about 0.7 to 1.2.

    .. math:: X \leftarrow aX + b\,XX^\top X + c\,(XX^\top)^2 X

    Five Newton-Schulz steps from the matrix over its norm. Singular values that are tiny beside the
    largest do not get there.
    """
    a, b, c = POLYNOMIAL
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    for order in (torch.inf, 2):  # by the largest entry first: squares overflow, and vanish
        length = torch.linalg.vector_norm(x, order, dim=(1, 2), keepdim=True)
        x = x / length.clamp(min=torch.finfo(x.dtype).tiny)
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    r"""Momentum, made orthogonal: every direction of a matrix moves as far.

    .. math::
        B \leftarrow \mu B + (1 - \mu)\,G, \qquad
        W \leftarrow (1 - \eta\lambda)\,W - 0.2\,\eta\,\sqrt{\max(m, n)}\;
        \mathrm{NS}_5\big(\mu B + (1 - \mu)\,G\big)

    Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks". The factor is
    that of Liu et al. 2025, "Muon is scalable for LLM training", equation 4: steps as large as
    AdamW's, so that AdamW's rate and decay fit. ``torch.optim.Muon`` with ``match_rms_adamw`` is
    the same in bfloat16, from torch 2.9 on, in which a CPU takes many times longer.
    """

    def __init__(self, groups: list[dict], lr: float, momentum: float):
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            alike = defaultdict(list)  # of one shape: one product for all of them
            for weight in group["params"]:
                if weight.grad is not None:
                    alike[weight.shape].append(weight)
            for weights in alike.values():
                moved = nearly_orthogonal(
                    torch.stack([self._averaged(weight, group["momentum"]) for weight in weights])
                )
                rate = 0.2 * group["lr"] * max(weights[0].shape) ** 0.5
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(weights, list(moved), alpha=-rate)

    def _averaged(self, weight: Tensor, momentum: float) -> Tensor:
        """The mean of the gradients, with this one's share once more (Nesterov)."""
        state = self.state[weight]
        if not state:
            state["mean"] = torch.zeros_like(weight)
        mean = state["mean"].lerp_(weight.grad, 1 - momentum)
        return weight.grad.lerp(mean, momentum)


class SideBySide:
    """Several optimizers, of other parameters each, with the face of one."""

    def __init__(self, *optimizers: torch.optim.Optimizer):
        self.optimizers = optimizers

    @property
    def param_groups(self) -> list[dict]:
        return [group for each in self.optimizers for group in each.param_groups]

    def zero_grad(self) -> None:
        for each in self.optimizers:
            each.zero_grad()

    def step(self) -> None:
        for each in self.optimizers:
            each.step()

    def state_dict(self) -> dict:
        """As torch's: the parameters are counted through all optimizers."""
        state, groups, first = {}, [], 0
        for each in self.optimizers:
            own = each.state_dict()
            state |= {first + index: moments for index, moments in own["state"].items()}
            groups += [
                group | {"params": [first + index for index in group["params"]]}
                for group in own["param_groups"]
            ]
            first += _size(each)
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict) -> None:
        """Moments alone: what groups hold beside their parameters, the recipe says anew.

        Raises:
            ValueError: groups of other sizes, or moments of other shapes than the parameters.
        """
        given, own = state_dict["param_groups"], self.param_groups
        sizes, fit = ([len(group["params"]) for group in groups] for groups in (given, own))
        shapes = dict(enumerate(weight.shape for group in own for weight in group["params"]))
        if sizes != fit or any(
            moment.ndim and moment.shape != shapes.get(at)
            for at, moments in state_dict["state"].items()
            for moment in moments.values()
        ):
            raise ValueError(
                f"state of groups of {sizes} parameters for groups of {fit}: expected that of a "
                "model with the same parameters, of the same shapes"
            )
        first = 0
        for each in self.optimizers:
            last = first + _size(each)
            moments = state_dict["state"].items()
            own = {index - first: kept for index, kept in moments if first <= index < last}
            each.load_state_dict({"state": own, "param_groups": each.state_dict()["param_groups"]})
            first = last


AnyOptimizer = torch.optim.Optimizer | SideBySide


def _size(optimizer: torch.optim.Optimizer) -> int:
    return sum(len(group["params"]) for group in optimizer.param_groups)


def muon_and_adamw(model: nn.Module, groups: list[dict], recipe: Recipe) -> SideBySide:
    """:class:`Muon` for the matrices of the blocks, AdamW for all else that learns.

    A fused layer of queries, keys and values is one matrix.

    Args:
        groups: as :func:`.parameter_groups` makes them.

    Raises:
        ValueError: a model whose blocks cannot be counted, or have no matrix that learns.
    """
    chosen = matrices_of_blocks(model)
    of_blocks = [found for group in groups if (found := _of(group, chosen, True))["params"]]
    if not of_blocks:
        raise ValueError(
            f"optimizer 'muon' for a {type(model).__name__}: expected a model with encoder.blocks, "
            "or blocks alike in a row, whose linear layers learn; use 'adamw'"
        )
    rest = [_of(group, chosen, False) for group in groups]
    return SideBySide(
        Muon(of_blocks, recipe.learning_rate, recipe.momentum),
        torch.optim.AdamW(rest, lr=recipe.learning_rate, fused=True),
    )


def matrices_of_blocks(model: nn.Module) -> set[Tensor]:
    """Weights of the linear layers from the first block to the last."""
    return {weight for weight in matrices(model) & in_blocks(model) if weight.ndim == 2}


def _of(group: dict, chosen: set[Tensor], inside: bool) -> dict:
    return group | {"params": [p for p in group["params"] if (p in chosen) == inside]}
