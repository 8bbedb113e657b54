"""Rows to Parquet files, in the layout that ``shards`` reads."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from vitbook.datasets.stored.shards import Packed, Row
from vitbook.extras import from_extra
from vitbook.files import writing

with from_extra("data"):
    import pyarrow as pa
    import pyarrow.parquet as pq

_SCHEMA = pa.schema(
    [
        ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        ("label", pa.int64()),
    ]
)
_GROUP = 1000  # rows that are compressed and read together


class ShardWriter:
    """One Parquet file, written group by group; the same rows make the same bytes."""

    def __init__(self, path: Path, class_names: Sequence[str], packed: Packed | None = None):
        label = {"names": list(class_names), "_type": "ClassLabel"}
        about = {"info": {"features": {"image": {"_type": "Image"}, "label": label}}}
        metadata = {"huggingface": json.dumps(about)}
        if packed is not None:
            metadata["vitbook"] = json.dumps(asdict(packed))
        self.path = path
        with writing(self.path):
            self._file = pa.OSFile(str(path), "wb")
            self._parquet = pq.ParquetWriter(
                self._file,
                _SCHEMA.with_metadata(metadata),
                compression="zstd",
                use_dictionary=False,  # no two images are the same
                write_statistics=["label"],
                write_page_checksum=True,  # a flipped bit is found when it is read
            )

    @property
    def num_bytes(self) -> int:
        """Written so far; the footer adds little to it."""
        return self._file.tell()

    def write(self, rows: Sequence[Row]) -> None:
        images = [{"bytes": row.encoded, "path": row.path} for row in rows]
        with writing(self.path):
            self._parquet.write_batch(
                pa.record_batch([images, [row.label for row in rows]], schema=_SCHEMA)
            )

    def close(self) -> None:
        with writing(self.path):
            self._parquet.close()
            self._file.close()


def write_shard(path: Path, rows: Sequence[Row], class_names: Sequence[str]) -> None:
    """All rows as one file."""
    writer = ShardWriter(path, class_names)
    for start in range(0, len(rows), _GROUP):
        writer.write(rows[start : start + _GROUP])
    writer.close()
