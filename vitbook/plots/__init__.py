"""Still figures: each takes results, never a model, and returns a figure whose title is a claim.

What computes belongs in `analysis`; what a reader can move, in `figures`.
"""

from vitbook.extras import from_extra

with from_extra("chapters"):
    from vitbook.plots.curves import distance_by_layer, lines
    from vitbook.plots.diagram import Diagram
    from vitbook.plots.heads import head_sheet
    from vitbook.plots.images import (
        heat_maps,
        image_grid,
        maps_beside_images,
        similarity_maps,
    )
    from vitbook.plots.scores import intervals
    from vitbook.plots.trend_lines import trends

__all__ = [
    "Diagram",
    "distance_by_layer",
    "head_sheet",
    "heat_maps",
    "image_grid",
    "intervals",
    "lines",
    "maps_beside_images",
    "similarity_maps",
    "trends",
]
