"""Still figures: each takes results, never a model, and returns a figure whose title is a claim.

What computes belongs in `analysis`; what a reader can move, in `figures`.
"""

from vitbook.extras import from_extra

with from_extra("chapters"):
    from vitbook.plots.ablation import ablated_heads
    from vitbook.plots.approximation import accuracy_and_error
    from vitbook.plots.channels import TWO_SIDED, channel_lines
    from vitbook.plots.costs import accuracy_against_cost
    from vitbook.plots.curves import distance_by_layer, lines
    from vitbook.plots.grids import score_grids
    from vitbook.plots.heads import head_sheet
    from vitbook.plots.images import (
        heat_maps,
        image_grid,
        likeness,
        maps_beside_images,
        photo_and_maps,
    )
    from vitbook.plots.offsets import offset_profiles, offset_sheet, stacked_shares
    from vitbook.plots.scores import intervals, leads
    from vitbook.plots.trend_lines import trends

__all__ = [
    "TWO_SIDED",
    "ablated_heads",
    "accuracy_against_cost",
    "accuracy_and_error",
    "channel_lines",
    "distance_by_layer",
    "head_sheet",
    "heat_maps",
    "image_grid",
    "intervals",
    "leads",
    "likeness",
    "lines",
    "maps_beside_images",
    "offset_profiles",
    "offset_sheet",
    "photo_and_maps",
    "score_grids",
    "stacked_shares",
    "trends",
]
