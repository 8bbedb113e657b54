"""Packages that not everybody needs: where one is missing, what to install."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingPackageError(ModuleNotFoundError):
    """A package of an extra is not installed; the message says how to install it."""


@contextmanager
def from_extra(name: str) -> Iterator[None]:
    """Around imports that an extra of ``pyproject.toml`` brings.

    Raises:
        MissingPackageError: one of them is not installed.
    """
    try:
        yield
    except MissingPackageError:  # an inner one names its own extra
        raise
    except ModuleNotFoundError as error:
        missing = (error.name or str(error)).partition(".")[0]
        raise MissingPackageError(
            f'{missing} is not installed: pip install "vitbook[{name}]"', name=error.name
        ) from error
