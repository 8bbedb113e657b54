"""Rows to Parquet files, in the layout that ``shards`` reads."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from vitbook.datasets.shards import Packed, Row
from vitbook.files import could_not_write

_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write_shard(
    path: Path, rows: Sequence[Row], class_names: Sequence[str], packed: Packed | None = None
) -> None:
    """The same rows give the same bytes, from one version of pyarrow.

    Raises:
        OSError: the disk is full or the folder not writable.
    """
    about = {
        "features": {
            "image": {"_type": "Image"},
            "label": {"names": list(class_names), "_type": "ClassLabel"},
        }
    }
    metadata = {"huggingface": json.dumps({"info": about})}
    if packed is not None:
        metadata["vitbook"] = json.dumps(asdict(packed))
    table = pa.table(
        {
            "image": pa.array([{"bytes": r.encoded, "path": r.path} for r in rows], type=_IMAGE),
            "label": pa.array([row.label for row in rows], type=pa.int64()),
        },
        metadata=metadata,
    )
    try:
        pq.write_table(
            table,
            path,
            row_group_size=1000,
            compression="zstd",
            use_dictionary=False,  # no two pictures are the same
            write_statistics=["label"],
        )
    except OSError as error:
        raise could_not_write(path, table.nbytes, error) from error
