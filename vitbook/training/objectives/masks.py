"""Which patches of an image are masked, and learners of what they hide."""

from typing import NamedTuple

import torch
from einops import repeat
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.model_utilities import evaluating
from vitbook.models import VisionTransformer
from vitbook.training.engine.batch_random import seed_of
from vitbook.training.engine.batches import Batches
from vitbook.training.objectives.learner import Learner

# What becomes of a patch. The first is not asked for; the others are, and only they are.
KEPT, MASKED, SWAPPED, UNCHANGED = range(4)
# Shares of the last three among the patches that are asked for.
PAPER_SHARES = (0.8, 0.1, 0.1)


class ChosenPatches(NamedTuple):
    """Which patches of each image are corrupted, and how.

    Attributes:
        kinds: of every patch: 0 kept, 1 masked, 2 swapped, 3 unchanged. All but the kept ones are
            corrupted: their colours are to be predicted.
        shown: of every patch, the patch whose embedding stands in its place, if it is not masked:
            another one for the swapped, itself for the rest.
        places: of the corrupted patches, in order; equally many of each image.
    """

    kinds: Int64[Tensor, "batch patches"]
    shown: Int64[Tensor, "batch patches"]
    places: Int64[Tensor, "batch corrupted"]

    def to(self, device: torch.device | str) -> "ChosenPatches":
        return ChosenPatches(*(each.to(device) for each in self))

    def part(self, images: slice) -> "ChosenPatches":
        """Of some of the images, such as those of one process."""
        return ChosenPatches(*(each[images] for each in self))


def choose_masked(
    batch: int, patches: int, generator: torch.Generator, share: float = 0.5
) -> ChosenPatches:
    """Draw which patches are corrupted and how (ViT paper, appendix B.1.2).

    Of each image ``round(share * patches)`` are. Each of these is masked with probability 0.8,
    swapped with 0.1 and left unchanged with 0.1. A swapped patch shows another patch of the same
    image, any of them: the paper says "a random other patch embedding" and not of which image.

    Args:
        generator: on the CPU; the same state draws the same.
        share: of the patches that is corrupted, between 0 and 1; the paper has half.

    Raises:
        ValueError: a share of which no patch or every patch of the grid would be.

    Example:
        >>> import torch
        >>> from vitbook.training.objectives.masks import choose_masked
        >>> chosen = choose_masked(1, 8, torch.Generator().manual_seed(1))
        >>> chosen.places.tolist(), chosen.kinds.tolist()
        ([[1, 2, 4, 6]], [[0, 1, 1, 0, 1, 0, 1, 0]])
    """
    corrupted = num_masked(patches, share)
    order = torch.rand(batch, patches, generator=generator).argsort(dim=1)
    places = order[:, :corrupted].sort(dim=1).values
    bounds = torch.tensor(PAPER_SHARES[:2]).cumsum(dim=0)
    drawn = MASKED + torch.bucketize(torch.rand(places.shape, generator=generator), bounds)
    kinds = torch.full((batch, patches), KEPT).scatter(1, places, drawn)
    # As far from itself as another patch can be, around the end: all others alike, never itself.
    away = torch.randint(1, patches, (batch, patches), generator=generator)
    own = torch.arange(patches).expand(batch, -1)
    shown = torch.where(kinds == SWAPPED, (own + away) % patches, own)
    return ChosenPatches(kinds, shown, places)


def num_masked(patches: int, share: float = 0.5) -> int:
    """How many patches of an image are corrupted: ``round(share * patches)``, halves to even.

    Raises:
        ValueError: none of them, or all.
    """
    corrupted = round(share * patches)
    if not 0 < corrupted < patches:
        raise ValueError(
            f"a share of {share:g} of {patches} patches is {corrupted}: expected some of them, and "
            "not all; take another share, or smaller patches"
        )
    return corrupted


def visible_places(
    hidden: Int64[Tensor, "batch hidden"], patches: int
) -> Int64[Tensor, "batch visible"]:
    """The places of so many that are not hidden, in order."""
    shown = torch.ones(len(hidden), patches, dtype=torch.bool, device=hidden.device)
    places = shown.scatter(1, hidden, False).nonzero()[:, 1]
    return places.unflatten(0, (len(hidden), patches - hidden.shape[1]))


class MaskedLearner(Learner):
    """A learner whose forward pass takes, after the images, which of their patches are masked.

    Masks are drawn for the whole batch, of which each process takes those of its images.

    Attributes:
        share: of the patches that is masked.
    """

    share: float = 0.5

    @property
    def num_patches(self) -> int:
        rows, columns = self.model.grid_size
        return rows * columns

    def choose(self, batch: int, generator: torch.Generator) -> ChosenPatches:
        """Draw the masks of so many images, see :func:`choose_masked`."""
        return choose_masked(batch, self.num_patches, generator, self.share)

    def inputs(self, batches: Batches, step: int) -> tuple:
        chance = torch.Generator().manual_seed(seed_of(batches.seed, step, "masks"))
        chosen = self.choose(batches.recipe.batch_size, chance)
        return (chosen.part(slice(batches.rank, None, batches.processes)),)

    def trial_inputs(self, images: Tensor) -> tuple:
        return (self.choose(len(images), torch.Generator().manual_seed(0)),)


def check_plain(model: nn.Module, learner: str) -> None:
    """Other tokenizers show a token the pixels of its neighbours, masked ones too."""
    tokenizer = getattr(model, "tokenizer", None)
    projection = getattr(tokenizer, "projection", None)
    if not (
        isinstance(model, VisionTransformer)
        and isinstance(projection, nn.Conv2d)
        and projection.kernel_size == projection.stride == getattr(tokenizer, "patch", None)
        and not any(projection.padding)
    ):
        name = type(model).__name__ if tokenizer is None else type(tokenizer).__name__
        raise ValueError(
            f"{learner} of a model with {name}: expected a Vision Transformer whose tokens see one "
            "patch each, such as vit_mini_patch4_32"
        )


def check_keeps_tokens(model: nn.Module, learner: str) -> None:
    """A label of each patch needs a token of each at the end."""
    if getattr(model.encoder, "shrinks", False):
        raise ValueError(
            f"{learner} of an encoder that gives fewer tokens than it takes: "
            "expected one that keeps a token for each patch, such as that of vit_micro_patch2_8"
        )


def at_places(
    patches: Float[Tensor, "batch patches features"], places: Int64[Tensor, "batch chosen"]
) -> Float[Tensor, "batch chosen features"]:
    """Of each image the patches in these places."""
    return patches.gather(1, repeat(places, "b n -> b n d", d=patches.shape[2]))


def check_takes_fewer(model: nn.Module, visible: int, learner: str) -> None:
    """Relative positions, blocks or projections along the tokens are made for all of them."""
    tokens = torch.zeros(1, model.num_prefix_tokens + visible, model.prefix.shape[1])
    try:
        with evaluating(model), torch.no_grad():
            taken = model.encoder(tokens.to(model.prefix)).shape[1] == tokens.shape[1]
    except (ValueError, TypeError, RuntimeError):
        taken = False
    if not taken or getattr(model.encoder, "shrinks", False):
        raise ValueError(
            f"{learner} of an encoder that does not take {tokens.shape[1]} of its "
            "tokens and keep them: expected attention that takes any number, such as that of "
            "vit_micro_patch2_8"
        )
