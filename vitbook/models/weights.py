"""Loading weights that have other names: rules as data, one engine, one check."""

import re
from collections.abc import Mapping

import torch
from einops import rearrange
from torch import Tensor, nn

from vitbook.errors import first_few
from vitbook.models.weight_names import Names

# Under which names training scripts put the weights into their files; the averaged ones first.
WRAPPERS = ("state_dict_ema", "model_ema", "model_state_dict", "state_dict", "model")


@torch.no_grad()
def load_renamed(
    model: nn.Module, weights: Mapping, names: Names, whose: str, optional: str | None = None
) -> nn.Module:
    """Copy weights with other names and layouts into ``model``, all of them or none.

    Args:
        weights: the state dict, or the file's content that has it under one of ``WRAPPERS``.
        names: rules of :mod:`vitbook.models.weight_names`.
        whose: the owner of the weights, for the message.
        optional: parameters of ours whose name begins so keep their values if ``weights`` has
            none of them.

    Returns:
        ``model``, with the weights in it.

    Raises:
        ValueError: as :func:`check_state`.
        TypeError: something that is no state dict came.
    """
    given = _unwrap(weights)
    own = model.state_dict()
    # Each prefix token is a parameter of its own elsewhere.
    prefix = own.pop("prefix", ())
    own |= {f"prefix.{number}": token for number, token in enumerate(prefix)}
    places = {name: _place(name, names) for name in own}
    if optional is not None:
        mine = [name for name in places if name.startswith(optional)]
        if not any(places[name][0] in given for name in mine):
            places = {name: place for name, place in places.items() if name not in mine}
    patch = getattr(getattr(model, "tokenizer", None), "patch", ())
    sizes = dict(zip("pq", patch, strict=False))
    expected = {
        theirs: _rearrange(own[name], layout, sizes) for name, (theirs, layout) in places.items()
    }
    check_state(given, expected, whose)
    if any(tensor.is_meta for tensor in own.values()):
        raise ValueError("the model is on meta, where there is no memory: model.to_empty first")
    state = {
        name: _rearrange(given[theirs], " -> ".join(reversed(layout.split(" -> "))), sizes)
        for name, (theirs, layout) in places.items()
    }
    if len(prefix):
        state["prefix"] = torch.stack([state.pop(f"prefix.{n}") for n in range(len(prefix))])
    model.load_state_dict(state, strict=optional is None)
    return model


def check_state(given: Mapping[str, Tensor], expected: Mapping[str, Tensor], whose: str) -> None:
    """Refuse weights that do not fit, in one sentence, before anything is copied.

    Args:
        given: the weights.
        expected: tensors of the same names, shapes and kinds.
        whose: the owner of the weights, for the message.

    Raises:
        ValueError: tensors are missing, left over, of another shape or kind, or not finite.
    """
    both = {name: (given[name], own) for name, own in expected.items() if name in given}
    faults = {
        "missing": [name for name in expected if name not in given],
        "unexpected": [name for name in given if name not in expected],
        "of another shape": [
            f"{name} {tuple(theirs.shape)} where {tuple(own.shape)} fits"
            for name, (theirs, own) in both.items()
            if theirs.shape != own.shape
        ],
        "of another kind": [
            f"{name} {theirs.dtype} where {own.dtype} fits"
            for name, (theirs, own) in both.items()
            if theirs.is_floating_point() != own.is_floating_point()
        ],
        "without numbers, on meta": [name for name in both if given[name].is_meta],
        "NaN or infinite": [
            name
            for name, (theirs, _) in both.items()
            if theirs.dtype.is_floating_point and not theirs.is_meta
            if not theirs.isfinite().all()
        ],
    }
    found = [f"{fault}: {first_few(names)}" for fault, names in faults.items() if names]
    if found:
        raise ValueError(
            f"the weights of {whose} do not fit this model: {'; '.join(found)}. Build the "
            "model with the name, image_size, num_classes and channels that they were made for"
        )


def _unwrap(weights: Mapping) -> dict[str, Tensor]:
    """The state dict alone: out of the file's other content, without DataParallel's prefix."""
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"weights are {type(weights).__name__}: expected a state dict; torch.load(path, "
            "weights_only=True) reads a file, model.state_dict() a model"
        )
    for wrapper in WRAPPERS:
        if isinstance(weights.get(wrapper), Mapping):
            weights = weights[wrapper]
            break
    for name, value in weights.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise TypeError(
                f"{name} of the weights is {type(value).__name__}, no tensor with a name: expected "
                f"a state dict, or a file's content that has one under {', '.join(WRAPPERS)}"
            )
    # All or none: a name with the prefix could otherwise hide the same one without.
    prefix = "module." if all(name.startswith("module.") for name in weights) else ""
    return {name.removeprefix(prefix): tensor for name, tensor in weights.items()}


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
