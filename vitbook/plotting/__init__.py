"""Still figures: each takes results, never a model, and returns a figure whose title is a claim.

What computes belongs in `analysis`; what a reader can move, in `figures`.
"""

from vitbook.extras import from_extra

with from_extra("chapters"):
    from vitbook.plotting.ablation import ablated_heads
    from vitbook.plotting.approximation import accuracy_and_error
    from vitbook.plotting.channels import TWO_SIDED, channel_lines
    from vitbook.plotting.costs import accuracy_against_cost
    from vitbook.plotting.curves import distance_by_layer, lines
    from vitbook.plotting.diagrams import projections, residual_block
    from vitbook.plotting.grids import score_grids
    from vitbook.plotting.heads import head_sheet
    from vitbook.plotting.images import (
        heat_maps,
        image_grid,
        likeness,
        maps_beside_images,
        photo_and_maps,
    )
    from vitbook.plotting.offsets import offset_profiles, offset_sheet, stacked_shares
    from vitbook.plotting.scores import intervals, leads
    from vitbook.plotting.trend_lines import trends

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
    "projections",
    "residual_block",
    "score_grids",
    "stacked_shares",
    "trends",
]
