"""Masked autoencoding: a body reads a quarter of the patches (He et al. 2022, "MAE")."""

from typing import NamedTuple

import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.datasets import Dataset, normalize
from vitbook.model_utilities import evaluating
from vitbook.models.papers.vit import Body, make_encoder
from vitbook.training.engine.batch_random import seed_of
from vitbook.training.engine.batches import Batches
from vitbook.training.objectives.masks import (
    MaskedLearner,
    at_places,
    check_plain,
    check_takes_fewer,
    num_masked,
    visible_places,
)
from vitbook.training.objectives.readings import mean_tokens, nearest_other

SHARE = 0.75
DECODER = Body(width=32, depth=2, num_heads=4, mlp_width=128)
Hidden = Int64[Tensor, "batch hidden"]
Images = Float[Tensor, "batch channels height width"]


class Reconstruction(NamedTuple):
    """What a model says of the hidden patches.

    Attributes:
        predicted: their pixels, as ``targets`` has them.
        targets: what was hidden.
    """

    predicted: Float[Tensor, "batch hidden pixels"]
    targets: Float[Tensor, "batch hidden pixels"]

    @property
    def loss(self) -> Float[Tensor, ""]:
        """Mean squared error over the pixels of the hidden patches."""
        return (self.predicted.float() - self.targets).square().mean()


class MaskedAutoencoder(MaskedLearner):
    r"""A body that reads the visible patches, and a decoder that tells the hidden ones from it.

    He et al. 2022, section 3. The encoder is given visible patches alone, each with its position:
    no mask stands in the place of the others. The decoder is given what became of them, one learned
    [mask] in each other place, and positions of its own; it is then thrown away. Loss is the mean
    squared error on hidden patches alone. By default their pixels are brought to mean 0 and spread
    1 patch by patch, the variant that the paper finds better (table 1d).

    The paper's decoder has eight blocks and fixed positions; here two, and learned ones. The
    wrapped model learns in place; its head is left as it is.

    Args:
        model: a Vision Transformer: one linear layer on each patch, and an encoder that takes any
            number of tokens.
        share: of the patches that is hidden, more than 0 and less than 1.
        normalized: whether the targets are, patch by patch.

    Raises:
        ValueError: another model, or a share of which no patch or every patch of the grid would be.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.studies.self_supervision import MaskedAutoencoder
        >>> learner = MaskedAutoencoder(vitbook.create_model("vit_micro_patch2_8"))
        >>> hidden = learner.choose_hidden(5, torch.Generator().manual_seed(0))
        >>> tuple(hidden.shape), tuple(learner(torch.zeros(5, 1, 8, 8), hidden).predicted.shape)
        ((5, 12), (5, 12, 4))
    """

    def __init__(
        self,
        model: nn.Module,
        share: float = SHARE,
        normalized: bool = True,
    ):
        super().__init__()
        check_plain(model, "a masked autoencoder")
        rows, columns = model.grid_size
        hidden = num_masked(rows * columns, share)
        check_takes_fewer(model, rows * columns - hidden, "a masked autoencoder")
        self.model, self.share, self.normalized = model, share, normalized
        width = getattr(model.encoder.norm, "normalized_shape", (model.prefix.shape[1],))[-1]
        patch_height, patch_width = model.tokenizer.patch
        pixels = model.tokenizer.channels * patch_height * patch_width
        if normalized and pixels == 1:
            raise ValueError(
                "normalized patches of one number, which has no spread: set normalized=False, or "
                "take larger patches"
            )
        self.enter = nn.Linear(width, DECODER.width)
        self.mask = nn.Parameter(torch.zeros(DECODER.width))
        self.places = nn.Parameter(torch.empty(rows * columns, DECODER.width))
        nn.init.trunc_normal_(self.places, std=0.02)
        self.decoder = make_encoder(DECODER)
        self.predictor = nn.Linear(DECODER.width, pixels)

    def choose_hidden(self, batch: int, generator: torch.Generator) -> Hidden:
        """Draw the places that are hidden, in order, equally many of each image."""
        return self.choose(batch, generator).places

    def inputs(self, batches: Batches, step: int) -> tuple:
        return (super().inputs(batches, step)[0].places,)

    def trial_inputs(self, images: Tensor) -> tuple:
        return (super().trial_inputs(images)[0].places,)

    def forward(self, images: Images, hidden: Hidden) -> Reconstruction:
        """Predict the hidden patches.

        Args:
            images: normalised as the model takes them.
            hidden: places row by row in the grid, such as :meth:`choose_hidden` gives them.
        """
        hidden = hidden.to(images.device)
        predicted = self.decode(self.encode(images, hidden), hidden)
        return Reconstruction(predicted, at_places(self.targets(images), hidden))

    def encode(self, images: Images, hidden: Hidden) -> Float[Tensor, "batch tokens token_width"]:
        """Tokens of the visible patches after the last norm, prefix first."""
        prefix = self.model.num_prefix_tokens
        tokens = self.model.embed(images)
        seen = at_places(tokens[:, prefix:], visible_places(hidden, self.num_patches))
        return self.model.encoder(torch.cat([tokens[:, :prefix], seen], dim=1))

    def decode(
        self, tokens: Float[Tensor, "batch tokens token_width"], hidden: Hidden
    ) -> Float[Tensor, "batch hidden pixels"]:
        """Pixels of the hidden patches from the tokens of the visible ones."""
        prefix, entered = self.model.num_prefix_tokens, self.enter(tokens)
        masks = self.mask.to(entered.dtype).expand(len(tokens), self.num_patches, -1)
        at = repeat(visible_places(hidden, self.num_patches), "b n -> b n d", d=entered.shape[2])
        placed = masks.scatter(1, at, entered[:, prefix:]) + self.places
        decoded = self.decoder(torch.cat([entered[:, :prefix], placed], dim=1))
        return self.predictor(at_places(decoded[:, prefix:], hidden))

    def targets(self, images: Images) -> Float[Tensor, "batch patches pixels"]:
        """What is predicted of every patch: its pixels, row by row, channels last."""
        height, width = self.model.tokenizer.patch
        patches = rearrange(images.float(), "b c (r p) (s q) -> b (r s) (p q c)", p=height, q=width)
        if not self.normalized:
            return patches
        # The authors' variance, of one pixel less, and the number they add to it.
        spread = (patches.var(dim=-1, keepdim=True) + 1e-6).sqrt()
        return (patches - patches.mean(dim=-1, keepdim=True)) / spread

    @torch.no_grad()
    def score(self, dataset: Dataset, batch_size: int = 256, seed: int = 0) -> dict[str, float]:
        """``accuracy``: the share of images whose nearest other one has their label; the error.

        ``held_out_loss`` is of the same hidden patches each time.
        """
        device, loss = self.mask.device, 0.0
        chance = torch.Generator().manual_seed(seed_of(seed, "held-out masks"))
        hidden = self.choose_hidden(len(dataset), chance).split(batch_size)
        with evaluating(self):
            for images, places in zip(dataset.images.split(batch_size), hidden, strict=True):
                found = self(normalize(images.to(device)), places)
                loss += found.loss.item() * len(images) / len(dataset)
        features = mean_tokens(self.model, dataset.images, batch_size)
        accuracy = nearest_other(features, dataset.labels.to(device))
        return {"accuracy": accuracy, "held_out_loss": loss}
