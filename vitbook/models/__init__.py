"""Models, one paper a file, the catalogue of their names, and weights of others.

A file puts a paper's network together from `layers` and has the table of its sizes. Parts belong
in `layers`, how a model is trained in `training`, what it attends to in `analysis`. `catalog` is
the one place where a name becomes a model.
"""

from vitbook.models.catalog import (
    ModelSpec,
    create_model,
    default_image_size,
    list_models,
)
from vitbook.models.editing import initialize, set_dropout, set_stochastic_depth
from vitbook.models.papers.vit import VisionTransformer
from vitbook.models.resizing import change_input

__all__ = [
    "ModelSpec",
    "VisionTransformer",
    "change_input",
    "create_model",
    "default_image_size",
    "initialize",
    "list_models",
    "set_dropout",
    "set_stochastic_depth",
]
