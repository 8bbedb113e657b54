"""Chapters without the pretrained weights: what needs them is left out, in one sentence."""

import ast
import dis
from types import CodeType
from typing import Any

from vitbook.extras import MissingPackageError, from_extra
from vitbook.models.weights.packages import PackageError
from vitbook.models.weights.pretrained import load_pretrained

# Glued where cells are left out: what the text then lacks reads "not run" and is no mistake.
LEFT_OUT = "left-out"

_MISSING = (ConnectionError, PackageError, MissingPackageError, OSError)


class NotHere:
    """Stands for what could not be loaded, for all of its parts, and for what comes of it."""

    def __init__(self, why: str):
        self.why = why

    def __getattr__(self, name: str) -> "NotHere":
        if name.startswith("_"):  # what Python and IPython ask of every object
            raise AttributeError(name)
        return self

    def __repr__(self) -> str:
        return f"not here: {self.why}"


def pretrained(name: str, **options: Any) -> Any:
    """:func:`vitbook.load_pretrained` for a cell of a notebook, which never stops it.

    Its cell does nothing else: where the weights cannot be had, one sentence is printed and
    :class:`NotHere` returned. From then on each cell that reads it, or what such a cell would
    have made, is left out: it prints that, and in the built book a note says so below the title
    and the numbers that the text would have from it read "not run".

    Args:
        name: of the weights.
        options: of :func:`vitbook.load_pretrained`.

    Raises:
        UnknownNameError, ValueError: as there; these are mistakes.
        Exception: outside of a notebook, what :func:`vitbook.load_pretrained` raised.
    """
    try:
        return load_pretrained(name, **options)
    except _MISSING as error:
        shell = _shell()
        if shell is None:
            raise
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        print(f"{message}. The cells that need these weights are left out.")
        if not any(isinstance(each, _LeaveOut) for each in shell.ast_transformers):
            shell.ast_transformers.append(_LeaveOut(shell.user_ns))
            _tell_the_book(message)
        return NotHere(message)


def _tell_the_book(why: str) -> None:
    try:
        with from_extra("chapters"):
            from myst_nb import glue
    except MissingPackageError:  # a notebook without a book around it
        return
    glue(LEFT_OUT, why, display=False)


def _shell() -> Any:
    try:
        with from_extra("chapters"):
            from IPython import get_ipython
    except MissingPackageError:
        return None
    return get_ipython()


class _LeaveOut(ast.NodeTransformer):
    """Replaces a cell that reads something which is not here."""

    def __init__(self, names: dict[str, Any]):
        self.names = names

    def visit_Module(self, cell: ast.Module) -> ast.Module:
        code = compile(cell, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        read, made = _read_and_made(code)
        lost = sorted(name for name in read if isinstance(self.names.get(name), NotHere))
        if not lost:
            return cell
        for node in ast.walk(cell):  # what gets a new part, or loses one
            if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
                while isinstance(node, ast.Subscript | ast.Attribute):
                    node = node.value
                made |= {node.id} if isinstance(node, ast.Name) else set()
        lines = [f"{name} = {lost[0]}" for name in sorted(made - set(lost))]
        imports = (node for node in cell.body if isinstance(node, ast.Import | ast.ImportFrom))
        lines += map(ast.unparse, imports)
        lines.append("print('Left out: it needs the pretrained weights.')")
        return ast.parse("\n".join(lines))


def _read_and_made(code: CodeType) -> tuple[set[str], set[str]]:
    """Names that a cell takes from the cells before, and those that it gives.

    Bytecode stands in the order in which it runs: what is stored first is not read. What a function
    or a comprehension inside calls its own is no name of the cell.
    """
    read, made = set(), set()
    for step in dis.get_instructions(code):
        if isinstance(step.argval, CodeType):
            read |= _read_and_made(step.argval)[0] - made
        elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in made:
            read.add(step.argval)
        elif step.opname in ("STORE_NAME", "STORE_GLOBAL"):
            made.add(step.argval)
    return read, made
