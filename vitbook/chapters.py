"""Chapters without the pretrained weights: what needs them is left out, in one sentence."""

import ast
import symtable
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
        lost = sorted(name for name in _read(cell) if isinstance(self.names.get(name), NotHere))
        if not lost:
            return cell
        lines = [ast.unparse(node) for node in cell.body if isinstance(node, _IMPORTS)]
        lines += [f"{name} = {lost[0]}" for name in sorted(_made(cell) - set(lost))]
        lines.append("print('Left out: it needs the pretrained weights.')")
        return ast.parse("\n".join(lines))


_IMPORTS = (ast.Import, ast.ImportFrom)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _read(cell: ast.Module) -> set[str]:
    """Names that a cell takes from the cells before, and does not give itself first."""
    return _read_in(cell.body, set())


def _read_in(statements: list[ast.stmt], given: set[str]) -> set[str]:
    """The same of statements in their order; what they give is added to ``given``."""
    read: set[str] = set()
    for statement in statements:
        parts: list[ast.AST] = [statement]
        blocks: list[list[ast.stmt]] = []
        bound: set[str] = set()
        if isinstance(statement, ast.For):
            parts, blocks = [statement.iter], [statement.body, statement.orelse]
            bound = _made(statement.target)
        elif isinstance(statement, ast.With):
            parts, blocks = [item.context_expr for item in statement.items], [statement.body]
            targets = [item.optional_vars for item in statement.items if item.optional_vars]
            bound = set().union(*map(_made, targets))
        elif isinstance(statement, ast.If | ast.While):
            parts, blocks = [statement.test], [statement.body, statement.orelse]
        for part in parts:
            read |= _free(symtable.symtable(ast.unparse(part), "cell", "exec")) - given
        given |= bound
        for block in blocks:
            read |= _read_in(block, given)
        given |= _made(statement)
    return read


def _free(table: symtable.SymbolTable) -> set[str]:
    """Names that are looked up outside of every function, argument and comprehension."""
    top = table.get_type() == "module"
    own = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (top or symbol.is_global())
    }
    return own.union(*map(_free, table.get_children()))


def _made(tree: ast.AST) -> set[str]:
    """Names that a cell or a part of it gives, or whose parts it writes."""
    body = getattr(tree, "body", None)
    outer = [tree, *(body if isinstance(body, list) else ())]
    made = {node.name for node in outer if isinstance(node, _DEFINITIONS)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Subscript | ast.Attribute):
            if isinstance(node.ctx, ast.Store):
                while isinstance(node, ast.Subscript | ast.Attribute):
                    node = node.value
                if isinstance(node, ast.Name):
                    made.add(node.id)
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            made.add(node.name)
    return made
