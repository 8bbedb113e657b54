"""How far a token sees behind windows, shifts and mergings: what `reach.js` computes."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """Tokens of so many patches a side, in windows that stand or are shifted by some tokens."""

    patches: int
    window: int
    shift: int


def blocks_of(
    side: int, window: int, depths: Sequence[int], *, shift: bool, merge: bool
) -> list[Block]:
    """The blocks of all stages in a row.

    Args:
        side: patches of the grid; with ``merge`` every stage but the first has half the tokens.
        window: side of a window in tokens; where the grid is no larger, the window is the grid.
        depths: blocks of each stage.
        shift: whether every second block of a stage moves its windows by half of one.
        merge: whether 2 x 2 tokens become one between two stages.
    """
    made = []
    for stage, depth in enumerate(depths):
        patches = 2**stage if merge else 1
        wide = min(window, side // patches)
        moved = wide // 2 if shift and wide < side // patches else 0
        made += [Block(patches, wide, moved if number % 2 else 0) for number in range(depth)]
    return made


def seen(place: int, side: int, blocks: Sequence[Block]) -> tuple[int, int]:
    """First and last patch, along a side, that the token of a patch sees behind the blocks."""
    now = blocks[-1].patches if blocks else 1
    low = high = place // now
    for block in reversed(blocks):
        times = now // block.patches  # a merged token is that many of those before it
        low, high, now = low * times, high * times + times - 1, block.patches
        start, end = (_window(at, block) * block.window + block.shift for at in (low, high))
        low, high = max(0, start), min(side // now, end + block.window) - 1
    return low * now, high * now + now - 1


def _window(at: int, block: Block) -> int:
    return (at - block.shift) // block.window


def pairs(side: int, blocks: Sequence[Block]) -> int:
    """Scores that the blocks compute, a head; those that a mask hides too."""
    return sum((side // block.patches * block.window) ** 2 for block in blocks)
