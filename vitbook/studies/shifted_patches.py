"""What the chapter on shifted patches counts: how many tokens a query uses, itself left aside."""

import torch
from jaxtyping import Float
from torch import Tensor


@torch.no_grad()
def others_in_use(
    weights: Float[Tensor, "batch heads queries keys"],
) -> Float[Tensor, " heads"]:
    r"""How many of the *other* tokens a query uses, as a share of them all: 0 to 1.

    A row without its own token is scaled to sum 1; :math:`e^H` of its entropy :math:`H` is then
    the number of tokens that would be used as evenly. So a mask of the diagonal alone changes
    nothing, and sharper scores give less.

    Example:
        >>> import torch
        >>> from vitbook.studies.shifted_patches import others_in_use
        >>> others_in_use(torch.full((1, 2, 5, 5), 1 / 5)).tolist()
        [1.0, 1.0]
    """
    keys = weights.shape[-1]
    own = torch.eye(keys, dtype=torch.bool, device=weights.device)
    others = weights.masked_fill(own, 0)
    others = others / others.sum(-1, keepdim=True)
    entropy = torch.special.entr(others).sum(-1)
    return entropy.exp().mean((0, 2)) / (keys - 1)
