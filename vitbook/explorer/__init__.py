"""Interactive figures that need no kernel: one ES module each, and the Python that feeds it."""

from vitbook.explorer.distance import distance_meter
from vitbook.explorer.figure import Figure
from vitbook.explorer.footprint import token_footprint
from vitbook.explorer.lookup import soft_lookup
from vitbook.explorer.maps import attention_maps
from vitbook.explorer.reader import digit_reader
from vitbook.explorer.shuffle import patch_shuffle
from vitbook.explorer.widget import attention_widget

__all__ = [
    "Figure",
    "attention_maps",
    "attention_widget",
    "digit_reader",
    "distance_meter",
    "patch_shuffle",
    "soft_lookup",
    "token_footprint",
]
