"""What of a photograph a patch's token can see behind windows that move and maps that shrink."""

from collections.abc import Sequence
from operator import index

from vitbook.figures.parts.drawing import as_images, patch_at
from vitbook.figures.parts.figure import Figure, at_the_start
from vitbook.figures.parts.jpeg import jpeg
from vitbook.figures.window_reach.reach import blocks_of, seen

_WAYS = ("windows stand", "windows shift", "patches merge", "shift and merge")
_MOST_SIDE = 16  # buttons in a page, and patches that a finger hits


def window_reach(
    image,
    *,
    side: int = 16,
    window: int = 4,
    depths: Sequence[int] = (2, 2, 2),
    token: tuple[int, int] | None = None,
    task: str | None = None,
    title: str = "Click a patch: how much of the photograph does its token see?",
    description: str | None = None,
) -> Figure:
    """A photograph's patches, and those that one token sees after so many blocks of Swin.

    Four ways stand beside each other: windows that stand, that shift in every second block, whose
    2 x 2 tokens merge between stages, and both (Liu et al. 2021, figure 3). The page counts.

    Args:
        image: uint8 "channels height width".
        side: patches along either side, at most 16; halved once less than there are stages.
        window: tokens along a window's side; divides the grid of every stage that is larger.
        depths: blocks of each stage.
        token: (row, column) of the patch that is asked at the start; by default (3, 5), or what of
            the grid is nearest to it.

    Raises:
        ValueError: a grid that cannot be halved so often or that windows do not divide, no block,
            or a patch that is not there.
    """
    image = as_images(image[None])[0]
    side, window, depths = index(side), index(window), tuple(map(index, depths))
    _check(side, window, depths)
    token = (min(3, side - 1), min(5, side - 1)) if token is None else token
    asked = patch_at(token, (side, side))
    data = {
        "photo": jpeg(image), "size": list(image.shape[1:]), "side": side, "window": window,
        "depths": list(depths), "token": asked, "blocks": 1, "way": len(_WAYS) - 1,
        "ways": list(_WAYS), "task": task or "",
    }  # fmt: skip
    first = blocks_of(side, window, depths, shift=True, merge=True)[:1]
    across = [high - low + 1 for low, high in (seen(at, side, first) for at in token)]
    finding = (
        f"The token of the framed patch has gone through one block, and sees "
        f"{across[0] * across[1]} of {side**2} patches.\nBright: patches whose change can change "
        "the token. Orange: windows of the last block. The frame grows where 2 × 2 tokens merge."
    )
    return Figure("window_reach", data, title, description or at_the_start(finding))


def _check(side: int, window: int, depths: Sequence[int]) -> None:
    if not depths or min(depths) < 1:
        raise ValueError(f"depths {tuple(depths)}: expected a block or more in each stage")
    halvings = 2 ** (len(depths) - 1)
    if not 1 < side <= _MOST_SIDE or side % halvings:
        raise ValueError(
            f"a side of {side} patches in {len(depths)} stages: expected a multiple of {halvings}, "
            f"at most {_MOST_SIDE}"
        )
    grids = [side // 2**stage for stage in range(len(depths))]
    if window < 1 or any(grid > window and grid % window for grid in grids):
        raise ValueError(
            f"windows of {window} in grids of {grids} a side: expected one that divides every grid "
            "which is larger"
        )
