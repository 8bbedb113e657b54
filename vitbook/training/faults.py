"""Mistakes by name. Nothing takes from a study, so the one that plants them is found by looking."""

from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from torch import nn

from vitbook import training
from vitbook.runs import Recipe


@cache
def _study() -> ModuleType:
    studies = import_module("vitbook.studies")
    for each in iter_modules(studies.__path__, f"{studies.__name__}."):
        if hasattr(study := import_module(each.name), "FAULTS"):
            return study
    raise LookupError("no study of vitbook.studies plants faults: leave the fault out")


def check_fault(recipe: Recipe) -> None:
    """Refuse a fault that no study knows, or that would change nothing."""
    if recipe.fault:
        _study().check_fault(recipe)


def plant(model: nn.Module, fault: str) -> None:
    """Plant a mistake into a model, in place."""
    _study().plant(model, fault)


load_checkpoint = partial(training.load_checkpoint, plant=plant)
