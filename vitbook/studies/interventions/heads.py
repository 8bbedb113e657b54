"""What a model does without some of its heads."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.mixing import mixing_layers
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import batches
from vitbook.model_utilities import evaluating

# (layer, head), both counted from 0.
Head = tuple[int, int]


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
    after an error.

    Args:
        model: ours, or timm's; also a part of one.
        heads: pairs (layer, head), counted from 0 in the order of the model's encoder; none
            changes nothing, to the last bit.
        means: what takes the place of the heads, a tensor for each layer, as
            :func:`mean_head_outputs` gives them; by default 0.

    Raises:
        RuntimeError: another thread looks into the model.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.studies.interventions import ablate_heads, mean_head_outputs
        >>> model = vitbook.create_model("vit_micro_patch2_8").eval()
        >>> images = torch.rand(3, 1, 8, 8)
        >>> means = mean_head_outputs(model, images)
        >>> with torch.no_grad(), ablate_heads(model, [(0, 2), (3, 1)], means):
        ...     logits = model(images)
        >>> tuple(means[0].shape), tuple(logits.shape)  # tokens and width; images and classes
        ((17, 64), (3, 10))
    """
    layers = mixing_layers(model)
    gone: dict[int, list[int]] = {}
    for layer, head in heads:
        gone.setdefault(layer, []).append(head)

    def replaced(layer: int, module: nn.Linear, args: tuple[Tensor]) -> Tensor:
        mixed = args[0].clone()
        width = mixed.shape[-1] // layers[module]
        for head in gone[layer]:
            part = slice(head * width, (head + 1) * width)
            mixed[..., part] = 0 if means is None else means[layer][..., part].to(mixed)
        return mixed

    places = {module: layer for layer, module in enumerate(layers) if layer in gone}

    def watch(_: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if module in places:
            yield module.register_forward_pre_hook(partial(replaced, places[module]))

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
    """
    sums: dict[nn.Module, Tensor | int] = dict.fromkeys(mixing_layers(model), 0)

    def add(module: nn.Module, args: tuple[Tensor]) -> None:
        exact = torch.promote_types(args[0].dtype, torch.float32)
        sums[module] = sums[module] + args[0].sum(0, dtype=exact)

    def watch(_: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if module in sums:
            yield module.register_forward_pre_hook(add)

    with evaluating(model), record_modules(model, watch):
        for batch in batches(model, images, batch_size):
            model(batch)
    return tuple(total / len(images) for total in sums.values())
