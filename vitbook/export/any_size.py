"""A model that takes images of any size, while a block lasts."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers import LearnedPosition
from vitbook.layers.tokenizers import PatchTokenizer


@contextmanager
def any_size(model: nn.Module) -> Iterator[None]:
    """Our models refuse images of another size than they were built for; not in this block.

    A learned table of positions is carried to the grid of the images, as ``timm_bicubic`` of
    :func:`vitbook.layers.resize_positions` does, by two products of matrices, which ONNX knows.
    """
    with ExitStack() as stack:
        for part in model.modules():
            if "image_size" in vars(part) and type(part).__module__.startswith("vitbook."):
                stack.callback(setattr, part, "image_size", part.image_size)
                part.image_size = None
            position, cutter = (getattr(part, name, None) for name in ("position", "tokenizer"))
            ours = type(position) is LearnedPosition and isinstance(cutter, PatchTokenizer)
            if ours and "forward" not in vars(position):  # by an outer block, or by the user
                stack.enter_context(_carried(position, cutter))
        yield


@contextmanager
def _carried(position: LearnedPosition, cutter: PatchTokenizer) -> Iterator[None]:
    grid: list[int | torch.SymInt] = []

    def see(_, given: tuple[Tensor]) -> None:
        sides = given[0].shape[2:]
        grid[:] = (side // step for side, step in zip(sides, cutter.patch, strict=True))

    def add(tokens: Tensor) -> Tensor:
        prefix, table = position.table.tensor_split([position.num_prefix_tokens])
        table = table.unflatten(0, position.grid_size)
        rows, columns = map(bicubic, position.grid_size, grid)
        table = torch.einsum("ri,ijd,cj->rcd", rows, table, columns).flatten(0, 1)
        return tokens + torch.cat([prefix, table])

    hook = cutter.register_forward_pre_hook(see)
    position.forward = add
    try:
        yield
    finally:
        hook.remove()
        del position.forward


def bicubic(old: int, new: int | torch.SymInt) -> Float[Tensor, "new old"]:
    """What of each old number goes into each new one: torch's bicubic with antialiasing.

    The kernel is Keys' (1981, equation 4) with a = -1/2, as wide as a step where steps grow.
    """
    at = torch.arange(new, dtype=torch.float32) + 0.5
    step = old / (at[-1:] + 0.5)  # the number is a tensor here, as a graph of any size has it
    apart = (torch.arange(old) + 0.5 - (at * step)[:, None]).abs() / step.clamp(min=1)
    near = (1.5 * apart - 2.5) * apart**2 + 1
    far = ((2.5 - 0.5 * apart) * apart - 4) * apart + 2
    weights = torch.where(apart < 1, near, far * (apart < 2))
    return weights / weights.sum(1, keepdim=True)
