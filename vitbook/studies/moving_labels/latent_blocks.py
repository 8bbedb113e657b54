"""I-JEPA in small: the tokens of hidden blocks, as a slow copy has them, from what is left."""

from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.datasets import Dataset, normalize
from vitbook.model_utilities import evaluating
from vitbook.models.papers.vit import Body, make_encoder
from vitbook.studies.moving_labels.blocks import Blocks, choose_blocks
from vitbook.training.engine.batch_random import seed_of
from vitbook.training.engine.batches import Batches
from vitbook.training.objectives.followers import follow, slow_copies
from vitbook.training.objectives.learner import Learner
from vitbook.training.objectives.masks import at_places, check_plain, check_takes_fewer
from vitbook.training.objectives.readings import mean_tokens, nearest_other, spread

PREDICTOR = Body(width=48, depth=2, num_heads=4, mlp_width=96)
Images = Float[Tensor, "batch channels height width"]
Targets = Int64[Tensor, "batch blocks inside"]


class Latents(NamedTuple):
    """What a model says of the tokens of hidden blocks.

    Attributes:
        predicted: as ``targets`` has them.
        targets: of the slow copy, each brought to mean 0 and variance 1.
    """

    predicted: Float[Tensor, "batch blocks inside features"]
    targets: Float[Tensor, "batch blocks inside features"]

    @property
    def loss(self) -> Float[Tensor, ""]:
        """Half the squared error where it is below 1, the error less one half above ("smooth")."""
        return F.smooth_l1_loss(self.predicted.float(), self.targets)


class LatentBlocks(Learner):
    r"""A body that reads a context, and a predictor of what a slow copy says of hidden blocks.

    I-JEPA (Assran et al. 2023), section 3. The copy reads the whole image; the body is given the
    patches outside of the blocks alone, each with its position. For each block the predictor is
    given what became of these, and one learned [mask] in each of its places, with positions of its
    own. The copy follows the body; the predictor is thrown away. As in the authors' code the copy's
    tokens are normalised, and the error is the smooth one; the paper writes the squared one.

    The paper's predictor has six blocks or twelve and the copy's share grows from 0.996 to 1; here
    two blocks, and 0.99.

    Args:
        model: a plain Vision Transformer whose encoder takes any number of tokens.
        momentum: share that the copy keeps of itself at each step.

    Raises:
        ValueError: another model, or a grid of fewer than 3 x 3 patches.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.studies.moving_labels import LatentBlocks
        >>> learner = LatentBlocks(vitbook.create_model("vit_micro_patch2_8"))
        >>> blocks = learner.choose(5, torch.Generator().manual_seed(0))
        >>> tuple(learner(torch.zeros(5, 1, 8, 8), blocks).predicted.shape)
        (5, 4, 2, 64)
    """

    one_process = True  # the context is as long as the shortest of the whole batch
    followers: ClassVar[tuple[str, ...]] = ("slow_",)

    def __init__(self, model: nn.Module, momentum: float = 0.99):
        super().__init__()
        check_plain(model, "blocks of hidden tokens")
        choose_blocks(1, model.grid_size, torch.Generator().manual_seed(0))
        patches = model.grid_size[0] * model.grid_size[1]
        check_takes_fewer(model, patches // 2, "blocks of hidden tokens")
        self.model, self.momentum = model, momentum
        width = getattr(model.encoder.norm, "normalized_shape", (model.prefix.shape[1],))[-1]
        self.enter, self.leave = (
            nn.Linear(width, PREDICTOR.width),
            nn.Linear(PREDICTOR.width, width),
        )
        self.mask = nn.Parameter(torch.zeros(PREDICTOR.width))
        self.places = nn.Parameter(torch.empty(patches, PREDICTOR.width))
        nn.init.trunc_normal_(self.places, std=0.02)
        self.predictor = make_encoder(PREDICTOR)
        self.begin_again()

    def begin_again(self) -> None:
        (self.slow_model,) = slow_copies(self.model)

    def choose(self, batch: int, generator: torch.Generator) -> Blocks:
        """Draw the blocks of so many images, see :func:`choose_blocks`."""
        return choose_blocks(batch, self.model.grid_size, generator)

    def inputs(self, batches: Batches, step: int) -> tuple[Blocks]:
        chance = torch.Generator().manual_seed(seed_of(batches.seed, step, "blocks"))
        return (self.choose(batches.recipe.batch_size, chance),)

    def trial_inputs(self, images: Tensor) -> tuple[Blocks]:
        return (self.choose(len(images), torch.Generator().manual_seed(0)),)

    def forward(self, images: Images, blocks: Blocks) -> Latents:
        if self.training:
            follow(self.slow_model, self.model, self.momentum)
        targets, context = (each.to(images.device) for each in blocks)
        said = at_places(self.targets(images), targets.flatten(1))
        predicted = self.predict(self.encode(images, context), context, targets)
        return Latents(predicted, said.unflatten(1, targets.shape[1:]))

    def encode(
        self, images: Images, context: Int64[Tensor, "batch context"]
    ) -> Float[Tensor, "batch tokens features"]:
        """The body's tokens of the context, prefix first."""
        prefix = self.model.num_prefix_tokens
        tokens = self.model.embed(images)
        return self.model.encoder(
            torch.cat([tokens[:, :prefix], at_places(tokens[:, prefix:], context)], dim=1)
        )

    @torch.no_grad()
    def targets(self, images: Images) -> Float[Tensor, "batch patches features"]:
        """What the slow copy says of every patch of the whole image, normalised."""
        tokens = self.slow_model.features(images)[:, self.model.num_prefix_tokens :].float()
        return F.layer_norm(tokens, tokens.shape[-1:])

    def predict(
        self,
        tokens: Float[Tensor, "batch tokens features"],
        context: Int64[Tensor, "batch context"],
        targets: Targets,
    ) -> Float[Tensor, "batch blocks inside features"]:
        """Of each block by itself, from the tokens of the context."""
        prefix, (batch, blocks, inside) = self.model.num_prefix_tokens, targets.shape
        entered = self.enter(tokens)
        seen = entered[:, prefix:] + self.places[context]
        known = repeat(
            torch.cat([entered[:, :prefix], seen], dim=1), "b n d -> (b k) n d", k=blocks
        )
        asked = rearrange(self.mask + self.places[targets], "b k n d -> (b k) n d")
        told = self.predictor(torch.cat([known, asked.to(known.dtype)], dim=1))[:, -inside:]
        return rearrange(self.leave(told), "(b k) n d -> b k n d", b=batch)

    @torch.no_grad()
    def score(self, dataset: Dataset, batch_size: int = 256) -> dict[str, float]:
        """``accuracy``: of nearest other images with the same label; ``spread`` of the targets.

        The spread is that of the slow copy's tokens at one place, over images, mean of the places.
        """
        device = self.mask.device
        features, said = mean_tokens(self.model, dataset.images, batch_size), []
        with evaluating(self):
            for some in dataset.images[: 4 * batch_size].split(batch_size):
                said.append(self.targets(normalize(some.to(device))))
        by_place = torch.cat(said).unbind(dim=1)
        return {
            "accuracy": nearest_other(features, dataset.labels.to(device)),
            "spread": sum(map(spread, by_place)) / len(by_place),
        }
