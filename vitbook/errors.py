"""What every room needs to refuse bad input in one sentence."""

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real


class UnknownNameError(KeyError):
    """A name that no catalogue holds; the message offers the nearest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        known = sorted(known)
        near = get_close_matches(str(name), known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
        super().__init__(f"unknown {kind} {name!r}: {hint}")

    def __str__(self) -> str:  # KeyError would show the quotes of a key
        return self.args[0]


def is_whole_number(value: object) -> bool:
    """An integer of Python or numpy; ``True`` is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_count(name: str, value: object) -> None:
    """Refuse what cannot say how many.

    Raises:
        ValueError: no whole number, or one below 1.
    """
    if not is_whole_number(value) or value < 1:
        raise ValueError(f"{name} {value!r}: expected a whole number, 1 or more")


def is_number(value: object) -> bool:
    """A number of Python or numpy that is no complex one; ``True`` is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_temperature(value: object, highest: float | int = float("inf")) -> None:
    """Refuse what no logits can be divided by.

    Args:
        highest: from which on nothing would be left of them.

    Raises:
        ValueError: no number, or one that is not above 0, or above the highest.
    """
    if not is_number(value) or not 0 < value <= highest or value == float("inf"):
        up_to = "and finite" if highest == float("inf") else f"up to {highest:g}"
        raise ValueError(f"temperature {value!r}: expected more than 0, {up_to}")


def first_few(names: Iterable[str], at_most: int = 5) -> str:
    """The first names and how many more there are: ``a, b and 7 more``."""
    names = list(names)
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more
