"""What a model does without some of its heads."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture import record_modules
from vitbook.analysis.running import batches, encoder_of
from vitbook.modes import evaluating

# (layer, head), both counted from 0.
Head = tuple[int, int]
# What a library calls the layer that mixes the heads' outputs, which lie side by side before it.
PROJECTIONS = {"vitbook.layers.": "projection", "timm.": "proj"}


@contextmanager
def ablate_heads(
    model: nn.Module,
    heads: Iterable[Head],
    means: Sequence[Float[Tensor, "tokens _width"]] | None = None,
) -> Iterator[None]:
    r"""Replace the output of some heads while the block runs.

    .. math::
        \mathrm{MSA}(z) = \sum_{h \notin S} \mathrm{SA}_h(z)\, U_h + \sum_{h \in S} m_h\, U_h + b

    The heads :math:`S` still attend, but what they found is lost: :math:`m_h` is 0, or the head's
    mean over other images. Michel, Levy and Neubig 2019 ("Are sixteen heads really better than
    one?", equation 2) and Voita et al. 2019 ("Analyzing multi-head self-attention") multiply heads
    by 0. Later layers have never seen such a sum, so part of what 0 costs is the surprise; the mean
    keeps what a head always says and removes only what it says of this image. The weights are not
    changed, and nothing outlives the block, also after an error.

    Args:
        model: ours, or timm's with heads side by side before ``proj``; also a part of one.
        heads: pairs (layer, head), counted from 0 in the order of the model's encoder; none
            changes nothing, to the last bit.
        means: what takes the place of the heads, a tensor for each layer, as
            :func:`mean_head_outputs` gives them; by default 0.

    Raises:
        ValueError: a layer or head that the model does not have, or one named twice; a model whose
            heads are not known to lie side by side; means of other layers or tokens.
        RuntimeError: another thread looks into the model.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.analysis import ablate_heads, mean_head_outputs
        >>> model = vitbook.create_model("vit_micro_patch2_8").eval()
        >>> images = torch.rand(3, 1, 8, 8)
        >>> means = mean_head_outputs(model, images)
        >>> with torch.no_grad(), ablate_heads(model, [(0, 2), (3, 1)], means):
        ...     logits = model(images)
        >>> tuple(means[0].shape), tuple(logits.shape)  # tokens and width; images and classes
        ((17, 64), (3, 10))
    """
    layers = list(attention_layers(model).items())
    chosen = _by_layer(heads, [number for _, (number, _) in layers], type(model).__name__)
    if means is not None and len(means) != len(layers):
        raise ValueError(
            f"means of {len(means)} layers, but {len(layers)} attend: expected as many"
        )
    if not chosen:
        yield
        return
    hooks = {}
    for layer, gone in chosen.items():
        path, (number, projection) = layers[layer]
        mean = None if means is None else means[layer]
        hooks[projection] = partial(_replace, path, gone, number, mean)

    def watch(_: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if module in hooks:
            yield module.register_forward_pre_hook(hooks[module])

    with record_modules(model, watch):
        yield


@torch.no_grad()
def mean_head_outputs(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    *,
    batch_size: int = 32,
) -> tuple[Float[Tensor, "tokens _width"], ...]:
    """The mean over images of what the heads of each layer give, side by side.

    Each token has its own mean, since a class token reads something else than a patch, and a patch
    at the border something else than one in the middle.

    Args:
        model: as in :func:`ablate_heads`; it runs in evaluation mode.
        images: normalised as the model takes them; not those on which heads are ablated later.
        batch_size: images at a time.

    Returns:
        A tensor for each layer; head h of H has the h-th of H equal parts of the width.

    Raises:
        ValueError: no images, or NaN in them; a model as in :func:`ablate_heads`, or one that
            attends in windows, or in several places with the same module.
        TypeError: images that are not floating point.
    """
    layers = attention_layers(model)
    places = {projection: layer for layer, (_, projection) in enumerate(layers.values())}
    sums: list[Tensor | int] = [0] * len(layers)
    size = 0
    ran: set[int] = set()  # in this batch

    def add(layer: int, module: nn.Module, args: tuple) -> None:
        if args[0].ndim != 3 or len(args[0]) != size:
            raise ValueError(
                f"{list(layers)[layer]} attends over {tuple(args[0].shape)} for {size} images: "
                "expected (images, tokens, width), so no windows"
            )
        if layer in ran:
            raise ValueError(
                f"{list(layers)[layer]} attends more than once in a pass: expected layers that "
                "share no module, each with a mean of its own"
            )
        ran.add(layer)
        exact = torch.promote_types(args[0].dtype, torch.float32)
        sums[layer] = sums[layer] + args[0].sum(0, dtype=exact)

    def watch(_: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if module in places:
            yield module.register_forward_pre_hook(partial(add, places[module]))

    with evaluating(model), record_modules(model, watch):
        for batch in batches(model, images, batch_size):
            size = len(batch)
            ran.clear()
            model(batch)
    return tuple(total / len(images) for total in sums)


def attention_layers(model: nn.Module) -> dict[str, tuple[int, nn.Linear]]:
    """Path of each attention of the encoder -> its number of heads, and what mixes their outputs.

    Raises:
        ValueError: an attention whose heads are not known to lie side by side, two that share what
            mixes their heads, or none at all.
    """
    part, where = encoder_of(model)
    found = {}
    for path, module in part.named_modules():
        heads = getattr(module, "num_heads", None)
        if not isinstance(heads, int):
            continue
        names = [
            name for home, name in PROJECTIONS.items()
            if any(each.__module__.startswith(home) for each in type(module).__mro__)
        ]  # fmt: skip
        projection = getattr(module, names[0], None) if names else None
        if any(projection is known for _, known in found.values()):
            raise ValueError(
                f"{path} shares the layer that mixes its heads with another attention: expected "
                "one for each, so that heads can be told apart"
            )
        if isinstance(projection, nn.Linear) and projection.in_features % heads == 0:
            found[where + path.removeprefix("_orig_mod.")] = heads, projection
        elif not any(hasattr(inner, "num_heads") for _, inner in [*module.named_modules()][1:]):
            raise ValueError(
                f"{path or 'the model'} ({type(module).__name__}): heads are ablated in front of "
                "the linear layer that mixes them, and where this one has it is not known; "
                "expected our attention or timm's"
            )
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no attention whose heads are known to lie side by side: "
            "expected a Transformer of ours or timm's"
        )
    return found


def _by_layer(heads: Iterable[Head], counts: list[int], name: str) -> dict[int, list[int]]:
    chosen: dict[int, list[int]] = {}
    for layer, head in heads:
        if not all(isinstance(each, int) and not isinstance(each, bool) for each in (layer, head)):
            raise ValueError(f"head ({layer}, {head}): expected whole numbers (layer, head)")
        if not 0 <= layer < len(counts):
            raise ValueError(
                f"layer {layer}: {name} has {len(counts)}, expected 0 to {len(counts) - 1}"
            )
        if not 0 <= head < counts[layer]:
            raise ValueError(
                f"head {head} of layer {layer}: there are {counts[layer]}, expected 0 to "
                f"{counts[layer] - 1}"
            )
        if head in chosen.setdefault(layer, []):
            raise ValueError(f"head {head} of layer {layer} is named twice: expected it once")
        chosen[layer].append(head)
    return chosen


def _replace(
    path: str, gone: list[int], number: int, mean: Tensor | None, module: nn.Module, args: tuple
) -> tuple:
    given = args[0]
    if mean is not None and mean.shape != given.shape[1:]:
        raise ValueError(
            f"{path}: means of {tuple(mean.shape)}, but it runs on {tuple(given.shape[1:])} tokens "
            "and channels: measure the means on images of the same size"
        )
    width = given.shape[-1] // number
    mixed = given.clone()
    for head in gone:
        part = slice(head * width, (head + 1) * width)
        mixed[..., part] = 0 if mean is None else mean[..., part].to(given)
    return (mixed, *args[1:])
