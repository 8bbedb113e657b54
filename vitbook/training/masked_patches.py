"""Masked patch prediction: a body learns from images without labels (ViT paper, B.1.2)."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import repeat
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.errors import check_count
from vitbook.models import VisionTransformer
from vitbook.training.patch_colors import num_color_classes, patch_classes, to_bytes

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
        ValueError: a share that is not between 0 and 1, or of which no patch or every patch of the
            grid would be.

    Example:
        >>> import torch
        >>> from vitbook.training import choose_masked
        >>> chosen = choose_masked(1, 8, torch.Generator().manual_seed(1))
        >>> chosen.places.tolist(), chosen.kinds.tolist()
        ([[1, 2, 4, 6]], [[0, 1, 1, 0, 1, 0, 1, 0]])
    """
    check_count("batch", batch)
    check_count("patches", patches)
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
        ValueError: as in :func:`choose_masked`.
    """
    if not 0 < share < 1:
        raise ValueError(f"share {share}: expected more than 0 and less than 1")
    if patches < 2:
        raise ValueError(f"a grid of {patches} patch: expected 2 or more, to mask some of them")
    corrupted = round(share * patches)
    if not 0 < corrupted < patches:
        raise ValueError(
            f"a share of {share:g} of {patches} patches is {corrupted}: expected 1 to "
            f"{patches - 1}; take another share, or smaller patches"
        )
    return corrupted


class ColorGuesses(NamedTuple):
    """What a model says of the corrupted patches.

    Attributes:
        logits: of the colour classes.
        targets: the right classes.
        places: of the patches, row by row in the grid.
    """

    logits: Float[Tensor, "batch corrupted colors"]
    targets: Int64[Tensor, "batch corrupted"]
    places: Int64[Tensor, "batch corrupted"]

    @property
    def loss(self) -> Float[Tensor, ""]:
        """Mean cross-entropy over the corrupted patches of all images, in nats."""
        return F.cross_entropy(self.logits.flatten(0, 1), self.targets.flatten())

    @property
    def accuracy(self) -> float:
        """Share of the corrupted patches whose largest logit is the right one, 0 to 1."""
        return (self.logits.argmax(dim=-1) == self.targets).double().mean().item()


class MaskedPatches(nn.Module):
    r"""A Vision Transformer that predicts the mean colours of patches it was not shown.

    With :math:`\tilde z^i` a patch's embedding :math:`x_p^i E`, a learned :math:`[\mathrm{mask}]`
    in its place or another patch's embedding, by chance as in :func:`choose_masked`,

    .. math::
        z_0 = [x_\mathrm{class};\, \tilde z^1;\, \ldots;\, \tilde z^N] + E_\mathrm{pos}, \qquad
        c_i = \mathrm{LN}(z_L^i)\, W

    ViT paper, appendix B.1.2. The loss is the cross-entropy of :math:`c_i` over corrupted patches
    against "the 3-bit, mean color (i.e., 512 colors in total)". The paper does not say how it is
    computed. Here it is the mean of each channel over the patch's pixels, from 0 to 255, in eight
    equal steps: the class is 64 r + 8 g + b with r = floor(mean / 32) and so on; see
    :func:`~.patch_colors.color_classes`. The embedding is masked and not the pixels. So a masked
    patch keeps its place, and its pixels reach no token, unless a swapped patch shows them.

    The wrapped model learns in place; its head is left as it is.

    Args:
        model: a plain Vision Transformer: patches that do not overlap, one linear layer on each.

    Raises:
        ValueError: another model; or, in the forward pass, patches chosen for another grid or
            images that reach beyond -1 to 1.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.training import MaskedPatches, choose_masked
        >>> model = MaskedPatches(vitbook.create_model("vit_micro_patch2_8"))
        >>> chosen = choose_masked(5, model.num_patches, torch.Generator().manual_seed(0))
        >>> guesses = model(torch.zeros(5, 1, 8, 8), chosen)
        >>> tuple(guesses.logits.shape), guesses.targets.unique()
        ((5, 8, 8), tensor([4]))
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        check_plain(model, "masked patch prediction")
        self.model = model
        self.mask = nn.Parameter(torch.zeros(model.prefix.shape[1]))
        final = getattr(model.encoder.norm, "normalized_shape", self.mask.shape)[-1]
        self.predictor = nn.Linear(final, num_color_classes(model.tokenizer.channels))
        nn.init.trunc_normal_(self.predictor.weight, std=0.02, a=-0.04, b=0.04)
        nn.init.zeros_(self.predictor.bias)

    @property
    def num_patches(self) -> int:
        rows, columns = self.model.grid_size
        return rows * columns

    def corrupt(
        self, tokens: Float[Tensor, "batch patches width"], chosen: ChosenPatches
    ) -> Float[Tensor, "batch patches width"]:
        """Patch embeddings as the encoder is shown them, still without their positions."""
        shown = tokens.gather(1, repeat(chosen.shown, "b n -> b n d", d=tokens.shape[2]))
        return torch.where((chosen.kinds == MASKED)[..., None], self.mask.to(tokens.dtype), shown)

    def forward(
        self, images: Float[Tensor, "batch channels height width"], chosen: ChosenPatches
    ) -> ColorGuesses:
        """Predict the colours of the corrupted patches.

        Args:
            images: between -1 and 1, as :func:`vitbook.datasets.normalize` gives them; their
                colours are those of the bytes that they were made of.
        """
        model, chosen = self.model, chosen.to(images.device)
        if chosen.kinds.shape != (len(images), self.num_patches):
            raise ValueError(
                f"patches chosen for (images, patches) {tuple(chosen.kinds.shape)}: expected "
                f"{(len(images), self.num_patches)}, choose_masked{(len(images), self.num_patches)}"
            )
        tokens = self.corrupt(model.tokenizer(images), chosen)
        prefix = repeat(model.prefix, "n d -> b n d", b=len(images))
        final = model.encoder(model.position(torch.cat([prefix, tokens], dim=1)))
        asked = chosen.places + model.num_prefix_tokens
        final = final.gather(1, repeat(asked, "b n -> b n d", d=final.shape[2]))
        classes = patch_classes(to_bytes(images), model.tokenizer.patch)
        return ColorGuesses(self.predictor(final), classes.gather(1, chosen.places), chosen.places)


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
