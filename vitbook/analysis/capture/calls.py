"""One attention as it ran, as plain data."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from vitbook.layers.attention.softmax import Attention, full_precision

ALL = slice(None)


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What went into an attention and what came out.

    Attributes:
        path: the module in which it ran.
        v: what the weights mix, without gradient: "batch heads keys value_width". Further axes
            between heads and keys are windows, where a model attends inside each.
        output: what came of it, in the graph of the forward pass.
        q: queries, without gradient: "batch heads queries width"; None where the model wrote its
            weights out itself.
        k: keys, likewise.
        mask: added to the scores, or true where a key may be looked at.
        scale: what the product of q and k is multiplied by; None is one over the root of width.
        written: the weights, before dropout, where the model wrote them out itself.
        form: makes weights of q, k and mask where they are no softmax of their product.
        layout: the axes of ``output``.
        projection: the matrix that ``output`` has been through, where it was only seen after.
        turn: how many attentions the module had in this run of it before; side by side, as in
            differential attention, and not one layer after the other.
    """

    path: str
    v: Tensor
    output: Tensor
    q: Tensor | None = None
    k: Tensor | None = None
    mask: Tensor | None = None
    scale: float | None = None
    written: Tensor | None = None
    form: Callable[[Tensor, Tensor, Tensor | None], Tensor] | None = None
    layout: str = "b h n d"
    projection: Tensor | None = None
    turn: int = 0

    @property
    def shape(self) -> tuple[int | torch.SymInt, ...]:
        """Of its map: batch, heads, queries, keys."""
        if self.written is not None:
            return tuple(self.written.shape)
        return (*self.q.shape[:-1], self.k.shape[-2])

    @torch.no_grad()
    def weights(
        self, images: slice = ALL, queries: slice = ALL
    ) -> Float[Tensor, "batch heads *windows queries keys"]:
        """Its map, of some images and some queries: without gradient, float32 at least.

        Made when it is asked for, since the fused kernels never write it. A query that may look
        at no key has a row of zeros.
        """
        if self.written is not None:
            some = self.written[images][..., queries, :]
            return some.to(torch.promote_types(some.dtype, torch.float32))
        mask = self.mask
        if mask is not None and mask.shape[-2] > 1:
            mask = mask[..., queries, :]
        if mask is not None and mask.ndim == self.q.ndim and mask.shape[0] > 1:
            mask = mask[images]
        q, k = self.q[images][..., queries, :], self.k[images]
        with full_precision(q.device):
            if self.form is not None:
                return self.form(q, k, mask)
            weights = Attention.weights(q, k, mask, self.scale)
        if mask is None:
            return weights
        nothing = ~mask.any(-1) if mask.dtype == torch.bool else mask.isneginf().all(-1)
        return weights.masked_fill(nothing[..., None], 0)  # as the kernels do

    def gradient_of_mixed(self, gradient: Tensor) -> Float[Tensor, "batch heads queries width"]:
        """The gradient of ``output`` -> that of weights times values."""
        if self.projection is not None:
            gradient = gradient @ self.projection
        return rearrange(gradient, f"{self.layout} -> b h n d", h=self.v.shape[1])
