"""How large the numbers become that a model's blocks hand on."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.outputs import check_layers, first_tensor, list_blocks, told
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import batches, encoder_of, takes_images
from vitbook.devices import to_float64
from vitbook.model_utilities import evaluating


@dataclass(frozen=True)
class ResidualStream:
    """The residual stream of a model, over images, tokens and channels.

    Attributes:
        layers: paths of the blocks, in the order run.
        size: root mean square of its numbers, in front of the first block and behind each. A
            LayerNorm with its first weights gives 1.
        change: root mean square of what each block changes, as a share of the size it finds.
    """

    layers: tuple[str, ...]
    size: Float[Tensor, " blocks_and_one"]
    change: Float[Tensor, " blocks"]


@takes_images()
@torch.no_grad()
def residual_stream(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    *,
    layers: tuple[str, ...] | None = None,
    batch_size: int = 32,
) -> ResidualStream:
    r"""How large the stream is, and how much of it each block changes.

    .. math::
        \mathrm{size}_\ell = \sqrt{\operatorname{mean}\, z_\ell^2}, \qquad
        \mathrm{change}_\ell = \sqrt{\operatorname{mean}\,(z_\ell - z_{\ell-1})^2}
            \,/\, \mathrm{size}_{\ell-1}

    At the start of training a Pre-LN stream grows with depth and a Post-LN stream does not
    (Xiong et al. 2020, lemma 2). The model runs in evaluation mode; its modes stay.

    Args:
        images: normalised as the model takes them.
        layers: paths of blocks, each taking what the one before gave; by default those of the
            encoder (:func:`list_blocks`).
        batch_size: images at a time.

    Raises:
        TypeError: images that are not floating point.
        ValueError: no images, NaN in them, or a block that takes no tensor or gives another shape
            than it takes.
        RuntimeError: a layer did not run, or ran twice.
        UnknownNameError: a path that leads to no module; names the nearest.

    Example:
        >>> import torch
        >>> from vitbook import analysis, create_model
        >>> model = create_model("vit_postnorm_micro_patch2_8")
        >>> found = analysis.residual_stream(model, torch.randn(2, 1, 8, 8))
        >>> [round(size, 2) for size in found.size[1:].tolist()]
        [1.0, 1.0, 1.0, 1.0]
    """
    if layers is None:
        _, encoder = encoder_of(model)
        layers = tuple(path for path in list_blocks(model) if path.startswith(encoder))
    check_layers(model, layers)
    squares = {path: torch.zeros(3, dtype=torch.float64) for path in layers}
    times: Counter[str] = Counter()
    came: dict[str, Tensor | None] = {}
    share = 0.0  # of the images, in the batch that runs: a stream's first axis may be its tokens

    def after(path: str, taken: Tensor | None, given: Any) -> None:
        same = isinstance(taken, Tensor) and isinstance(given, Tensor)
        if not same or taken.shape != given.shape:
            raise ValueError(
                f"{path} of {type(model).__name__} takes {told(taken)} and gives {told(given)}: "
                "expected blocks around one stream; pass layers="
            )
        taken, given = to_float64(taken), to_float64(given)
        means = [part.square().mean() for part in (taken, given, given - taken)]
        squares[path] += torch.stack(means).cpu() * share
        times[path] += 1

    def watch(path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        def before(module: nn.Module, args: tuple, kwargs: dict) -> None:
            taken = first_tensor(args, kwargs)
            came[path] = None if taken is None else taken.clone()  # a block may add in place

        def keep(module: nn.Module, args: tuple, output: Any) -> None:
            after(path, came.pop(path), output[0] if isinstance(output, tuple) else output)

        if path in layers:
            yield module.register_forward_pre_hook(before, with_kwargs=True)
            yield module.register_forward_hook(keep)

    with evaluating(model), record_modules(model, watch):
        for expected, batch in enumerate(batches(model, images, batch_size), start=1):
            share = len(batch) / len(images)
            model(batch)
            for path in layers:
                if times[path] != expected:
                    raise RuntimeError(
                        f"layer {path} of {type(model).__name__} ran {times[path] - expected + 1} "
                        "times on one batch: expected once"
                    )
    taken, given, changed = torch.stack([squares[path] for path in times], dim=1).sqrt()
    return ResidualStream(tuple(times), torch.cat([taken[:1], given]), changed / taken)
