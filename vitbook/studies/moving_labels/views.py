"""A photograph as the context and the blocks of I-JEPA cut it."""

import torch
from jaxtyping import UInt8
from torch import Tensor

from vitbook.studies.moving_labels.blocks import BLOCKS, Blocks

HIDDEN = 0.15  # of the light of what nobody is shown


def blocks_on(
    image: UInt8[Tensor, "channels height width"], blocks: Blocks, grid: tuple[int, int]
) -> dict[str, UInt8[Tensor, "channels height width"]]:
    """The context, and each block, of the first of some images: what is not in it is dark."""
    places = {"context": blocks.context[0]}
    places |= {f"block {number + 1}": blocks.targets[0, number] for number in range(BLOCKS)}
    return {name: _lit(image, some, grid) for name, some in places.items()}


def _lit(image: Tensor, places: Tensor, grid: tuple[int, int]) -> Tensor:
    light = torch.full((grid[0] * grid[1],), HIDDEN)
    light[places] = 1.0
    light = light.view(grid)
    for axis, size in enumerate(image.shape[1:]):
        light = light.repeat_interleave(size // grid[axis], axis)
    return (image * light).round().to(torch.uint8)
