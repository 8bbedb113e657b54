"""Dropout is the recipe's to set, not the model's."""

from torch import nn

from vitbook.layers import Dropout


def set_dropout(model: nn.Module, rate: float) -> None:
    """Set how often a number of ``model`` is set to zero while training (Srivastava et al. 2014).

    One rate for all places: in a block after every linear layer but those to queries, keys and
    values, and after the positions are added (ViT paper, appendix B.1; table 3 has 0.1 for
    ImageNet). T2T's module keeps a dropout of its own; Ghost's cheap operations and the layers
    between DenseNet's blocks have none.

    Args:
        rate: from 0 up to, not with, 1.

    Raises:
        ValueError: no such rate, or one above 0 for a model that has no dropout.

    Example:
        >>> import vitbook
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> vitbook.models.set_dropout(model, 0.1)
        >>> model.dropout.rate
        0.1
    """
    rate = Dropout(rate).rate  # which refuses what is none
    places = [module for module in model.modules() if isinstance(module, Dropout)]
    if rate and not places:
        raise ValueError(
            f"{type(model).__name__} has no dropout, the recipe asks for {rate:g}: use a recipe "
            "with dropout=0"
        )
    for place in places:
        place.rate = rate
