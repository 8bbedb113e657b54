"""Pyramids: maps as colours, what a fine map costs, and six models that learned in equal steps."""

from vitbook.studies.pyramids.claims import evidence
from vitbook.studies.pyramids.costs import costs_by_size, narrow_in_windows, numbers, small_models
from vitbook.studies.pyramids.maps import as_colors, pictures
from vitbook.studies.pyramids.outcome import (
    ROLES,
    Learned,
    learned,
    with_class_token,
)

__all__ = [
    "ROLES",
    "Learned",
    "as_colors",
    "costs_by_size",
    "evidence",
    "learned",
    "narrow_in_windows",
    "numbers",
    "pictures",
    "small_models",
    "with_class_token",
]
