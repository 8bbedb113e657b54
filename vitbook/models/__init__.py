"""Models, one paper a file, and the catalogue of their names."""

from vitbook.models.catalog import (
    ModelSpec,
    create_model,
    default_image_size,
    list_models,
)
from vitbook.models.dropout import set_dropout
from vitbook.models.faults import plant
from vitbook.models.initialization import initialize
from vitbook.models.stochastic_depth import set_stochastic_depth
from vitbook.models.vit import VisionTransformer

__all__ = [
    "ModelSpec",
    "VisionTransformer",
    "create_model",
    "default_image_size",
    "initialize",
    "list_models",
    "plant",
    "set_dropout",
    "set_stochastic_depth",
]
