"""How many channels a layer uses, and how many it has."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from vitbook.devices import to_float64


@torch.no_grad()
def effective_channels(outputs: Float[Tensor, "*lead channels"]) -> float:
    r"""How many channels of equal variance, independent of each other, would vary as these do.

    .. math:: \Big(\sum_i \lambda_i\Big)^2 \Big/ \sum_i \lambda_i^2

    The :math:`\lambda_i` are the eigenvalues of the channels' correlations (the participation
    ratio), so that a channel's unit does not matter: 1 where all channels say the same, their
    number where no two have anything in common. A channel that never changes is left out.

    Args:
        outputs: of one layer, channels last; every token of every image is one observation.

    Raises:
        ValueError: fewer than two observations, NaN or infinity, or no channel that changes.

    Example:
        >>> import torch
        >>> from vitbook.analysis import effective_channels
        >>> one = torch.arange(5.0)[:, None]
        >>> round(effective_channels(torch.cat([one, 2 * one, -one], dim=1)), 6)
        1.0
    """
    rows = rearrange(to_float64(outputs), "... channels -> (...) channels")
    rows = rows - rows[:1]  # what never changes is 0 to the bit
    if len(rows) < 2 or not rows.isfinite().all():
        raise ValueError(
            f"outputs of shape {tuple(outputs.shape)} with {len(rows)} observations: expected two "
            "or more, all of finite numbers; run the model on more images, or mend it"
        )
    reach = rows.abs().amax(0)
    if not reach.any():
        raise ValueError(
            f"{outputs.shape[-1]} channels that never change: expected one or more that do; run "
            "the model on different images"
        )
    rows = rows[:, reach > 0] / reach[reach > 0]  # before squares: of tiny numbers they are 0
    rows = rows - rows.mean(0)
    rows = rows / rows.square().mean(0).sqrt()
    correlations = rows.mT @ rows / len(rows)
    return (correlations.trace() ** 2 / correlations.square().sum()).item()
