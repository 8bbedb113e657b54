"""A dictionary of directions, of which each token uses a few: a sparse autoencoder."""

from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.errors import check_count, is_number

# A feature that no token of so many steps used is dead, and learns from what the others leave over.
DEAD_AFTER = 100
# The weight of that lesson, and how many dead features share it: Gao et al. 2024, appendix A.
AUXILIARY, AUXILIARY_FEATURES = 1 / 32, 64


class SparseAutoencoder(nn.Module):
    r"""Writes a token as a sum of few directions out of many.

    .. math::
        z = \mathrm{TopK}\big(\mathrm{ReLU}(W(x - b))\big), \qquad \hat x = b + \sum_j z_j\, d_j,
        \qquad \lVert d_j \rVert = 1

    Makhzani and Frey 2014, "k-sparse autoencoders"; Gao et al. 2024, "Scaling and evaluating sparse
    autoencoders", section 2.3. Tokens are measured in units of their mean distance from their mean.

    Args:
        width: of a token.
        num_features: directions; usually more than the width.
        active: features that a token uses, at most.

    Example:
        >>> import torch
        >>> from vitbook.training import SparseAutoencoder
        >>> codes = SparseAutoencoder(width=8, num_features=32, active=2).encode(torch.randn(5, 8))
        >>> bool((codes.count_nonzero(dim=-1) <= 2).all())
        True
    """

    def __init__(self, width: int, num_features: int, active: int):
        super().__init__()
        for name, value in (("width", width), ("num_features", num_features), ("active", active)):
            check_count(name, value)
        if active > num_features:
            raise ValueError(f"active {active} of {num_features} features: expected no more")
        self.active = active
        directions = F.normalize(torch.randn(num_features, width), dim=1)
        self.directions = nn.Parameter(directions)
        self.readers = nn.Parameter(directions.clone())
        self.mean = nn.Parameter(torch.zeros(width))
        self.register_buffer("unit", torch.ones(()))

    def encode(self, tokens: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch features"]:
        """How strongly each token uses each feature; all but the ``active`` strongest are 0."""
        return _strongest(self._strengths(tokens), self.active)

    def decode(self, codes: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch width"]:
        """The tokens that these strengths make."""
        made = einsum(codes, self.directions, "... features, features width -> ... width")
        return self.mean + self.unit * made

    def forward(self, tokens: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        return self.decode(self.encode(tokens))

    def _strengths(self, tokens: Tensor) -> Tensor:
        centred = (tokens.to(self.mean) - self.mean) / self.unit
        return einsum(centred, self.readers, "... width, features width -> ... features").relu()


@dataclass(frozen=True)
class SparseFit:
    """A sparse autoencoder that has learned.

    Attributes:
        model: in evaluation mode.
        explained: share of the variance of the tokens that it was fitted to, which it rebuilds.
        dead: share of its features that none of them uses.
    """

    model: SparseAutoencoder
    explained: float
    dead: float


def fit_sparse_autoencoder(
    tokens: Float[Tensor, "n width"],
    num_features: int,
    active: int,
    *,
    steps: int = 2000,
    batch_size: int = 1024,
    rate: float = 1e-3,
    seed: int = 0,
) -> SparseFit:
    """Fit a :class:`SparseAutoencoder` to tokens, by Adam, on batches drawn by the seed.

    Raises:
        TypeError: tokens that are no tensor of floats.
        ValueError: fewer than two tokens, all alike in float32, of another shape, or with NaN; more
            active features than there are; a rate that is no number above 0.
    """
    if not isinstance(tokens, Tensor) or not tokens.is_floating_point():
        came = tokens.dtype if isinstance(tokens, Tensor) else f"a {type(tokens).__name__}"
        raise TypeError(f"tokens are {came}: expected floating point, in a tensor")
    if not is_number(rate) or not 0 < rate < float("inf"):
        raise ValueError(f"rate {rate!r}: expected a number above 0, as 1e-3")
    check_count("steps", steps)
    check_count("batch_size", batch_size)
    with torch.inference_mode(False), torch.enable_grad():
        tokens = tokens.clone() if tokens.is_inference() else tokens.detach()
        return _fit(
            tokens.float(), num_features, active, int(steps), int(batch_size), float(rate), seed
        )


def _fit(
    tokens: Float[Tensor, "n width"],
    num_features: int,
    active: int,
    steps: int,
    batch_size: int,
    rate: float,
    seed: int,
) -> SparseFit:
    if tokens.ndim != 2 or len(tokens) < 2 or not tokens.isfinite().all():
        raise ValueError(
            f"tokens of shape {tuple(tokens.shape)}: expected two at least, (tokens, width), all "
            "finite"
        )
    if (tokens == tokens[0]).all():
        raise ValueError(f"{len(tokens)} tokens are all alike: there is no direction to find")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the others' state is not kept
        model = SparseAutoencoder(tokens.shape[1], num_features, active).to(tokens.device)
        generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        model.mean.copy_(tokens.mean(0))
        model.unit.copy_((tokens - model.mean).norm(dim=1).mean())
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    unused = torch.zeros(num_features, dtype=torch.int64, device=tokens.device)
    for step in range(steps):
        for group in optimizer.param_groups:  # falls to 0 over the last fifth
            group["lr"] = rate * min(1, 5 * (steps - step) / steps)
        drawn = torch.randint(len(tokens), (batch_size,), generator=generator)
        loss = _loss(model, tokens[drawn.to(tokens.device)], unused)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.directions.copy_(F.normalize(model.directions, dim=1))
    return _fitted(model.eval(), tokens, batch_size)


def _strongest(
    strengths: Float[Tensor, "*batch features"], number: int
) -> Float[Tensor, "*batch features"]:
    """The largest of each row where they stand, and 0 elsewhere."""
    kept = strengths.topk(number, dim=-1)
    return torch.zeros_like(strengths).scatter(-1, kept.indices, kept.values)


def _loss(model: SparseAutoencoder, tokens: Tensor, unused: Int64[Tensor, "features"]) -> Tensor:
    strengths = model._strengths(tokens)
    codes = _strongest(strengths, model.active)
    rest = (tokens - model.decode(codes)) / model.unit
    loss = rest.square().sum(-1).mean()
    unused += 1
    unused[codes.detach().any(0)] = 0
    dead = unused > DEAD_AFTER
    if number := min(int(dead.sum()), AUXILIARY_FEATURES):
        spare = _strongest(torch.where(dead, strengths, 0), number)
        loss = loss + AUXILIARY * (rest.detach() - spare @ model.directions).square().sum(-1).mean()
    return loss


@torch.no_grad()
def _fitted(model: SparseAutoencoder, tokens: Tensor, batch_size: int) -> SparseFit:
    used = torch.zeros(len(model.directions), dtype=torch.bool, device=tokens.device)
    missed = torch.zeros((), dtype=torch.float64)
    for batch in tokens.split(batch_size):
        codes = model.encode(batch)
        used |= codes.any(0)
        missed += (batch - model.decode(codes)).double().square().sum().cpu()
    total = (tokens - tokens.mean(0)).double().square().sum().cpu()
    return SparseFit(model, 1 - float(missed / total), 1 - float(used.float().mean()))
