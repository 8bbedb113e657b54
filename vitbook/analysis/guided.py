"""Guided backpropagation, by Captum."""

import warnings

from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.analysis.attribution import attributed, captum, on_grid
from vitbook.analysis.capture import claim
from vitbook.analysis.layout import Pair, token_layout
from vitbook.analysis.running import logits_of
from vitbook.modes import evaluating


def guided_backpropagation(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"] | None = None,
    *,
    batch_size: int = 32,
    grid_size: Pair | None = None,
) -> Float[Tensor, "batch rows columns"]:
    """How steep a logit is in the pixels, where each ReLU hands back positive gradients alone.

    Springenberg et al. 2015, "Striving for simplicity: the all convolutional net", section 3.4.
    The absolute values are summed over the channels and over each patch.

    Args:
        model: gives logits, "batch classes", and has its ReLUs as modules; left as it came.
        images: as the model takes them.
        targets: the class that is asked about, of each image; by default the model's answer.
        batch_size: images at a time.
        grid_size: (rows, columns) of patches, for a model that does not say it.

    Raises:
        ModuleNotFoundError: Captum is not installed.
        ValueError: a class that the model does not have, not one for each image, a model without
            a ReLU (a Vision Transformer has GELUs), or with one that works in place.
        RuntimeError: another thread looks into the model.

    Example:
        >>> import vitbook
        >>> from vitbook.analysis import guided_backpropagation
        >>> from vitbook.datasets import load, normalize
        >>> model = vitbook.load_checkpoint("digits-resnet8_digits-digits-seed0").model
        >>> tuple(guided_backpropagation(model, normalize(load("digits", "test").images[:3])).shape)
        (3, 2, 2)
    """
    relus = [module for module in model.modules() if isinstance(module, nn.ReLU)]
    if not relus:
        raise ValueError(
            f"{type(model).__name__} has no nn.ReLU: guided backpropagation changes nothing else; "
            "use integrated_gradients, or relevance for a Transformer"
        )
    if any(relu.inplace for relu in relus):
        raise ValueError(
            f"{type(model).__name__} has ReLUs that work in place, whose gradient cannot be "
            "changed: set inplace=False on each"
        )
    (grid_size,) = token_layout(model, images, grid_size=grid_size)
    method = captum().GuidedBackprop(_Logits(model))
    with claim(model), evaluating(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Setting backward hooks on ReLU")
        maps = attributed(method, model, images, targets, batch_size)
    return on_grid(maps.abs().sum(1), grid_size)


class _Logits(nn.Module):
    """A model's answer as a module, in which Captum looks for ReLUs."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Float[Tensor, "batch classes"]:
        return logits_of(self.model)(images)
