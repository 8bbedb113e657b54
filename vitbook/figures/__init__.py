"""Live figures, which need no kernel: one folder each, and `parts`, which two or more share.

In a figure's folder `__init__.py` checks and prepares data, `figure.js` draws and answers the
reader, `figure.css` is its style. A drawing exists once, in JavaScript: a build runs it for the
picture that a page shows first, but for the two figures that decode photographs. Still plots do
not belong here (`plots`), nor does what computes anything about a model (`analysis`).
"""

from vitbook.figures.alike_patches import alike_patches
from vitbook.figures.attention_gallery import attention_gallery
from vitbook.figures.attention_maps import attention_maps
from vitbook.figures.block_parts import block_parts
from vitbook.figures.block_slider import block_slider
from vitbook.figures.checkpoint_ranking import Candidate, checkpoint_ranking
from vitbook.figures.cutting_board import cutting_board
from vitbook.figures.data_flow import data_flow
from vitbook.figures.deletion_curves import deletion_curves
from vitbook.figures.design_counter import design_counter
from vitbook.figures.digit_reader import digit_reader
from vitbook.figures.distance_meter import distance_meter
from vitbook.figures.frontier import frontier
from vitbook.figures.hearing_map import hearing_map
from vitbook.figures.label_cloud import label_cloud
from vitbook.figures.layer_gradients import layer_gradients
from vitbook.figures.learn import learn
from vitbook.figures.locality_dial import locality_dial
from vitbook.figures.mask_painter import mask_painter
from vitbook.figures.masked_photograph import masked_photograph
from vitbook.figures.panel import panel
from vitbook.figures.parts.figure import Figure
from vitbook.figures.patch_shuffle import patch_shuffle
from vitbook.figures.photo_reader import photo_reader
from vitbook.figures.place_waves import place_waves
from vitbook.figures.rollout_map import rollout_map
from vitbook.figures.rounding_grid import rounding_grid
from vitbook.figures.set_of_answers import set_of_answers
from vitbook.figures.soft_answers import soft_answers
from vitbook.figures.soft_lookup import soft_lookup
from vitbook.figures.swapped_tokens import swapped_tokens
from vitbook.figures.token_footprint import token_footprint
from vitbook.figures.token_packer import token_packer
from vitbook.figures.window_reach import window_reach

__all__ = [
    "Candidate",
    "Figure",
    "alike_patches",
    "attention_gallery",
    "attention_maps",
    "block_parts",
    "block_slider",
    "checkpoint_ranking",
    "cutting_board",
    "data_flow",
    "deletion_curves",
    "design_counter",
    "digit_reader",
    "distance_meter",
    "frontier",
    "hearing_map",
    "label_cloud",
    "layer_gradients",
    "learn",
    "locality_dial",
    "mask_painter",
    "masked_photograph",
    "panel",
    "patch_shuffle",
    "photo_reader",
    "place_waves",
    "rollout_map",
    "rounding_grid",
    "set_of_answers",
    "soft_answers",
    "soft_lookup",
    "swapped_tokens",
    "token_footprint",
    "token_packer",
    "window_reach",
]
