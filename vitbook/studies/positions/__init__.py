"""What the chapter on positions claims, draws and measures."""

from vitbook.studies.positions.claims import carried, evidence, pixels_read
from vitbook.studies.positions.drawings import entries, similarities, sinusoids, tiles
from vitbook.studies.positions.measures import (
    changes,
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
    "mirrors",
    "pixels_read",
    "positions_read",
    "resolutions",
    "share_read",
    "similarities",
    "sinusoids",
    "tiles",
]
