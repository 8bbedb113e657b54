"""Vision Transformers, built, trained and looked into."""

from importlib import import_module
from types import ModuleType

from vitbook.models import create_model, list_models
from vitbook.training import load_checkpoint

__all__ = ["__version__", "create_model", "list_models", "load_checkpoint"]
__version__ = "0.1.0"
# Found on first use: drawing takes seconds to import, and few need it.
_ROOMS = {"analysis", "audit", "datasets", "explorer", "layers", "measure", "plotting", "results"}


def __getattr__(name: str) -> ModuleType:
    if name in _ROOMS:
        return import_module(f"vitbook.{name}")
    raise AttributeError(f"module 'vitbook' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
