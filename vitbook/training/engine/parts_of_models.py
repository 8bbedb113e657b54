"""What a parameter is to the model that it is of: ours, a library's, or one with another around it.

Here is decided by what a module declares and owns. What belongs to a recipe is in
:mod:`.optimization` and :mod:`.fine_tuning`.
"""

import re
from collections.abc import Iterator

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.parametrize import ParametrizationList

from vitbook.model_utilities import own_names, unwrapped
from vitbook.training.objectives.learner import Learner

# What timm, torchvision, Hugging Face and this book call the layer that answers.
HEAD = re.compile(r"heads?|fc|(cls_|distillation_)?classifier(_distill)?")


def layers_around(model: nn.Module) -> Iterator[nn.Module]:
    """A model, and what is inside it as long as one part alone has all the parameters."""
    while True:
        model = unwrapped(model)
        yield model
        inside = [part for part in model.children() if next(part.parameters(), None) is not None]
        own = next(model.parameters(recurse=False), None)
        if isinstance(model, Learner):
            model = model.model
        elif len(inside) == 1 and own is None:
            model = inside[0]
        else:
            return


def names_of(model: nn.Module) -> dict[Tensor, tuple[str, ...]]:
    """Each parameter's names: in the model, and in what is inside it without what is around it."""
    names = {weight: (name,) for name, weight in model.named_parameters()}
    for part in layers_around(model):
        inner = dict(part.named_parameters())
        own = own_names(part, list(inner))
        for name, weight in inner.items():
            names[weight] += (own[name],)
    return names


def matrices(model: nn.Module) -> set[Tensor]:
    """The parameters that multiply what comes: weights of linear layers, convolutions and the like.

    Not those of one axis, nor of norms, nor what is looked up or added: embeddings, tokens, tables
    of positions, scales of a branch, nor what a model of timm's names in ``no_weight_decay``.
    """
    found, spared = set(), set()
    for part in model.modules():
        for name, weight in part.named_parameters(recurse=False):
            if weight.ndim >= 2 and _multiplies(part, name):
                found.add(weight)
        if callable(told := getattr(part, "no_weight_decay", None)):
            wanted = set(told())
            own = {name: weight for name, weight in part.named_parameters() if name in wanted}
            spared |= set(own.values())
    return found - spared


def _multiplies(part: nn.Module, name: str) -> bool:
    if isinstance(part, nn.Linear | _ConvNd):
        return True
    if isinstance(part, nn.Embedding | nn.EmbeddingBag | nn.LayerNorm | nn.GroupNorm | nn.RMSNorm):
        return False
    if isinstance(part, ParametrizationList):  # of a weight that is computed from this one
        return name in ("original", "original1")
    return "weight" in name.split("_")  # that of nn.MultiheadAttention is its in_proj_weight


def head_of(model: nn.Module) -> set[Tensor]:
    """Parameters of the layer that answers, as the library declares it; none, if none does."""
    for part in layers_around(model):
        declared = [each for name, each in part.named_children() if HEAD.fullmatch(name)]
        if callable(told := getattr(part, "get_classifier", None)):
            given = told()
            declared = list(given) if isinstance(given, tuple | list) else [given]
        heads = {w for each in declared if isinstance(each, nn.Module) for w in each.parameters()}
        if heads:
            return heads
    return set()


def depths(model: nn.Module) -> dict[Tensor, int] | None:
    """How many parts stand before each parameter: 0 for what makes tokens, then the blocks.

    The last norm and the head come behind the last block. None where no blocks can be counted.
    """
    for part in layers_around(model):
        if callable(told := getattr(part, "group_matcher", None)):
            from timm.models import group_parameters  # whose method it is

            layers = group_parameters(part, told(coarse=False), reverse=True)
            return {weight: layers[name] for name, weight in part.named_parameters()}
        encoder = getattr(part, "encoder", None)
        if isinstance(encoder, nn.Module) and getattr(unwrapped(encoder), "blocks", None):
            return _by_name(part, len(unwrapped(encoder).blocks))
        if chain := _chain(part):
            return _by_order(part, chain)
    return None


def in_blocks(model: nn.Module) -> set[Tensor]:
    """Parameters of the blocks that :func:`depths` counts; of timm's models, what is numbered."""
    for part in layers_around(model):
        if callable(getattr(part, "group_matcher", None)):
            numbered = {w for name, w in part.named_parameters() if re.search(r"\.\d+\.", name)}
            return {
                w for w, depth in depths(part).items() if depth and w in numbered - head_of(part)
            }
        encoder = getattr(part, "encoder", None)
        own = isinstance(encoder, nn.Module) and getattr(unwrapped(encoder), "blocks", None)
        if blocks := own or _chain(part):
            return {weight for block in blocks for weight in block.parameters()}
    return set()


def _by_name(model: nn.Module, number: int) -> dict[Tensor, int]:
    """Of our models, whose encoder may have positions before its blocks."""
    weights, found = dict(model.named_parameters()), {}
    for given, name in own_names(model, list(weights)).items():
        depth = 1 + number if name.startswith(("encoder.", "head.")) else 0
        if match := re.match(r"encoder\.blocks\.(\d+)\.", name):
            depth = 1 + int(match[1])
        found[weights[given]] = depth
    return found


def _chain(model: nn.Module) -> list[nn.Module]:
    """Blocks alike in a row that have most of the parameters."""
    most = sum(weight.numel() for weight in model.parameters()) / 2
    for part in model.modules():
        blocks = list(part.children())
        if not isinstance(part, nn.ModuleList | nn.Sequential) or len(blocks) < 2:
            continue
        kinds = {(type(each), *_shapes(each)) for each in blocks}
        if len(kinds) == 1 and sum(weight.numel() for weight in part.parameters()) > most:
            return blocks
    return []


def _shapes(part: nn.Module) -> list[tuple]:
    return [(name, tuple(weight.shape)) for name, weight in part.named_parameters()]


def _by_order(model: nn.Module, blocks: list[nn.Module]) -> dict[Tensor, int]:
    inside = {w: 1 + number for number, block in enumerate(blocks) for w in block.parameters()}
    head, found, passed = head_of(model), {}, False
    for weight in model.parameters():
        passed |= weight in inside
        behind = passed or weight in head
        found[weight] = inside.get(weight, 1 + len(blocks) if behind else 0)
    return found


def begins_with(names: tuple[str, ...], part: str) -> bool:
    """Whether one of these names is that of a part, or of something in it."""
    return any(f"{name}.".startswith(f"{part}.") for name in names)
