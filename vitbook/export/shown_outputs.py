"""What of a model a page can show."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from vitbook.analysis import list_blocks
from vitbook.analysis.capture.layout import pixels_per_patch, token_layout
from vitbook.export.page_manifest import Answers, Layer
from vitbook.export.tracing import ANSWER, ExportError, Watched
from vitbook.model_utilities import evaluating


class Shown:
    """What of a model a page can show for images of one size, and the reasons for what it cannot.

    Attributes:
        grid, prefix, layers, lacks: as in the manifest.
        watched: gives the outputs that are shown, by their names in the graph.
    """

    def __init__(
        self,
        model: nn.Module,
        prepare: Callable[[Tensor], Tensor],
        pixels: Tensor,
        blocks: Sequence[str] | None = None,
    ):
        self.name, self.lacks = type(model).__name__, []
        blocks = list_blocks(model) if blocks is None else tuple(blocks)
        self.grid, self.prefix = self._layout(model, pixels)
        watch = partial(Watched, model, prepare)
        try:
            seen = outputs_of(watch(attention=True, tokens=blocks), pixels)
        except RuntimeError as error:
            told = str(error).partition(":")[0].replace("ran in the block for", "runs in")
            self.lacks.append(f"attention maps ({told})")
            seen = outputs_of(watch(attention=(), tokens=blocks), pixels)
        tokens = self._on_grid(seen, "tokens", "token colours", self._are_tokens)
        maps = self._on_grid(seen, "attention", "attention maps", self._are_maps)
        self.watched = watch(attention=tuple(maps), tokens=tuple(tokens))
        self.layers = [Layer(block, output) for block, output in tokens.items()]
        for path, output in maps.items():
            inside = [i for i, each in enumerate(self.layers) if path.startswith(f"{each.name}.")]
            if inside and not self.layers[inside[0]].attention:
                self.layers[inside[0]] = replace(self.layers[inside[0]], attention=output)
            else:
                self.layers.append(Layer(path, None, output))

    def answers(self, seen: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Answers]:
        """Of the logits, if they are logits; what is not known of them is added to the lacks."""
        output = next((each for each in (ANSWER, f"{ANSWER}:logits") if each in seen), None)
        shape = tuple(seen[output].shape) if output else ()
        if len(shape) != 2 or shape[1] < 2 or not _num_classes(self.watched.model):
            self.lacks.append("answers (it gives no logits of two classes or more)")
            return {}
        if names and len(names) != shape[1]:
            raise ExportError(f"{len(names)} class names for {shape[1]} logits of {self.name}")
        if not names:
            self.lacks.append(f"class names (nobody says what its {shape[1]} logits mean)")
        return {ANSWER: Answers(output, f"{shape[1]} classes", list(names) or None)}

    def _layout(self, model: nn.Module, pixels: Tensor) -> tuple[list[int] | None, int]:
        try:
            grid, prefix = token_layout(model, pixels, grid_size=None, num_prefix_tokens=None)
        except ValueError:
            self.lacks.append(f"a grid of patches ({self.name} says none)")
            return None, 0
        try:
            pixels_per_patch(model, pixels, grid)
        except ValueError:
            sides = "x".join(map(str, pixels.shape[2:]))
            self.lacks.append(f"a grid of patches (they do not cover {sides} pixels)")
            return None, 0
        return list(grid), prefix

    def _on_grid(
        self, seen: Mapping[str, Tensor], kind: str, words: str, fits: Callable[[tuple], bool]
    ) -> dict[str, str]:
        """Path -> output of those that lie on the grid; the others are told."""
        found = [name for name in seen if name.startswith(f"{kind}:")]
        kept = [name for name in found if fits(tuple(seen[name].shape))]
        if other := [name for name in found if name not in kept]:
            shape = "x".join(str(side) for side in seen[other[0]].shape[1:])
            number = f"{len(other)} of {len(found)} {words}" if kept else words
            self.lacks.append(f"{number} ({shape}: not on a grid of patches)")
        elif not found and kind == "tokens":
            self.lacks.append(f"{words} ({self.name} stacks no blocks)")
        return {name.partition(":")[2]: name for name in kept}

    def _are_tokens(self, shape: tuple[int, ...]) -> bool:
        cells = math.prod(self.grid) if self.grid else -1
        return len(shape) == 3 and shape[0] == 1 and shape[1] in (cells, self.prefix + cells)

    def _are_maps(self, shape: tuple[int, ...]) -> bool:
        tokens = self.prefix + math.prod(self.grid) if self.grid else -1
        return len(shape) == 4 and shape[0] == 1 and shape[2:] == (tokens, tokens)


def _num_classes(model: nn.Module) -> int:
    """What ours and timm's say; 0 of one that gives its features."""
    return getattr(getattr(model, "spec", model), "num_classes", 1)


def outputs_of(watched: Watched, pixels: Tensor) -> dict[str, Tensor]:
    with evaluating(watched), torch.no_grad():
        return watched(pixels)
