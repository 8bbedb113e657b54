"""Masked patch prediction: a body learns from images without labels (ViT paper, B.1.2)."""

import torch
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.datasets import Dataset
from vitbook.studies.self_supervision.guesses import Guesses, score_guesses
from vitbook.studies.self_supervision.patch_colors import (
    LEVELS,
    color_classes,
    mean_colors,
    to_bytes,
)
from vitbook.training.engine.batch_random import seed_of
from vitbook.training.engine.processes import processes
from vitbook.training.objectives.masks import (
    MASKED,
    ChosenPatches,
    MaskedLearner,
    check_keeps_tokens,
    check_plain,
)


class MaskedPatches(MaskedLearner):
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
        ValueError: another model.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.studies.self_supervision import MaskedPatches
        >>> model = MaskedPatches(vitbook.create_model("vit_micro_patch2_8"))
        >>> chosen = model.choose(5, torch.Generator().manual_seed(0))
        >>> guesses = model(torch.zeros(5, 1, 8, 8), chosen)
        >>> tuple(guesses.logits.shape), guesses.targets.unique()
        ((5, 8, 8), tensor([4]))
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        check_plain(model, "masked patch prediction")
        check_keeps_tokens(model, "masked patch prediction")
        self.model = model
        self.mask = nn.Parameter(torch.zeros(model.prefix.shape[1]))
        final = getattr(model.encoder.norm, "normalized_shape", self.mask.shape)[-1]
        self.predictor = nn.Linear(final, LEVELS**model.tokenizer.channels)
        nn.init.trunc_normal_(self.predictor.weight, std=0.02, a=-0.04, b=0.04)
        nn.init.zeros_(self.predictor.bias)

    def corrupt(
        self, tokens: Float[Tensor, "batch patches width"], chosen: ChosenPatches
    ) -> Float[Tensor, "batch patches width"]:
        """Patch embeddings as the encoder is shown them, still without their positions."""
        shown = tokens.gather(1, repeat(chosen.shown, "b n -> b n d", d=tokens.shape[2]))
        return torch.where((chosen.kinds == MASKED)[..., None], self.mask.to(tokens.dtype), shown)

    def forward(
        self, images: Float[Tensor, "batch channels height width"], chosen: ChosenPatches
    ) -> Guesses:
        """Predict the colours of the corrupted patches, in the order of ``chosen.places``.

        Args:
            images: between -1 and 1, as :func:`vitbook.datasets.normalize` gives them; their
                colours are those of the bytes that they were made of.
        """
        model, chosen = self.model, chosen.to(images.device)
        tokens = self.corrupt(model.tokenizer(images), chosen)
        prefix = repeat(model.prefix, "n d -> b n d", b=len(images))
        placed = model.dropout(model.position(torch.cat([prefix, tokens], dim=1)))
        final = model.encoder(placed)
        asked = chosen.places + model.num_prefix_tokens
        final = final.gather(1, repeat(asked, "b n -> b n d", d=final.shape[2]))
        classes = color_classes(mean_colors(to_bytes(images), model.tokenizer.patch))
        return Guesses(self.predictor(final), classes.gather(1, chosen.places))

    def score(self, dataset: Dataset) -> dict[str, float]:
        """``accuracy`` and ``held_out_loss``, in nats, on corrupted patches, the same each time.

        With several processes each looks at its own images.
        """
        here = processes()
        own = slice(here.rank, None, here.count)
        chance = torch.Generator().manual_seed(seed_of(0, "held-out masks"))
        chosen = self.choose(len(dataset), chance).part(own)
        return score_guesses(self, dataset.images[own], lambda now: (chosen.part(now),))
