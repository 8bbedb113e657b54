"""Low-rank changes of a linear layer that itself stays as it is."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class LowRankLinear(nn.Linear):
    r"""A linear layer, and beside it a change of low rank that learns in its place.

    .. math:: y = W x + b + B A x, \qquad
        A \in \mathbb{R}^{r \times \mathrm{in}},\; B \in \mathbb{R}^{\mathrm{out} \times r}

    Hu et al. 2022, "LoRA", section 4.1: A starts as noise and B as zero, so at first the layer
    does what it did. Their factor alpha / r is 1 here; the learning rate takes its place.

    Args:
        layer: keeps its weights, which this layer shares and does not train.
        rank: of the change, from 1 to the smaller side of the weight.
        generator: of the noise, on the CPU.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from vitbook.layers import LowRankLinear
        >>> layer = nn.Linear(8, 6)
        >>> adapted = LowRankLinear(layer, 2, torch.Generator().manual_seed(0))
        >>> tokens = torch.rand(3, 8)
        >>> torch.equal(adapted(tokens), layer(tokens)), adapted.down.numel() + adapted.up.numel()
        (True, 28)
    """

    def __init__(self, layer: nn.Linear, rank: int, generator: torch.Generator | None = None):
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self.weight.requires_grad_(False)
        if self.bias is not None:
            self.bias.requires_grad_(False)
        noise = torch.randn(rank, self.in_features, generator=generator) * self.in_features**-0.5
        self.down = nn.Parameter(noise.to(self.weight))
        self.up = nn.Parameter(self.weight.new_zeros(self.out_features, rank))

    def forward(self, inputs: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        change = nn.functional.linear(nn.functional.linear(inputs, self.down), self.up)
        return super().forward(inputs) + change

    @torch.no_grad()
    def merge(self) -> nn.Linear:
        """The plain layer that does the same: BA is added to the weight, and costs nothing later.

        The weight is changed in place, so this layer itself is of no use afterwards.
        """
        self.weight += self.up @ self.down
        return plain_linear(self)


def plain_linear(layer: nn.Linear) -> nn.Linear:
    """A layer of torch's own with the same parameters."""
    plain = nn.Linear(layer.in_features, layer.out_features, bias=False, device="meta")
    plain.weight, plain.bias = layer.weight, layer.bias
    return plain.train(layer.training)
