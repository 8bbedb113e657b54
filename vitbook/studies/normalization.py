"""What the chapter on normalization measures of the stream and its gradients."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitbook.analysis.capture.outputs import list_blocks
from vitbook.analysis.capture.running import as_model_takes, batches
from vitbook.devices import to_float64
from vitbook.model_utilities import evaluating


class ResidualStream(NamedTuple):
    """Sizes along the encoder.

    Attributes:
        size: root mean square of its numbers, in front of the first block and behind each. A
            LayerNorm with its first weights gives 1.
        change: root mean square of what each block changes, as a share of the size it finds.
    """

    size: Float[Tensor, " blocks_and_one"]
    change: Float[Tensor, " blocks"]


@torch.no_grad()
def residual_stream(
    model: nn.Module, images: Float[Tensor, "images channels height width"]
) -> ResidualStream:
    r"""How large the stream is, and how much of it each block changes.

    .. math::
        \mathrm{size}_\ell = \sqrt{\operatorname{mean}\, z_\ell^2}, \qquad
        \mathrm{change}_\ell = \sqrt{\operatorname{mean}\,(z_\ell - z_{\ell-1})^2}
            \,/\, \mathrm{size}_{\ell-1}

    At the start of training a Pre-LN stream grows with depth and a Post-LN stream does not
    (Xiong et al. 2020, lemma 2).

    Args:
        model: whose blocks take tokens and give as many; it runs in evaluation mode.
        images: normalised as the model takes them.
    """
    blocks = [model.get_submodule(path) for path in list_blocks(model)]
    squares = torch.zeros(3, len(blocks), dtype=torch.float64)

    def keep(block: nn.Module, args: tuple, given: Tensor) -> None:
        taken, given = to_float64(args[0]), to_float64(given)
        means = [part.square().mean() for part in (taken, given, given - taken)]
        squares[:, blocks.index(block)] += torch.stack(means).cpu() * (len(taken) / len(images))

    hooks = [block.register_forward_hook(keep) for block in blocks]
    try:
        with evaluating(model):
            for batch in batches(model, images, 32):
                model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    taken, given, changed = squares.sqrt()
    return ResidualStream(torch.cat([taken[:1], given]), changed / taken)


def gradient_norms(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    labels: Int[Tensor, " images"],
    *,
    part: str,
) -> list[float]:
    r"""Length of the gradient of the mean cross-entropy with respect to one weight of each block.

    .. math:: \Big\lVert \nabla_{\theta_\ell}\, \frac{1}{n} \sum_i L(f_\theta(x_i), y_i) \Big\rVert

    Xiong et al. 2020 compare Post-LN with Pre-LN so, at the start of training, by the last weight
    of each MLP (section 3.3), ``part="mlp.contract.weight"``. The model runs in evaluation mode.
    """
    weights = [block.get_parameter(part) for block in model.encoder.blocks]
    with evaluating(model), torch.enable_grad():
        logits = model(as_model_takes(model, images))
        loss = F.cross_entropy(logits, labels.to(logits.device))
        gradients = torch.autograd.grad(loss, weights)
    return [to_float64(gradient).square().sum().item() ** 0.5 for gradient in gradients]


def gradients_by_depth(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    labels: Int[Tensor, " images"],
    depths: Sequence[int],
    *,
    part: str,
) -> dict[int, list[float]]:
    """:func:`gradient_norms` of a model that is cut to its first few blocks, depth by depth.

    What comes before the blocks and after them stays. So encoders of different depths share all
    weights that they can share, and differ by no other draw of the head.
    """
    blocks, found = model.encoder.blocks, {}
    try:
        for depth in depths:
            model.encoder.blocks = blocks[:depth]
            found[depth] = gradient_norms(model, images, labels, part=part)
    finally:
        model.encoder.blocks = blocks
    return found
