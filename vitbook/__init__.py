"""Vision Transformers, built, trained and looked into."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vitbook.models import create_model, list_models

if TYPE_CHECKING:
    from vitbook.models.weights.pretrained import load_pretrained
    from vitbook.training import load_checkpoint

__all__ = ["__version__", "create_model", "list_models", "load_checkpoint", "load_pretrained"]
__version__ = "0.3.0"
# Found on first use: training and drawing take seconds to import, and probing needs neither.
_ROOMS = {
    *("analysis", "datasets", "export", "figures", "layers", "measure", "plots"),
    *("published_counts", "runs", "training"),
}
_FUNCTIONS = {
    "load_checkpoint": "vitbook.training",
    "load_pretrained": "vitbook.models.weights.pretrained",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"vitbook.{name}")
    if name in _FUNCTIONS:
        return getattr(import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"module 'vitbook' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_FUNCTIONS})
