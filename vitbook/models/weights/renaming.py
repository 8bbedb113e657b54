"""Loading weights that have other names: rules as data, one engine, one check."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping

import torch
from einops import rearrange
from torch import Tensor, nn

from vitbook.errors import first_few
from vitbook.model_utilities import AROUND, COMPILED, load_own_state, own_state, unwrapped
from vitbook.models.weights.names import Names

log = logging.getLogger(__name__)

DEEPEST = 5  # how far weights are looked for in what a training script wrote


@torch.no_grad()
def load_renamed(
    model: nn.Module, weights: Mapping, names: Names, whose: str, optional: str | None = None
) -> nn.Module:
    """Copy weights with other names and layouts into ``model``, all of them or none.

    Args:
        weights: the state dict, or the content of a training script's file, of which one part
            fits, whatever it is called: ``model``, ``state_dict_ema``, ``teacher``, names that
            begin with ``module.`` or ``backbone.``. Which one is logged.
        names: rules of :mod:`vitbook.models.weights.names`; none, if they are ours.
        whose: the owner of the weights, for the message.
        optional: parameters of ours whose name begins so keep their values if ``weights`` has
            none of them.

    Raises:
        ValueError: as :func:`check_state`, or several parts fit.
        TypeError: something that is no state dict came.
    """
    own, body = own_state(model), unwrapped(model)
    # Each prefix token is a parameter of its own elsewhere.
    prefix = own.pop("prefix", ()) if names else ()
    own |= {f"prefix.{number}": token for number, token in enumerate(prefix)}
    places = {name: _place(name, names) for name in own}
    patch = getattr(getattr(body, "tokenizer", None), "patch", ())
    sizes = dict(zip("pq", patch, strict=False))
    expected = {
        theirs: _rearrange(own[name], layout, sizes) for name, (theirs, layout) in places.items()
    }
    mine = {places[name][0] for name in places if optional and name.startswith(optional)}

    def wanted(state: Mapping) -> dict[str, Tensor]:
        left_out = () if mine & state.keys() else mine
        return {name: tensor for name, tensor in expected.items() if name not in left_out}

    given = _part_that_fits(weights, wanted, whose)
    places = {name: place for name, place in places.items() if place[0] in given}
    if any(tensor.is_meta for tensor in own.values()):
        raise ValueError("the model is on meta, where there is no memory: build it on a device")
    state = {
        name: _rearrange(given[theirs], " -> ".join(reversed(layout.split(" -> "))), sizes)
        for name, (theirs, layout) in places.items()
    }
    if len(prefix):
        state["prefix"] = torch.stack([state.pop(f"prefix.{n}") for n in range(len(prefix))])
    load_own_state(body, state, strict=optional is None)
    return model


def check_state(given: Mapping[str, Tensor], expected: Mapping[str, Tensor], whose: str) -> None:
    """Refuse weights that do not fit, in one sentence, before anything is copied.

    Raises:
        ValueError: tensors are missing, left over, of another shape or kind, or not finite,
            maybe only in the model's dtype.
    """
    faults = {
        "missing": [name for name in expected if name not in given],
        "unexpected": [name for name in given if name not in expected],
    }
    both = [name for name in expected if name in given]
    for name in both:
        if fault := _fault(given[name], expected[name]):
            what, numbers = fault
            faults.setdefault(what, []).append(f"{name} {numbers}".rstrip())
    found = [f"{fault}: {first_few(names)}" for fault, names in faults.items() if names]
    if found:
        advice = (
            "Build the model with the name, image_size, num_classes and channels that they were "
            "made for"
            if both or not given
            else "They have none of the names: give the weights of such a model alone"
        )
        raise ValueError(
            f"the weights of {whose} do not fit this model: {'; '.join(found)}. {advice}"
        )


def _fault(theirs: Tensor, own: Tensor) -> tuple[str, str] | None:
    """What is wrong with one tensor, and the numbers that show it."""
    if theirs.shape != own.shape:
        return "of another shape", f"{tuple(theirs.shape)} where {tuple(own.shape)} fits"
    if theirs.is_floating_point() != own.is_floating_point():
        return "of another kind", f"{theirs.dtype} where {own.dtype} fits"
    if theirs.is_meta:
        return "without numbers, on meta", ""
    if theirs.is_floating_point() and not theirs.isfinite().all():
        return "NaN or infinite", ""
    if theirs.is_floating_point() and not theirs.to(own.dtype).isfinite().all():
        largest = theirs.abs().max()
        return "too large for the model's numbers", f"up to {largest:.3g} where {own.dtype} fits"
    return None


def _part_that_fits(weights: Mapping, wanted: Callable, whose: str) -> dict[str, Tensor]:
    """The one state dict in what came whose names and shapes are those of ``wanted(state)``."""
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"weights are {type(weights).__name__}: expected a state dict; torch.load(path, "
            "weights_only=True) reads a file, model.state_dict() a model"
        )
    parts = dict(_parts(weights))
    if not parts:
        name, value = next(iter(weights.items()))
        raise TypeError(
            f"{name} of the weights is {type(value).__name__}, no tensor with a name: expected a "
            "state dict, or a file's content that has one"
        )

    expected = {where: wanted(state) for where, state in parts.items()}
    fits = [
        where
        for where, state in parts.items()
        if {name: tensor.shape for name, tensor in state.items()}
        == {name: tensor.shape for name, tensor in expected[where].items()}
    ]
    if len(fits) > 1:
        places = first_few(where or "as it came" for where in fits)
        raise ValueError(
            f"the weights of {whose} are there {len(fits)} times, each fits this model: "
            f"{places}: expected one; give the one that you want alone"
        )
    # Else the one that shares most names, to say what is wrong with it.
    nearest = fits[0] if fits else max(parts, key=lambda w: len(parts[w].keys() & expected[w]))
    state = parts[nearest]
    check_state(state, expected[nearest], f"{whose}, {nearest}," if nearest else whose)
    if nearest:
        log.warning("the weights of %s were taken from %s", whose, nearest)
    return state


def _parts(weights: Mapping, where: str = "", depth: int = 0) -> Iterator[tuple[str, dict]]:
    """Each state dict of a file's content by its place, such as ``teacher/module.backbone.``."""
    tensors = {
        name: value
        for name, value in weights.items()
        if isinstance(name, str) and isinstance(value, Tensor)
    }
    if tensors or not (weights or where):
        yield from _behind_names(tensors, where, depth)
    for name, value in weights.items() if depth < DEEPEST else ():
        inside = own_state(value) if isinstance(value, nn.Module) else value
        if isinstance(name, str) and isinstance(inside, Mapping):
            yield from _parts(inside, f"{where}{name}/", depth + 1)


def _behind_names(tensors: dict, where: str, depth: int) -> Iterator[tuple[str, dict]]:
    """These tensors, and those whose names begin with the same word, without it."""
    begin = f"{AROUND}."
    plain = {
        name.replace(f"{COMPILED}.", "").replace(f".{begin}", "."): tensor
        for name, tensor in tensors.items()
    }
    if len(plain) == len(tensors):  # else one name would hide another
        tensors = plain
    # All or none: what DataParallel wraps has nothing beside it, and torch's mean only its count.
    counted = tensors.keys() - {"n_averaged"}
    while counted and all(name.startswith(begin) for name in counted):
        tensors = {name.removeprefix(begin): tensors[name] for name in tensors if name in counted}
        counted, where = tensors.keys(), where + begin
    yield where, tensors
    words = dict.fromkeys(name.partition(".")[0] for name in tensors if "." in name)
    for word in words if depth < DEEPEST else ():
        if word != AROUND:
            inside = {
                name.removeprefix(f"{word}."): tensor
                for name, tensor in tensors.items()
                if name.startswith(f"{word}.")
            }
            yield from _behind_names(inside, f"{where}{word}.", depth + 1)


def _place(name: str, names: Names) -> tuple[str, str]:
    """Their name for ours, and the layout."""
    for pattern, theirs, layout in names:
        if re.match(pattern, name):
            return re.sub(pattern, theirs, name), layout
    return name, ""


def _rearrange(tensor: Tensor, layout: str, sizes: dict[str, int]) -> Tensor:
    if not layout:
        return tensor
    return rearrange(tensor, layout, **{axis: n for axis, n in sizes.items() if axis in layout})
