"""Mistakes by name. Nothing takes from a study, so the one that plants them is found by looking."""

from functools import cache, partial
from importlib import import_module
from types import ModuleType

from torch import nn

from vitbook.files import modules_saying
from vitbook.runs import Recipe
from vitbook.training.engine import checkpoints


@cache
def _study() -> ModuleType:
    if names := modules_saying("vitbook.studies", "\nFAULTS"):
        return import_module(names[0])
    raise LookupError("no study of vitbook.studies plants faults: leave the fault out")


def check_fault(recipe: Recipe) -> None:
    """Refuse a fault that no study knows, or that would change nothing."""
    if recipe.fault:
        _study().check_fault(recipe)


def plant(model: nn.Module, fault: str) -> None:
    """Plant a mistake into a model, in place."""
    _study().plant(model, fault)


load_checkpoint = partial(checkpoints.load_checkpoint, plant=plant)
