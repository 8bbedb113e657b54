"""What the chapter that builds a Vision Transformer draws, claims and measures."""

from vitbook.studies.vit.drawings import patch_row, whole
from vitbook.studies.vit.measures import eyes, grid_trend, looks, older

__all__ = ["eyes", "grid_trend", "looks", "older", "patch_row", "whole"]
