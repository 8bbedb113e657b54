"""What a model does without some of its heads."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.layout import as_pairs
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import batches, encoder_of, takes_images
from vitbook.model_utilities import evaluating

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
    keeps what a head always says and removes only what it says of this image. A layer that runs
    again is without them again. The weights are not changed, and nothing outlives the block, also
    after an error, and in copies that were made inside.

    Args:
        model: ours, or timm's with heads side by side before ``proj``; also a part of one.
        heads: pairs (layer, head), counted from 0 in the order of the model's encoder; none
            changes nothing, to the last bit.
        means: what takes the place of the heads, a tensor for each layer, as
            :func:`mean_head_outputs` gives them; by default 0.

    Raises:
        ValueError: what is no pair (layer, head), a layer or head that the model does not have, or
            one named twice; a model whose heads are not known to lie side by side, or that holds
            one attention in two places; means of other layers or tokens, or with NaN in them.
        TypeError: means that are no tensors.
        RuntimeError: another thread looks into the model; another thread runs it meanwhile.

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
    if means is not None:
        _check_means(means, [path for path, _ in layers])
    if not chosen:
        yield
        return
    here, closed = threading.get_ident(), False

    def replace(change: Callable[[Tensor], Tensor], module: nn.Module, args: tuple) -> tuple | None:
        if closed:  # a copy of the model has copies of these hooks
            return None
        if threading.get_ident() != here:
            raise RuntimeError(
                "heads of this model are ablated in another thread: wait for it, or give each "
                "thread a copy (copy.deepcopy) beforehand"
            )
        return (change(args[0]), *args[1:])

    hooks = {}
    for layer, gone in chosen.items():
        path, (number, projection) = layers[layer]
        mean = None if means is None else means[layer]
        hooks[projection] = partial(replace, partial(_without, path, gone, number, mean))

    def watch(_: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if module in hooks:
            yield module.register_forward_pre_hook(hooks[module])

    try:
        with record_modules(model, watch):
            yield
    finally:
        closed = True


@takes_images()
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
        ValueError: no images, or NaN in them or in what the heads give; a model as in
            :func:`ablate_heads`, or one that attends in windows, or several times in a pass.
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
    means = tuple(total / len(images) for total in sums)
    _check_means(means, list(layers))
    return means


def attention_layers(model: nn.Module) -> dict[str, tuple[int, nn.Linear]]:
    """Path of each attention of the encoder -> its number of heads, and what mixes their outputs.

    Raises:
        ValueError: an attention whose heads are not known to lie side by side, two that share what
            mixes their heads, or none at all.
    """
    part, where = encoder_of(model)
    found = {}
    for path, module in part.named_modules(remove_duplicate=False):
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
    for layer, head in as_pairs(heads):
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


def _check_means(means: Sequence[Tensor], paths: list[str]) -> None:
    if not isinstance(means, Sequence | Tensor) or not all(isinstance(m, Tensor) for m in means):
        raise TypeError(
            f"means came as {type(means).__name__}: expected a tensor for each layer, as "
            "mean_head_outputs gives them"
        )
    if len(means) != len(paths):
        raise ValueError(f"means of {len(means)} layers, but {len(paths)} attend: expected as many")
    for path, mean in zip(paths, means, strict=True):
        if not mean.isfinite().all():
            raise ValueError(f"{path}: the means hold NaN or infinity: expected finite numbers")


def _without(path: str, gone: list[int], number: int, mean: Tensor | None, given: Tensor) -> Tensor:
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
    return mixed
