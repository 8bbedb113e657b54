"""Tables of tokens by tokens that no softmax in sight has made: what they are."""

import re
from typing import Any
from weakref import ReferenceType

import torch
from einops import rearrange
from torch import Tensor, nn

EINSUM = re.compile(r"(\w{3,}),(\w{3,})->(\w{3,})")


def holds(marked: dict[int, ReferenceType[Tensor]], tensor: Any) -> bool:
    known = marked.get(id(tensor)) if isinstance(tensor, Tensor) else None
    return known is not None and known() is tensor


def is_learned(tensor: Any) -> bool:
    """A parameter or a view of one: its product is no score of a query and a key."""
    return isinstance(tensor, nn.Parameter) or isinstance(
        getattr(tensor, "_base", None), nn.Parameter
    )


def rows_of(table: Tensor) -> str:
    """ "weights", if each row adds to one and none is negative; "one" where each is one entry."""
    rows = table.detach().float()
    if torch.compiler.is_compiling() or (rows < 0).any():
        return "others"
    near = 1e-2 if table.dtype in (torch.float16, torch.bfloat16) else 1e-4
    if not ((rows.sum(-1) - 1).abs() < near).all():
        return "others"
    return "one" if (rows.amax(-1) == 1).all() else "weights"


def as_product(given: list) -> list:
    """The table and the values, keys next to last, of an einsum that is such a product."""
    equation, *operands = given
    found = EINSUM.fullmatch(str(equation).replace(" ", ""))
    if found is None or len(operands) != 2 or not all(isinstance(x, Tensor) for x in operands):
        return []
    for one, other in ((0, 1), (1, 0)):
        *lead, query, key = found[one + 1]
        width = set(found[other + 1]) - {*lead, query, key}
        fits = set(found[other + 1]) == {*lead, key, *width}
        if fits and len(width) == 1 and found[3] == "".join([*lead, query, *width]):
            order = " ".join(found[other + 1]), " ".join([*lead, key, *width])
            return [operands[one], rearrange(operands[other], " -> ".join(order))]
    return []
