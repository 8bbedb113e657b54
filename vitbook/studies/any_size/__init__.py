"""What the chapter on any size shows: other patches, rectangles, packed sequences."""

from vitbook.studies.any_size.claims import (
    band,
    behind,
    chances,
    empty,
    evidence,
    kept,
    learned,
    looked,
    numbers,
    row_of,
)
from vitbook.studies.any_size.measured import picture_kernel
from vitbook.studies.any_size.packing import (
    block_mask,
    embed_any,
    first_fit,
    packed_features,
)
from vitbook.studies.any_size.rectangles import to_size

__all__ = [
    "band",
    "behind",
    "block_mask",
    "chances",
    "embed_any",
    "empty",
    "evidence",
    "first_fit",
    "kept",
    "learned",
    "looked",
    "numbers",
    "packed_features",
    "picture_kernel",
    "row_of",
    "to_size",
]
