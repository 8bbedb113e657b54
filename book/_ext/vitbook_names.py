"""The public names of the library: what a package names in ``__all__``, and where it is defined."""

import ast
import inspect
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import vitbook


@dataclass(frozen=True)
class Name:
    """A public name of a package, and the line that defines it."""

    package: str
    name: str
    home: str
    line: int

    @property
    def path(self) -> str:
        return f"{self.package}.{self.name}"

    @property
    def entry(self) -> str:
        """The path that the reference has it under: what the top of the library has is there."""
        top = self.name in vitbook.__all__ and self.value is getattr(vitbook, self.name)
        return f"vitbook.{self.name}" if top else self.path

    @property
    def value(self) -> object:
        return getattr(import_module(self.package), self.name)


def rooms() -> list[str]:
    """The library and its packages, all that have a face."""
    inside = [f"vitbook.{module.name}" for module in pkgutil.iter_modules(vitbook.__path__)]
    return ["vitbook"] + [room for room in inside if hasattr(import_module(room), "__all__")]


def public_names(package: str) -> list[Name]:
    """The names of ``__all__``, by file, and in each as its lines are; ``__version__`` last.

    Of a file without one: the functions and classes with docstrings that its package has not.
    """
    module = import_module(package)
    parts = package.split(".")
    parents = [import_module(".".join(parts[:end])) for end in range(1, len(parts))]
    above = {name for parent in parents for name in getattr(parent, "__all__", ())}
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if inspect.isroutine(value) or inspect.isclass(value)
        if value.__module__ == package and value.__doc__
        if not name.startswith("_") and name not in above
    ]
    homes = {name: _home(package, name) for name in names}
    found = [Name(package, name, home, _lines(home)[name]) for name, home in homes.items()]
    return sorted(found, key=lambda one: (one.name[:2] == "__", one.home, one.line))


@cache
def defined_names() -> frozenset[str]:
    """What the files of the library define, public or not."""
    files = [module.name for module in pkgutil.walk_packages(vitbook.__path__, "vitbook.")]
    return frozenset(name for file in files for name in _lines(file))


def _home(module: str, name: str) -> str:
    """The file that defines a name, whatever packages pass it on."""
    if name in _lines(module):
        return module
    imports = (node for node in ast.walk(_tree(module)) if isinstance(node, ast.ImportFrom))
    came = (node.module for node in imports for alias in node.names if alias.name == name)
    return _home(next(came), name)


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(Path(find_spec(module).origin).read_text(encoding="utf-8"))


@cache
def _lines(module: str) -> dict[str, int]:
    """What a file defines -> its line."""
    found = {}
    for node in _tree(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {part.id: node.lineno for part in targets if isinstance(part, ast.Name)}
    return found
