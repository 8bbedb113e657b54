r"""Next pixel prediction: a body learns to go on with an image (Chen et al. 2020, "iGPT")."""

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn

from vitbook.datasets import Dataset, normalize
from vitbook.models.papers.igpt import is_causal
from vitbook.studies.self_supervision.guesses import Guesses, score_guesses
from vitbook.studies.self_supervision.patch_colors import to_bytes
from vitbook.training.engine.processes import processes
from vitbook.training.objectives.learner import Learner

GREYS = 17  # of the digits


def grey_levels(images: UInt8[Tensor, "*batch"], levels: int = GREYS) -> Int64[Tensor, "*batch"]:
    """The nearest of so many greys, evenly apart from black, 0, to white.

    The digits have 17 of them, which come back from their bytes as they were.

    Args:
        images: uint8, as a data set holds them.
        levels: 2 to 256.

    Example:
        >>> import torch
        >>> from vitbook.studies.self_supervision.next_pixels import grey_levels
        >>> grey_levels(torch.tensor([0, 16, 128, 255], dtype=torch.uint8))
        tensor([ 0,  1,  8, 16])
    """
    return (images.float() * (levels - 1) / 255).round().long()


def level_bytes(greys: Int64[Tensor, "*batch"], levels: int = GREYS) -> UInt8[Tensor, "*batch"]:
    """The byte that each grey is shown as: what :func:`grey_levels` undoes."""
    return (greys.float() * 255 / (levels - 1)).round().to(torch.uint8)


class NextPixels(Learner):
    r"""A causal Transformer that predicts each pixel's grey from the pixels in front of it.

    With the pixels :math:`x_1, \ldots, x_N` row by row,

    .. math::
        p(x) = \prod_{i=1}^N p(x_i \mid x_1, \ldots, x_{i-1}), \qquad
        L = -\frac{1}{N} \log p(x)

    iGPT (Chen et al. 2020), section 2.1, in raster order. The token behind :math:`x_{i-1}` answers
    for :math:`x_i`, the class token for :math:`x_1`; the last pixel's token answers for nothing.
    What is read are the levels that are predicted, so that a picture that the model has made is
    read as any other.

    The wrapped model learns in place; its head is left as it is.

    Args:
        model: a causal Vision Transformer whose tokens are the pixels of grey images.
        levels: of grey, see :func:`grey_levels`.

    Raises:
        ValueError: another model.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.studies.self_supervision import NextPixels
        >>> learner = NextPixels(vitbook.create_model("igpt_micro_patch1_8"))
        >>> guesses = learner(torch.zeros(5, 1, 8, 8))
        >>> tuple(guesses.logits.shape), guesses.targets.unique()
        ((5, 64, 17), tensor([8]))
    """

    def __init__(self, model: nn.Module, levels: int = GREYS):
        super().__init__()
        _check_reads_pixels(model)
        self.model, self.levels = model, levels
        self.predictor = nn.Linear(model.prefix.shape[1], levels)
        nn.init.trunc_normal_(self.predictor.weight, std=0.02, a=-0.04, b=0.04)
        nn.init.zeros_(self.predictor.bias)

    def forward(self, images: Float[Tensor, "batch 1 height width"]) -> Guesses:
        """Predict every pixel; bits per pixel are the loss by log 2.

        Args:
            images: between -1 and 1, as :func:`vitbook.datasets.normalize` gives them.
        """
        greys = grey_levels(to_bytes(images), self.levels).flatten(1)
        return Guesses(self.predict(greys), greys)

    def predict(self, greys: Int64[Tensor, "batch pixels"]) -> Float[Tensor, "batch pixels levels"]:
        """Logits of each pixel's level from the levels in front of it."""
        images = level_bytes(greys, self.levels).unflatten(1, (1, *self.model.grid_size))
        return self.predictor(self.model.features(normalize(images))[:, :-1])

    def score(self, dataset: Dataset) -> dict[str, float]:
        """``accuracy`` and ``held_out_loss``, in nats, of the next pixel over all pixels."""
        here = processes()
        return score_guesses(self, dataset.images[here.rank :: here.count])


def _check_reads_pixels(model: nn.Module) -> None:
    if not (
        is_causal(model)
        and model.num_prefix_tokens == 1
        and getattr(getattr(model.tokenizer, "projection", None), "kernel_size", None) == (1, 1)
        and model.tokenizer.channels == 1
    ):
        raise ValueError(
            f"next pixels of this {type(model).__name__}: expected a causal Vision Transformer, "
            "one token for each pixel of a grey image, such as igpt_micro_patch1_8"
        )
