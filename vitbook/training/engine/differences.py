"""In which fields two nested dictionaries differ."""

from collections.abc import Iterator, Mapping
from typing import Any


def differences(ours: Mapping, theirs: Mapping) -> Iterator[tuple[str, Any, Any]]:
    """Field by field, "recipe.epochs" for one inside another; None where one has none.

    Yields:
        Name of a field, its value in ``ours``, and in ``theirs``.
    """
    for name in dict.fromkeys([*ours, *theirs]):
        own, other = ours.get(name), theirs.get(name)
        if isinstance(own, Mapping) and isinstance(other, Mapping):
            yield from ((f"{name}.{inner}", *both) for inner, *both in differences(own, other))
        elif own != other:
            yield name, own, other
