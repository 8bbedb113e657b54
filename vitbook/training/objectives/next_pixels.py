r"""Next pixel prediction: a body learns to go on with an image (Chen et al. 2020, "iGPT")."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn

from vitbook.datasets import Dataset, normalize
from vitbook.errors import is_whole_number
from vitbook.model_utilities import evaluating
from vitbook.models.igpt import is_causal
from vitbook.training.engine.processes import processes
from vitbook.training.objectives.learner import Learner
from vitbook.training.objectives.patch_colors import commonest_color, to_bytes
from vitbook.training.transfer.guesses import Guesses, score_guesses

GREYS = 17  # of the digits


def grey_levels(images: UInt8[Tensor, "*batch"], levels: int = GREYS) -> Int64[Tensor, "*batch"]:
    """The nearest of so many greys, evenly apart from black, 0, to white.

    The digits have 17 of them, which come back from their bytes as they were.

    Args:
        images: uint8, as a data set holds them.
        levels: 2 to 256.

    Raises:
        TypeError: images that are not uint8.
        ValueError: another number of levels.

    Example:
        >>> import torch
        >>> from vitbook.training import grey_levels
        >>> grey_levels(torch.tensor([0, 16, 128, 255], dtype=torch.uint8))
        tensor([ 0,  1,  8, 16])
    """
    if images.dtype != torch.uint8:
        raise TypeError(
            f"images are {str(images.dtype).removeprefix('torch.')}: expected uint8, 0 to 255"
        )
    _check_levels(levels)
    return (images.float() * (levels - 1) / 255).round().long()


def level_bytes(greys: Int64[Tensor, "*batch"], levels: int = GREYS) -> UInt8[Tensor, "*batch"]:
    """The byte that each grey is shown as: what :func:`grey_levels` undoes."""
    return (greys.float() * 255 / (levels - 1)).round().to(torch.uint8)


class PixelGuesses(Guesses):
    """What a model says of every pixel, row by row, having read those in front of it.

    Bits per pixel are the loss by log 2.
    """


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
        ValueError: another model; or, in the forward pass, images of another size or other
            channels, or that reach beyond -1 to 1.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.training import NextPixels
        >>> learner = NextPixels(vitbook.create_model("igpt_micro_patch1_8"))
        >>> guesses = learner(torch.zeros(5, 1, 8, 8))
        >>> tuple(guesses.logits.shape), guesses.targets.unique()
        ((5, 64, 17), tensor([8]))
    """

    def __init__(self, model: nn.Module, levels: int = GREYS):
        super().__init__()
        _check_levels(levels)
        _check_reads_pixels(model)
        self.model, self.levels = model, levels
        self.predictor = nn.Linear(model.prefix.shape[1], levels)
        nn.init.trunc_normal_(self.predictor.weight, std=0.02, a=-0.04, b=0.04)
        nn.init.zeros_(self.predictor.bias)

    def forward(self, images: Float[Tensor, "batch 1 height width"]) -> PixelGuesses:
        """Predict every pixel.

        Args:
            images: between -1 and 1, as :func:`vitbook.datasets.normalize` gives them.
        """
        _check_size(images, self.model)
        greys = grey_levels(to_bytes(images), self.levels).flatten(1)
        return PixelGuesses(self.predict(greys), greys)

    def predict(self, greys: Int64[Tensor, "batch pixels"]) -> Float[Tensor, "batch pixels levels"]:
        """Logits of each pixel's level from the levels in front of it."""
        images = level_bytes(greys, self.levels).unflatten(1, (1, *self.model.grid_size))
        return self.predictor(self.model.features(normalize(images))[:, :-1])

    def score(self, dataset: Dataset) -> dict[str, float]:
        """``accuracy`` and ``held_out_loss`` of the pixels, see :func:`evaluate_pixels`."""
        accuracy, loss = evaluate_pixels(self, dataset)
        return {"accuracy": accuracy, "held_out_loss": loss}


def _check_size(images: Tensor, model: nn.Module) -> None:
    height, width = model.grid_size
    if images.shape[1:] != (1, height, width):
        raise ValueError(
            f"images of shape {tuple(images.shape)}: expected (batch, 1, {height}, {width}), as "
            "the model reads them"
        )


def _check_levels(levels: int) -> None:
    if not is_whole_number(levels) or not 2 <= levels <= 256:
        raise ValueError(f"{levels!r} levels of grey: expected a whole number from 2 to 256")


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


@torch.no_grad()
def continue_pixels(
    learner: NextPixels,
    images: UInt8[Tensor, "batch 1 height width"],
    rows: int,
    generator: torch.Generator | None = None,
) -> UInt8[Tensor, "batch 1 height width"]:
    """Images as the model goes on with them, pixel by pixel, behind their first rows.

    Args:
        images: what stands below ``rows`` is not looked at.
        rows: that are given; 0 makes whole images of nothing.
        generator: on the CPU, draws each pixel by its probability; None takes the likeliest level.

    Raises:
        TypeError: images that are not uint8.
        ValueError: images of another size, or more rows than they have.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.datasets import load
        >>> from vitbook.training import NextPixels, continue_pixels
        >>> learner = NextPixels(vitbook.create_model("igpt_micro_patch1_8"))
        >>> digits = load("digits", "test").images[:2]
        >>> made = continue_pixels(learner, digits, 4, torch.Generator().manual_seed(0))
        >>> torch.equal(made[:, :, :4], digits[:, :, :4]), torch.equal(made, digits)
        (True, False)
    """
    _check_size(images, learner.model)
    height, width = learner.model.grid_size
    if not is_whole_number(rows) or not 0 <= rows <= height:
        raise ValueError(f"{rows!r} rows given: expected a whole number from 0 to {height}")
    device = learner.predictor.weight.device
    greys = grey_levels(images.to(device), learner.levels).flatten(1)
    greys[:, rows * width :] = 0
    with evaluating(learner):
        for place in range(rows * width, height * width):
            shares = learner.predict(greys)[:, place].float().softmax(dim=-1)
            if generator is None:
                greys[:, place] = shares.argmax(dim=-1)
            else:
                drawn = torch.multinomial(shares.cpu(), 1, generator=generator)
                greys[:, place] = drawn[:, 0].to(device)
    return level_bytes(greys, learner.levels).unflatten(1, (1, height, width))


def evaluate_pixels(
    learner: NextPixels, dataset: Dataset, batch_size: int = 256
) -> tuple[float, float]:
    """Accuracy (0 to 1) and cross-entropy (nats) of the next pixel, over all held-out pixels.

    With several processes each looks at its own images.
    """
    here = processes()
    return score_guesses(learner, dataset.images[here.rank :: here.count], batch_size)


class PlaceNull(NamedTuple):
    """What is reached without looking at any other pixel of an image.

    Attributes:
        accuracy: of the level that is commonest at each place, over held-out pixels, 0 to 1.
        cross_entropy: in nats, of each place's training frequencies as its answer.
    """

    accuracy: float
    cross_entropy: float


def commonest_level(
    training: UInt8[Tensor, "n 1 height width"],
    held_out: UInt8[Tensor, "m 1 height width"],
    levels: int = GREYS,
) -> PlaceNull:
    """The null of next pixel prediction: each place has its own answer, the same in every image.

    Each training count is one higher than it is, see :func:`~.patch_colors.commonest_color`.

    Args:
        training: images to count.
        held_out: images to be scored on.
        levels: see :func:`grey_levels`.

    Raises:
        TypeError: images that are not uint8.
        ValueError: no images, or held-out ones of another size.
    """
    if training.shape[1:] != held_out.shape[1:]:
        raise ValueError(
            f"images of shapes {tuple(training.shape)} and {tuple(held_out.shape)}: expected one "
            "size, so that both have the same places"
        )
    seen, asked = (grey_levels(images, levels).flatten(1).T for images in (training, held_out))
    found = [commonest_color(*place, levels) for place in zip(seen, asked, strict=True)]
    return PlaceNull(
        sum(place.accuracy for place in found) / len(found),
        sum(place.cross_entropy for place in found) / len(found),
    )
