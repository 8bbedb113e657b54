"""What a model makes of one image: the maps of its heads, their distances, its tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import inf

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.attention.rollout import roll_out
from vitbook.figures.parts.drawing import as_array
from vitbook.figures.parts.maps import PREFIX, as_maps
from vitbook.figures.parts.packing import distances
from vitbook.model_utilities import evaluating

Pair = tuple[int, int]
Normalize = Callable[[Tensor], Tensor]
FUSIONS = ("mean", "max", "min", "rollout")
MOST_PATCHES = 40 * 40


@dataclass(frozen=True)
class Layout:
    """Where patches lie: images of ``size``, a grid, and names of the tokens before the patches."""

    size: Pair
    grid: Pair
    prefix: tuple[str, ...]

    @property
    def tokens(self) -> int:
        return len(self.prefix) + self.grid[0] * self.grid[1]

    @property
    def step(self) -> tuple[float, float]:
        """Pixels from a patch to the next, down and across."""
        return self.size[0] / self.grid[0], self.size[1] / self.grid[1]

    def query(self, asker, what: str = "start") -> int:
        """Number of the token that is asked for: a name of the prefix, or a row and column.

        Raises:
            ValueError: it is neither.
        """
        if isinstance(asker, str) and asker in self.prefix:
            return self.prefix.index(asker)
        rows, columns = self.grid
        row, column = numbers(asker, (rows, columns)) or (None, None)
        if row is None:
            names = "".join(f", or {name!r}" for name in self.prefix)
            raise ValueError(
                f"{what} came as {asker!r}, expected a row and column of {rows}x{columns}, from 0"
                + names
            )
        return len(self.prefix) + row * columns + column

    def token(self, query: int) -> str | Pair:
        """The other way: what a reader calls a token."""
        before = len(self.prefix)
        return self.prefix[query] if query < before else divmod(query - before, self.grid[1])

    def asker(self, query: int) -> str:
        """A token in words, counted from 1."""
        token = self.token(query)
        if isinstance(token, str):
            return f"the {token}"
        return f"the patch in row {token[0] + 1}, column {token[1] + 1}"


def numbers(pair, limits: tuple[float, float] | Pair) -> Pair | None:
    """Two whole numbers from 0 and under their limits, else nothing."""
    fits = isinstance(pair, Sequence) and len(pair) == 2 and all(
        isinstance(i, int | np.integer) and 0 <= i < limit
        for i, limit in zip(pair, limits, strict=True)
    )  # fmt: skip
    return (int(pair[0]), int(pair[1])) if fits else None


def lay_out(
    model: nn.Module, images: np.ndarray, grid_size: Pair | None, num_prefix_tokens: int | None
) -> Layout:
    """What the caller or the model says of its tokens.

    Raises:
        ValueError: neither says it, more patches than a page holds, or images that do not fit.
    """
    from vitbook.analysis.capture.layout import has_class_token, pixels_per_patch, token_layout

    grid, count = token_layout(
        model,
        torch.from_numpy(images[:1]),
        grid_size=grid_size,
        num_prefix_tokens=num_prefix_tokens,
    )
    grid = numbers(grid, (inf, inf))
    if grid is None or not isinstance(count, int) or count < 0:
        raise ValueError(
            f"grid_size came as {grid_size!r} and num_prefix_tokens as {num_prefix_tokens!r}, "
            "expected (rows, columns) and a number of tokens, whole numbers"
        )
    rows, columns = grid
    height, width = images.shape[2:]
    if rows * columns > MOST_PATCHES:
        raise ValueError(
            f"{rows}x{columns} patches came, expected at most {MOST_PATCHES}, as 40x40, in a "
            "page: pass a model for smaller images"
        )
    patch = getattr(model, "patch_size", None)
    down, across = patch if isinstance(patch, Sequence) else (patch, patch)
    if not rows * columns or (patch is not None and (height < down or width < across)):
        smallest = f" of {down}x{across}: pass images of {rows * down or down}x" \
                   f"{columns * across or across}" if patch else ""  # fmt: skip
        raise ValueError(f"images of {height}x{width} are smaller than a patch{smallest}")
    fits = patch is None or (rows * down, columns * across) == (height, width)
    if height % rows or width % columns or not fits:
        expected = f"{rows * down}x{columns * across}" if patch else "the size that the model takes"
        raise ValueError(
            f"images of {height}x{width} do not fit a grid of {rows}x{columns} patches: "
            f"pass them at {expected}"
        )
    pixels_per_patch(model, torch.from_numpy(images[:1]), grid)
    named = PREFIX if has_class_token(model) else ("first register",)
    prefix = (named[i] if i < len(named) else f"prefix token {i + 1}" for i in range(count))
    return Layout((height, width), grid, tuple(prefix))


@dataclass
class Look:
    """One image: each layer "heads queries keys" with the fusions asked for behind the heads.

    Tokens are those of one layer, "tokens width", if it gives them.
    """

    layers: Float[np.ndarray, "layers maps queries keys"]
    fuse: tuple[str, ...]
    tokens: Float[np.ndarray, "tokens width"] | None
    layout: Layout

    @property
    def heads(self) -> int:
        return self.layers.shape[1] - len(self.fuse)

    @cached_property
    def far(self) -> Float[np.ndarray, "layers maps queries"]:
        """Mean attention distance of each query in pixels."""
        at = self.layout.grid, self.layout.step, len(self.layout.prefix)
        return np.stack([distances(layer, *at) for layer in self.layers])

    def called(self, layer: int, line: int) -> str:
        """A map by its layer and its head, or by its way to fuse the heads."""
        if line < self.heads:
            return f"layer {layer + 1}, head {line + 1}"
        how = self.fuse[line - self.heads]
        return f"rollout through layer {layer + 1}" if how == "rollout" else (
            f"layer {layer + 1}, {how} of heads"
        )  # fmt: skip

    def cosines(self, query: int) -> Float[np.ndarray, " patches"]:
        """How alike each patch's token is to this token."""
        unit = self.tokens / np.maximum(np.linalg.norm(self.tokens, axis=-1, keepdims=True), 1e-12)
        return unit[len(self.layout.prefix) :] @ unit[query]


def fused(
    layers: Float[np.ndarray, "layers heads queries keys"], how: str
) -> Float[np.ndarray, "layers queries keys"]:
    """All heads of a layer as one map: their mean, largest or least, or the rollout up to there.

    Raises:
        ValueError: a name that is none of ``FUSIONS``.
    """
    if how not in FUSIONS:
        raise ValueError(f"fuse came with {how!r}, expected one of {', '.join(FUSIONS)}")
    if how != "rollout":
        return getattr(layers, how)(axis=1)
    means = torch.from_numpy(layers.mean(axis=1))[:, None]
    asking = torch.eye(means.shape[-1], dtype=means.dtype)[None]
    layer_by_layer = [roll_out(asking, mean[None])[0] for mean in means]
    through = accumulate(layer_by_layer, lambda below, layer: layer @ below)
    return torch.stack(list(through)).numpy()


@torch.no_grad()
def look(
    model: nn.Module,
    image: np.ndarray,
    normalize: Normalize | None,
    layout: Layout,
    fuse: Sequence[str] = (),
    layer: str | int | None = None,
) -> Look:
    """Run the model once on one uint8 image "c h w".

    Args:
        layer: whose tokens; as :func:`vitbook.analysis.layer_tokens` takes it.

    Raises:
        ValueError: it cannot take the image, runs no attention, or gives maps or tokens that
            cannot be shown.
    """
    normalize = normalize or (lambda images: images.float() / 127.5 - 1)
    first = next(model.parameters(), torch.zeros(()))
    ready = normalize(torch.from_numpy(image[None]))
    if not torch.is_tensor(ready):
        raise ValueError(f"normalize gave a {type(ready).__name__}, expected a tensor of images")
    maps, tokens = _run(model, ready.to(first.device, first.dtype), layer)
    layers = as_maps("this model", maps, 1, layout.tokens)[:, 0]
    if tokens is not None:
        tokens = as_array(tokens)
        if tokens.shape[:2] != (1, layout.tokens):
            tokens = None
        elif not np.isfinite(tokens).all():
            raise ValueError("the tokens hold NaN or infinity: look for it in images or weights")
    more = [fused(layers, how)[:, None] for how in fuse]
    return Look(
        np.concatenate([layers, *more], axis=1),
        tuple(fuse),
        None if tokens is None else tokens[0],
        layout,
    )


def _run(
    model: nn.Module, ready: Tensor, layer: str | int | None
) -> tuple[list[Tensor], Tensor | None]:
    from vitbook.analysis import capture_attention, layer_tokens

    with evaluating(model):
        try:
            with capture_attention(model) as maps:
                tokens = layer_tokens(model, ready, layer)
            return list(maps.values()), tokens
        except (ValueError, RuntimeError, AssertionError):
            pass  # a model without such tokens still has maps
        try:
            with capture_attention(model) as maps:
                model(ready)
        except (ValueError, RuntimeError, AssertionError, TypeError) as error:
            raise ValueError(
                f"no maps of tokens by tokens came from {type(model).__name__} on images of shape "
                f"{tuple(ready.shape)}: {str(error).splitlines()[0] if str(error) else error!r}"
            ) from error
        return list(maps.values()), None
