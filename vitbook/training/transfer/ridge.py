"""A linear layer in closed form: ridge regression of features on their classes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from vitbook.training.transfer.examples import check_examples

# Of the reference, for however many images; see RidgePath.
REFERENCE_PENALTY = 2.0**10
# What a choice is made of. Features that hardly differ between images ask for little: their small
# principal components tell the classes apart.
PENALTIES = tuple(4.0**power for power in range(-10, 9))
# Added to the spread of each feature, so that one that never changes becomes 0 and not NaN.
FLOOR = 1e-5
# Of what a fit leaves of its own images, in float64.
SINGULAR = 1e-14
# Numbers of the folds' blocks that are held at once: 32 MB.
MOST = 2**22


class FitsEveryImageError(ValueError):
    """A fit that goes through every image says nothing of one that is left out."""


@dataclass(frozen=True)
class RidgeLayer:
    """A linear layer on features as they come, and the penalty with which it was fitted.

    Attributes:
        weight: of the features, unscaled.
        bias: likewise.
        penalty: on the squared weights of the standardised features.
    """

    weight: Float64[Tensor, "classes features"]
    bias: Float64[Tensor, "classes"]
    penalty: float

    def logits(self, features: Float[Tensor, "n features"]) -> Float64[Tensor, "n classes"]:
        return features.double() @ self.weight.T + self.bias


class RidgePath:
    """Ridge regression of one set of images, for every penalty from one decomposition.

    With X the standardised features and Y the targets, +1 for an image's own class and -1 for the
    others, the layer minimises ``|X W + 1 b - Y|^2 + penalty |W|^2``: W is
    ``(X'X + penalty I)^-1 X'Y``, or the same ``X'(XX' + penalty I)^-1 Y`` where there are fewer
    images than features, and b the mean of Y. It is the few-shot linear evaluation of Dosovitskiy
    et al. 2021, section 4.1, done as its authors do it (google-research/big_vision,
    ``evaluators/fewshot_lsr.py``, read at commit 1475d53):

    - What they call whitening scales each feature by itself: less its mean over the training
      images, over their standard deviation plus 1e-5. Features stay correlated.
    - The penalty is not scaled by the number of images; theirs is always 2^10
      (``configs/common_fewshot.py``), here :meth:`best` chooses.
    - Here the bias is not penalised. Theirs is the weight of a constant feature of 100: it is
      b n / (n + penalty / 10^4), and with as many images of each class nobody's answer changes.

    Solved in float64.

    Args:
        features: of the training images.
        labels: their classes. A class without an image is given -1 everywhere.
        num_classes: rows of the layer; by default as many as the largest label tells.

    Raises:
        TypeError, ValueError: features or labels that
            :func:`~vitbook.training.transfer.examples.check_examples` refuses.

    Example:
        >>> import torch
        >>> from vitbook.training.transfer.ridge import RidgePath
        >>> features, labels = torch.tensor([[0.0], [1.0], [9.0]]), torch.tensor([0, 0, 1])
        >>> layer = RidgePath(features, labels).layer(1e-6)
        >>> layer.logits(torch.tensor([[1.5], [8.0]])).argmax(1)
        tensor([0, 1])
    """

    def __init__(
        self,
        features: Float[Tensor, "n features"],
        labels: Int64[Tensor, "n"],
        num_classes: int | None = None,
    ):
        num_classes = check_examples(features, labels, num_classes)
        features = features.detach().double()
        self.mean = features.mean(dim=0)
        self.spread = features.std(dim=0, correction=0) + FLOOR
        self.targets = 2 * F.one_hot(labels.long(), num_classes).double() - 1
        self.bias = self.targets.mean(dim=0)
        scaled = (features - self.mean) / self.spread
        # W = lift diag(1 / (values + penalty)) into' Y, and the fitted X W = out diag(...) into' Y.
        if len(scaled) >= scaled.shape[1]:
            self.values, self.lift = torch.linalg.eigh(scaled.T @ scaled)
            self.out = self.into = scaled @ self.lift
        else:
            self.values, self.into = torch.linalg.eigh(scaled @ scaled.T)
            self.lift, self.out = scaled.T @ self.into, self.into * self.values
        self.asked = self.into.T @ self.targets

    def layer(self, penalty: float) -> RidgeLayer:
        """The layer of one penalty, which is more than 0."""
        weight = self._shrunk(self.lift, penalty) @ self.asked / self.spread[:, None]
        bias = self.bias - self.mean @ weight
        return RidgeLayer(weight.T.contiguous(), bias, float(penalty))

    def best(self, folds: Int64[Tensor, "n"], penalties: Sequence[float] = PENALTIES) -> RidgeLayer:
        """The layer of the penalty whose answers for images left out agree best with the targets.

        Agreement is the cosine between the two, each less the mean of the targets. As the answer
        itself, the largest logit, it does not hear their size: the squared error does, and asks for
        ever larger penalties where features say little. And it is smoother than the share that is
        right, of which a few images have a few steps.

        Args:
            folds: as :meth:`left_out_logits` takes them. Let each hold as many images of every
                class: else the classes of those that are left out are rarer among the others, and
                the mean of the targets speaks against them.
            penalties: some, each above 0. One with which the fit goes through every image is passed
                over, unless all do.

        Raises:
            ValueError: what :meth:`left_out_logits` refuses.
        """
        wanted = (self.targets - self.bias).flatten()

        def agreement(penalty: float) -> float:
            try:
                found = (self.left_out_logits(penalty, folds) - self.bias).flatten()
            except FitsEveryImageError:
                if penalty == max(penalties):
                    raise
                return -math.inf
            return float(F.cosine_similarity(found, wanted, dim=0))

        return self.layer(max(penalties, key=agreement))

    def left_out_logits(
        self, penalty: float, folds: Int64[Tensor, "n"]
    ) -> Float64[Tensor, "n classes"]:
        """What each image gets from the layer that is fitted without its fold, none being fitted.

        Its residual is ``(I - H)^-1 (Y - fitted)`` over the rows of the fold, with the fold's block
        of ``H = 11'/n + X (X'X + penalty I)^-1 X'`` (Cook and Weisberg 1982; of one image it is the
        familiar division by 1 - h). Exact: weights and bias are those of a new fit. Mean and spread
        of the features, for which no label is asked, stay those of all images.

        Args:
            folds: a number for each image; ``torch.arange(n)`` leaves out one at a time.

        Raises:
            FitsEveryImageError: a penalty too small to tell a fit from its images.
            ValueError: one fold alone, or not one number for each image.
        """
        number = len(self.targets)
        if folds.shape != (number,) or len(folds.unique()) < 2:
            raise ValueError(
                f"folds of shape {tuple(folds.shape)}, {len(folds.unique())} different: expected "
                f"one for each of {number} images, and 2 or more"
            )
        shrunk = self._shrunk(self.out, penalty)
        residual = self.targets - self.bias - shrunk @ self.asked
        found = torch.empty_like(self.targets)
        sizes = folds.unique(return_inverse=True, return_counts=True)[1:]
        for rows in _rows_by_size(*sizes):  # folds of one size at once
            eye = torch.eye(rows.shape[1], dtype=torch.float64, device=rows.device)
            block = eye - 1 / number - shrunk[rows] @ self.into[rows].mT
            # Nothing of an image is left once its own fit is taken off: no more than rounding.
            factor, failed = torch.linalg.cholesky_ex(block)
            if failed.any() or factor.diagonal(dim1=1, dim2=2).square().min() < SINGULAR:
                raise FitsEveryImageError(
                    f"with a penalty of {penalty:g} the fit goes through every image, and none can "
                    "be left out: give a larger one"
                )
            found[rows] = self.targets[rows] - torch.cholesky_solve(residual[rows], factor)
        return found

    def _shrunk(self, columns: Tensor, penalty: float) -> Tensor:
        # What rounding leaves of an eigenvalue of 0 is noise, below 0 or above.
        noise = 10 * torch.finfo(torch.float64).eps * self.values.max()
        return columns * torch.where(self.values > noise, 1 / (self.values + penalty), 0)


def _rows_by_size(
    folds: Int64[Tensor, "n"], counts: Int64[Tensor, "folds"]
) -> Iterator[Int64[Tensor, "alike size"]]:
    # Folds as rows of places, those of one size together as far as memory goes.
    in_turn = folds.argsort(stable=True).split(counts.tolist())
    for size in counts.unique().tolist():
        alike = torch.stack([rows for rows in in_turn if len(rows) == size])
        yield from alike.split(max(1, MOST // size**2))
