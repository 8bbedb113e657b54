"""Which parts of a model learn, and how: whole, by small changes, or with rounded weights."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from vitbook.errors import UnknownNameError
from vitbook.models import VisionTransformer
from vitbook.models.editing import (
    add_adapters,
    merge_adapters,
    prune_weights,
    round_weights,
    round_while_learning,
    settle_pruned,
)
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.parts_of_models import begins_with, layers_around, names_of


@contextmanager
def learning_parts(model: nn.Module, recipe: Recipe, seed: int = 0) -> Iterator[nn.Module]:
    """Inside, only the parts of ``model`` that the recipe names learn.

    What stands before ``recipe.train_from`` keeps its weights. With an ``adapter_rank`` so do the
    linear layers of the encoder: a :class:`vitbook.layers.LowRankLinear` learns in the place of
    each, beside the head. With ``weight_bits`` these layers compute with rounded weights and learn
    the exact ones behind them; the share ``pruned`` of their weights is zero and stays so. On
    leaving, however it is left, adapters are merged into their layers, rounded weights stay
    rounded, and what may learn is as it was.

    Args:
        seed: of the adapters' first noise.

    Raises:
        UnknownNameError: the model has no such part; names the nearest.
        ValueError: adapters, rounded or pruned weights for a model without linear layers in an
            encoder, or a rank that a layer has not; or nothing is left that learns.

    Example:
        >>> import vitbook
        >>> from vitbook.runs import get_recipe
        >>> from vitbook.training import learning_parts
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> with learning_parts(model, get_recipe("fine_tuning", train_from="head")):
        ...     [name for name, weight in model.named_parameters() if weight.requires_grad]
        ['head.classifier.weight', 'head.classifier.bias']
    """
    before = [(weight, weight.requires_grad) for weight in model.parameters()]
    try:
        _freeze_before(model, recipe.train_from)
        if recipe.adapter_rank:
            add_adapters(model, recipe.adapter_rank, seed)
        if recipe.weight_bits:
            round_while_learning(model, recipe.weight_bits)
        if recipe.pruned:
            prune_weights(model, recipe.pruned)
        if not any(weight.requires_grad for weight in model.parameters()):
            raise ValueError(
                f"train_from {recipe.train_from!r} leaves no weight of {type(model).__name__} that "
                "learns: name an earlier part"
            )
        yield model
    finally:
        merge_adapters(model)
        round_weights(model)
        settle_pruned(model)
        for weight, learns in before:
            weight.requires_grad_(learns)


def training_mode(model: nn.Module) -> None:
    """Training mode for what learns; parts of which no weight learns answer as in evaluation.

    So a frozen batch norm keeps the statistics that it has learned, and no frozen block is skipped.
    """
    model.train()
    for part in model.modules():
        weights = list(part.parameters())
        if weights and not any(weight.requires_grad for weight in weights):
            part.eval()
    for body in layers_around(model):
        if isinstance(body, VisionTransformer):  # the dropout behind the positions has no weights
            front = (body.prefix, *body.tokenizer.parameters(), *body.position.parameters())
            if not any(weight.requires_grad for weight in front):
                body.dropout.eval()


def _freeze_before(model: nn.Module, part: str) -> None:
    if not part:
        return
    weights = names_of(model)
    inside = [weight for weight, names in weights.items() if begins_with(names, part)]
    if not inside:
        parts = {".".join(name.split(".")[:3]) for names in weights.values() for name in names}
        raise UnknownNameError(f"part of {type(model).__name__}", part, parts)
    for weight in weights:
        if weight is inside[0]:
            break
        weight.requires_grad_(False)
