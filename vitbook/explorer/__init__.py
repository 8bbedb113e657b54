"""Interactive figures that need no kernel: one ES module each, and the Python that feeds it."""

from vitbook.explorer.alike import alike_patches
from vitbook.explorer.answers import soft_answers
from vitbook.explorer.budgets import frontier
from vitbook.explorer.channels import channel_browser
from vitbook.explorer.cuts import cutting_board
from vitbook.explorer.deletion import deletion_curves
from vitbook.explorer.designs import design_counter
from vitbook.explorer.distance import distance_meter
from vitbook.explorer.figure import Figure
from vitbook.explorer.flow import data_flow
from vitbook.explorer.footprint import token_footprint
from vitbook.explorer.gallery import attention
from vitbook.explorer.hearing import hearing_map
from vitbook.explorer.ladder import layer_gradients
from vitbook.explorer.locality import locality_dial
from vitbook.explorer.lookup import soft_lookup
from vitbook.explorer.maps import attention_maps
from vitbook.explorer.masked import masked_photograph
from vitbook.explorer.photos import photo_reader
from vitbook.explorer.quarters import missing_quarters
from vitbook.explorer.ranking import Candidate, checkpoint_ranking
from vitbook.explorer.reader import digit_reader
from vitbook.explorer.rollout import rollout_map
from vitbook.explorer.rounding import rounding_grid
from vitbook.explorer.shift import shift_meter
from vitbook.explorer.shuffle import patch_shuffle
from vitbook.explorer.waves import place_waves
from vitbook.explorer.widget import panel

__all__ = [
    "Candidate",
    "Figure",
    "alike_patches",
    "attention",
    "attention_maps",
    "channel_browser",
    "checkpoint_ranking",
    "cutting_board",
    "data_flow",
    "deletion_curves",
    "design_counter",
    "digit_reader",
    "distance_meter",
    "frontier",
    "hearing_map",
    "layer_gradients",
    "locality_dial",
    "masked_photograph",
    "missing_quarters",
    "panel",
    "patch_shuffle",
    "photo_reader",
    "place_waves",
    "rollout_map",
    "rounding_grid",
    "shift_meter",
    "soft_answers",
    "soft_lookup",
    "token_footprint",
]
