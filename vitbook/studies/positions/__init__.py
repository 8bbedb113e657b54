"""What the chapter on positions claims, draws and measures."""

from vitbook.studies.positions.claims import carried, evidence, read_by_kind
from vitbook.studies.positions.drawings import entries, similarities, sinusoids, tiles
from vitbook.studies.positions.measures import (
    changes,
    grey_values_read,
    mirrors,
    positions_read,
    resolutions,
    share_read,
)

__all__ = [
    "carried",
    "changes",
    "entries",
    "evidence",
    "grey_values_read",
    "mirrors",
    "positions_read",
    "read_by_kind",
    "resolutions",
    "share_read",
    "similarities",
    "sinusoids",
    "tiles",
]
