"""Reading a pickle of plain values and arrays without running anything that it names.

A pickle is a program: it may ask for any function by name and call it. This reader answers four
names, none of them with the function asked for, and refuses all others:

    numpy.core.multiarray._reconstruct, numpy._core.multiarray._reconstruct (numpy 2),
    numpy.ndarray, numpy.dtype

torchvision's reader of CIFAR unpacks the archive to the disk and lets pickle call what it names.
"""

import io
import pickle

import numpy as np

from vitbook.datasets.dataset import DatasetError


class _Type:
    """Stands where the pickle says ``dtype("u1")``."""

    def __init__(self, code="", *_):
        self.code = code.decode() if isinstance(code, bytes) else code

    def __setstate__(self, state):
        pass  # the byte order, of which a uint8 has none


class _Array:
    """Stands where the pickle says ``ndarray``; begun empty, then given its state."""

    def __init__(self, *_):
        self.values = None

    def __setstate__(self, state):
        _, shape, kind, in_fortran_order, content = state
        if kind.code != "u1" or in_fortran_order:
            raise ValueError(f"an array of {kind.code!r}, expected uint8 in rows")
        self.values = np.frombuffer(content, np.uint8).reshape(shape)


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
}


class _RefusedError(Exception):
    pass


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) not in _STAND_INS:
            raise _RefusedError(f"{module}.{name}")
        return _STAND_INS[module, name]


def read_pickle(content: bytes, name: str) -> dict:
    """A dictionary of plain values and uint8 arrays; text of Python 2 comes as ``bytes``.

    Args:
        name: of the file, for the message.

    Raises:
        DatasetError: the pickle asks for any other function or class, which is not called; or
            it is damaged, or holds something else.
    """
    try:
        found = _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(found, dict):
            raise ValueError(f"a {type(found).__name__}, expected a dictionary")
    except _RefusedError as error:
        raise DatasetError(
            f"{name} is refused, nothing of it was run: it asks for {error}, expected plain values "
            "and numpy arrays only; fetch the archive from its official address"
        ) from None
    except Exception as error:  # a damaged pickle fails in any way at all
        raise DatasetError(
            f"{name} is a damaged or unexpected pickle ({error}): fetch the archive again"
        ) from error
    return {
        key: value.values if isinstance(value, _Array) else value for key, value in found.items()
    }
