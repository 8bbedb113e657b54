"""From the encoder's tokens to logits."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.errors import UnknownNameError, is_whole_number
from vitbook.layers.initialization import linear
from vitbook.layers.normalization import layer_norm
from vitbook.layers.shapes import Logits, Tokens

POOLS = ("class", "mean", "class_and_mean")

Both = tuple[Logits, Logits]


class ClassTokenHead(nn.Module):
    r"""Classify by the class token, :math:`y = z_L^0`, with one linear layer.

    ViT paper, section 3.2: with ``hidden_width`` a tanh layer stands before it, as in
    pre-training.
    """

    def __init__(self, width: int, num_classes: int, hidden_width: int | None = None):
        super().__init__()
        self.hidden = (
            nn.Sequential(linear(width, hidden_width), nn.Tanh()) if hidden_width else nn.Identity()
        )
        self.classifier = classifier(hidden_width or width, num_classes)

    def forward(self, tokens: Tokens) -> Logits:
        return self.classifier(self.hidden(tokens[:, 0]))


class MeanPoolHead(nn.Module):
    """Classify by the mean of the patch tokens (ViT paper, appendix D.3).

    Raises:
        ValueError: in the forward pass, tokens of which none is a patch.
    """

    def __init__(self, width: int, num_classes: int, num_prefix_tokens: int = 0):
        super().__init__()
        self.num_prefix_tokens = num_prefix_tokens
        self.classifier = classifier(width, num_classes)

    def forward(self, tokens: Tokens) -> Logits:
        return self.classifier(_mean_of_patches(tokens, self.num_prefix_tokens))


class NormedMeanHead(MeanPoolHead):
    """Classify by the mean of the tokens, normed: Hiera's (Ryali et al. 2023, code)."""

    def __init__(self, width: int, num_classes: int):
        super().__init__(width, num_classes)
        self.norm = layer_norm(width)

    def forward(self, tokens: Tokens) -> Logits:
        return self.classifier(self.norm(_mean_of_patches(tokens, 0)))


class ClassAndMeanHead(nn.Module):
    """Classify by the class token beside the mean of the patch tokens, with one linear layer.

    The linear evaluation of DINO (Caron et al. 2021) and DINOv2 (Oquab et al. 2023): a class token
    trained without labels does not hold everything that the patches know.

    Args:
        num_prefix_tokens: in front of the patches, the class token first; registers are left out.

    Raises:
        ValueError: no class token among the prefix; in the forward pass, tokens of which none is
            a patch.
    """

    def __init__(self, width: int, num_classes: int, num_prefix_tokens: int = 1):
        super().__init__()
        if not is_whole_number(num_prefix_tokens) or num_prefix_tokens < 1:
            raise ValueError(
                f"num_prefix_tokens {num_prefix_tokens!r}: expected a whole number, at least 1 "
                "for the class token"
            )
        self.num_prefix_tokens = num_prefix_tokens
        self.classifier = classifier(2 * width, num_classes)

    def forward(self, tokens: Tokens) -> Logits:
        mean = _mean_of_patches(tokens, self.num_prefix_tokens)
        return self.classifier(torch.cat([tokens[:, 0], mean], dim=1))


def _mean_of_patches(tokens: Tensor, num_prefix_tokens: int) -> Float[Tensor, "batch width"]:
    if tokens.shape[1] <= num_prefix_tokens:
        raise ValueError(
            f"{tokens.shape[1]} tokens, {num_prefix_tokens} of them prefix: expected patches "
            "behind them, whose mean is read"
        )
    return tokens[:, num_prefix_tokens:].mean(dim=1)


class ClassToken(nn.Module):
    """The class token as it is: a body that has no answer yet."""

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch width"]:
        return tokens[:, 0]


def make_head(
    pool: str, width: int, num_classes: int, num_prefix_tokens: int = 1
) -> ClassTokenHead | MeanPoolHead | ClassAndMeanHead:
    """One linear layer on the class token, on the mean of the patch tokens, or on both.

    Args:
        pool: "class", "mean" or "class_and_mean".

    Raises:
        UnknownNameError: another pool.
        ValueError: no class token among the prefix, and the pool reads one.
    """
    if pool not in POOLS:
        raise UnknownNameError("pool", pool, POOLS)
    if pool == "mean":
        return MeanPoolHead(width, num_classes, num_prefix_tokens)
    if num_prefix_tokens < 1:
        raise ValueError(f'pool "{pool}" of a model without a class token: use pool "mean"')
    if pool == "class":
        return ClassTokenHead(width, num_classes)
    return ClassAndMeanHead(width, num_classes, num_prefix_tokens)


class DistilledHead(nn.Module):
    """Two heads: the class token answers the label, the distillation token answers a teacher.

    DeiT (Touvron et al. 2021), section 4. In training it gives the logits of both, in evaluation
    their mean.
    """

    def __init__(self, width: int, num_classes: int):
        super().__init__()
        self.classifier = classifier(width, num_classes)
        self.distillation = classifier(width, num_classes)

    def forward(self, tokens: Tokens) -> Logits | Both:
        logits, distilled = self.classifier(tokens[:, 0]), self.distillation(tokens[:, 1])
        return (logits, distilled) if self.training else (logits + distilled) / 2


def classifier(width: int, num_classes: int) -> nn.Linear:
    if num_classes < 1:
        raise ValueError(f"{num_classes} classes: expected at least 1")
    return linear(width, num_classes)
