"""What the chapter on positions claims, draws and measures."""

from vitbook.studies.positions.claims import carried, evidence, gains
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
    "gains",
    "mirrors",
    "positions_read",
    "resolutions",
    "share_read",
    "similarities",
    "sinusoids",
    "tiles",
]
