"""The logit lens: what each token of each block would answer."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.capture.outputs import outputs_of
from vitbook.analysis.capture.running import takes_images
from vitbook.analysis.causes.tail import find_tail


@takes_images()
@torch.no_grad()
def logit_lens(
    model: nn.Module, images: Float[Tensor, "batch channels height width"]
) -> dict[str, Float[Tensor, "batch tokens classes"]]:
    """Each block's tokens through the last norm and the classifier, token by token.

    A model adds to its tokens from block to block, so that the reader of the last ones can be held
    to earlier ones; it was not trained for these, and what it says there is a lower bound of what
    they hold. nostalgebraist 2020 ("Interpreting GPT: the logit lens"); for ViTs Vilas et al. 2023
    ("Analyzing Vision Transformers for image classification in class embedding space").

    Args:
        images: normalised as the model takes them.

    Returns:
        For each block, by its path, logits of each token, prefix tokens first. Those of the class
        token behind the last block are the model's own, if it reads that token. A head that reads
        a class token beside the mean of the patches gets each patch in the place of the mean,
        beside the class token of its block: on average the patches answer what that one does.

    Raises:
        ValueError: the model's head reads something else than a class token, a mean, or both.

    Example:
        >>> import torch, vitbook
        >>> from vitbook.analysis import logit_lens
        >>> found = logit_lens(vitbook.create_model("vit_micro_patch2_8"), torch.rand(1, 1, 8, 8))
        >>> {layer: tuple(logits.shape) for layer, logits in found.items()}["encoder.blocks.0"]
        (1, 17, 10)
    """
    tail = find_tail(model, images)
    return outputs_of(model, images, tail.blocks, lambda _, tokens: tail.of_each(tokens))
