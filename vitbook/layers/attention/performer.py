"""Attention in linear time, by random features (Performer)."""

import math
from math import ceil, log

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.attention.softmax import Attention, Mask, SelfAttention, full_precision


class PerformerAttention(Attention):
    r"""Softmax attention through a few random features, in time linear in the tokens.

    .. math::
        \mathrm{out}_i = \frac{\sum_j \phi(q_i)^\top\phi(k_j)\, v_j}
                              {\sum_j \phi(q_i)^\top\phi(k_j)}, \qquad
        \phi(x) = \frac{1}{\sqrt m}\, e^{Wx - |x|^2/2}

    Choromanski et al. 2021, "Rethinking attention with Performers", lemma 1; as in T2T-ViT's code
    :math:`W` is orthogonal, drawn once and stretched by :math:`\sqrt m`, and nothing divides
    :math:`q^\top k` unless ``scale`` says so: with many features it stands for
    :math:`\mathrm{softmax}(qk^\top)`. Only small inputs come near it: the error falls as
    :math:`1/\sqrt m`, but from a height that grows exponentially with :math:`|q + k|^2`. With fewer
    features than the width :math:`d` the rows are too short for the lemma: what their mean stands
    for is then close to :math:`\mathrm{softmax}_j(r\,q^\top k_j - (1 - r)\,|k_j|^2/2)` with
    :math:`r = m/d`, one half in T2T-ViT.

    The T2T-ViT code adds ``1e-8`` to the denominator; in half precision that number rounds to zero.
    Here the same ratio is computed as two softmaxes (:meth:`factors`), so that no denominator can
    vanish. Where queries and keys are long, their features are so small that the ``1e-8`` outweighs
    them and shrinks the output. Weights that were trained with it need ``epsilon=1e-8`` to give the
    same output here. ``forward`` takes no mask. ``directions`` is :math:`W`: a buffer, saved with
    the model, never learned.

    Args:
        width: of a query and a key.
        num_features: :math:`m`, the rows of :math:`W`; T2T-ViT takes half the width.
        epsilon: added to the denominator; above zero, a row of the map sums to less than 1.
        scale: factor of :math:`q^\top k`; the query and the key are each multiplied by its square
            root. With ``width**-0.5`` the map approximates that of :class:`~.softmax.Attention`.
    """

    def __init__(
        self, width: int, num_features: int, epsilon: float = 0.0, scale: float | int = 1.0
    ):
        super().__init__()
        self.epsilon = epsilon
        self.scale = scale
        directions = nn.init.orthogonal_(torch.empty(num_features, width))
        self.register_buffer("directions", directions * num_features**0.5)

    def forward(
        self,
        q: Float[Tensor, "batch heads queries width"],
        k: Float[Tensor, "batch heads keys width"],
        v: Float[Tensor, "batch heads keys value_width"],
        mask: Mask | None = None,
    ) -> Float[Tensor, "batch heads queries value_width"]:
        mixing, pooling = self.factors(q, k, mask)
        with full_precision(q.device):
            return (mixing @ (pooling @ v.to(pooling.dtype))).to(v.dtype)

    def weights(
        self,
        q: Float[Tensor, "batch heads queries width"],
        k: Float[Tensor, "batch heads keys width"],
        mask: Mask | None = None,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The map that forward applies to ``v`` and never writes: each row sums to 1.

        With an ``epsilon`` above zero each row sums to less than 1.
        """
        mixing, pooling = self.factors(q, k, mask)
        with full_precision(q.device):
            return mixing @ pooling

    def factors(
        self,
        q: Float[Tensor, "batch heads queries width"],
        k: Float[Tensor, "batch heads keys width"],
        mask: Mask | None = None,
    ) -> tuple[
        Float[Tensor, "batch heads queries features"], Float[Tensor, "batch heads features keys"]
    ]:
        r"""The two thin factors of the map; the rows of both sum to 1.

        Each feature pools the keys by its own softmax over them, and each query mixes the pools
        by a softmax over the features:

        .. math::
            A = \mathrm{softmax}_m\Big(Wq_i + \log\sum_j e^{g_{mj}}\Big)\,
                \mathrm{softmax}_j(g_{mj}), \qquad g_{mj} = (Wk_j)_m - |k_j|^2/2

        It is the definition's ratio: what a query's features share, :math:`|q|^2/2` and
        :math:`\sqrt m`, cancels. Both are float32 at least. An ``epsilon`` dims the first by
        :math:`D / (D + \epsilon)`, where :math:`D` is the definition's denominator.
        """
        if mask is not None:
            raise ValueError("a mask came, but Performer attention sums over all keys: use None")
        exact = torch.promote_types(q.dtype, torch.float32)
        with full_precision(q.device):
            root = self.scale**0.5
            q, k, directions = q.to(exact) * root, k.to(exact) * root, self.directions.to(exact)
            of_keys = directions @ k.mT - k.square().sum(-1)[..., None, :] / 2
            of_queries = q @ directions.mT + of_keys.logsumexp(-1)[..., None, :]
            mixing = of_queries.softmax(-1)
            if self.epsilon:
                squares = q.square().sum(-1, keepdim=True) / 2
                log_total = of_queries.logsumexp(-1, keepdim=True) - squares
                log_total = log_total - math.log(len(directions))
                mixing = mixing * (log_total - math.log(self.epsilon)).sigmoid()
            return mixing, of_keys.softmax(-1)


class PerformerSelfAttention(SelfAttention):
    r"""Multi-head self-attention through random features: linear in the tokens.

    Choromanski et al. 2021, "Rethinking attention with Performers". Each head's
    :class:`PerformerAttention` stands for the :math:`\mathrm{softmax}(qk^\top/\sqrt d)` of
    :class:`~.softmax.SelfAttention`, with the same parameters: queries and keys are scaled by
    :math:`d^{-1/4}` before the features. All heads share :math:`W`, which is drawn once; the
    authors draw it anew from time to time while training.

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`.
        num_features: :math:`m`. By default :math:`d \ln d` for heads of width :math:`d`, the order
            that the paper's bound (theorem 4) asks for, and never less than :math:`d`: with fewer
            the map stands for a softer softmax. It saves time only where tokens are many more.
    """

    def __init__(
        self, width: int, num_heads: int, qkv_bias: bool = True, num_features: int | None = None
    ):
        super().__init__(width, num_heads, qkv_bias)
        head_width = width // num_heads
        if num_features is None:
            num_features = max(head_width, ceil(head_width * log(head_width)))
        self.core = PerformerAttention(head_width, num_features, scale=head_width**-0.5)
