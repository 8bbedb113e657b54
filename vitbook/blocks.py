"""The blocks of a model, each by its path or its number."""

from collections.abc import Iterable
from difflib import get_close_matches

from torch import nn

from vitbook.errors import UnknownNameError, is_whole_number

# What the model's own head reads: its tokens after the last norm.
LAST = "last"


def list_blocks(model: nn.Module) -> tuple[str, ...]:
    """Paths of the blocks that a model stacks, in its own order.

    A block stands in a list or a sequence, has parts that learn, and holds no further stack: the
    blocks of every library's Transformer, and of a residual network.
    """
    stacks = (nn.ModuleList, nn.Sequential)
    found = [
        f"{path}.{name}".removeprefix("_orig_mod").removeprefix(".")
        for path, module in model.named_modules()
        if isinstance(module, stacks)
        for name, part in module.named_children()
        if not isinstance(part, stacks)
        and any(list(child.parameters()) for child in part.children())
    ]
    return tuple(p for p in found if not any(q.startswith(f"{p}.") for q in found))


def find_layers(model: nn.Module, layers: Iterable[str | int] | None = None) -> tuple[str, ...]:
    """Paths of layers that came as paths or as numbers of blocks.

    Args:
        layers: paths of ``model.named_modules()``, or indices into :func:`list_blocks`, from 0 or,
            from the end, from -1; by default every block.

    Raises:
        ValueError: no layers.
        UnknownNameError: a layer that is not there; names the nearest, or all blocks.
        TypeError: neither a path nor a whole number, or one alone instead of several.
    """
    if isinstance(layers, str) or not isinstance(layers, Iterable | None):
        raise TypeError(f"layers came as {layers!r}: expected several, as [{layers!r}]")
    blocks = list_blocks(model)
    chosen = blocks if layers is None else tuple(layers)
    if not chosen:
        raise ValueError(
            f"no layers found in {type(model).__name__}: expected blocks in a ModuleList or a "
            "Sequential; pass layers= with paths of model.named_modules()"
        )
    return tuple(_path(model, blocks, layer) for layer in chosen)


def find_layer(model: nn.Module, layer: str | int | None = None) -> str:
    """Path of the layer whose tokens are looked at: by default the block three quarters up.

    The last block serves what the model was trained for, and may turn down the rest. So a look
    that is asked for no layer goes to block ``ceil(3 n / 4)`` of n, the ninth of twelve: a rule
    that asks for no labels. Whoever has labels asks every block instead.

    Raises:
        As :func:`find_layers`.
    """
    if layer is None:
        layer = -(-3 * len(list_blocks(model)) // 4) - 1
    (path,) = find_layers(model, [layer] if list_blocks(model) or isinstance(layer, str) else [])
    return path


def _path(model: nn.Module, blocks: tuple[str, ...], layer: str | int) -> str:
    if is_whole_number(layer):
        if not -len(blocks) <= layer < len(blocks):
            told = ", ".join(blocks) or "none"
            raise UnknownNameError("layer", str(layer), [f"0 to {len(blocks) - 1}, or {told}"])
        return blocks[layer]
    if not isinstance(layer, str):
        raise TypeError(
            f"layer came as {type(layer).__name__}: expected the path of a module, as "
            f"{blocks[0] if blocks else 'blocks.0'!r}, or the number of a block"
        )
    known = {path.removeprefix("_orig_mod.") for path, _ in model.named_modules()} - {""}
    if layer not in known:
        near = get_close_matches(layer, known, cutoff=0.5)
        raise UnknownNameError("layer", layer, known if near else blocks or known)
    return layer
