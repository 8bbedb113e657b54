"""Pictures in tables: CSV or Parquet that names their paths, the Hub's Parquet that holds them."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vitbook.datasets.dataset import DatasetError
from vitbook.datasets.own.folder import LAYOUTS, SPLITS, Listing, Picture, Unread, make_listing
from vitbook.datasets.own.visit import Visit, as_text
from vitbook.datasets.stored.reading import readable_names
from vitbook.datasets.stored.shards import Shards
from vitbook.errors import first_few
from vitbook.extras import from_extra

with from_extra("data"):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

TABLES = (".csv", ".parquet")
_NEEDED = ("path", "label")


def list_table(table: Path, seed: int = 0) -> Listing:
    """The pictures of a table, in its order; none is opened.

    Args:
        table: its paths are relative to its own folder, or absolute.
        seed: draws a fifth of each class where the table has no split.
    """
    visit, splits, met = Visit(), {}, set()
    visit.note(table, "the table")
    for number, (path, label, split) in enumerate(_rows(table), start=1):
        where = f"row {number} of {table}"
        if not path or not label:
            raise DatasetError(f"{where} lacks a path or a label: expected both; mend the row")
        if path in met:
            raise DatasetError(f"{where} names {path} a second time: expected it once")
        met.add(path)
        if split.lower() not in {*SPLITS, ""}:
            raise DatasetError(
                f"{where} has the split {split!r}: expected one of {', '.join(SPLITS)}"
            )
        picture = Picture(as_text(label), as_text(path), table.parent / os.path.expanduser(path))
        splits.setdefault(SPLITS.get(split.lower(), ""), []).append(picture)
    if "" in splits and len(splits) > 1:
        raise DatasetError(
            f"{table} says no split of {len(splits['']):,} rows, and one of the others: expected "
            "one of each, or no column split"
        )
    rule = "the table's own split"
    return make_listing(table, splits or {"": []}, visit, rule, seed, as_given=True)


def list_shards(folder: Path, splits: dict[str, Shards]) -> Listing:
    """What Parquet files of the Hub's layout hold, as they are split."""
    if len(splits) < 2 or "train" not in splits:
        raise DatasetError(
            f"{folder} has Parquet files of {first_few(splits)} alone: expected train, and test or "
            "validation beside it"
        )
    visit = Visit()
    for path in sorted(folder.iterdir()):
        visit.note(path, "the folder")

    def pictures(split: str) -> Iterator[Unread]:
        for shard in splits[split].found:
            for row in shard.rows():
                yield Unread(row.path, row.label, partial(bytes, row.encoded))

    counts = {split: shards.num_rows for split, shards in splits.items()}
    names = {readable_names(shards) for shards in splits.values()}
    if len(names) > 1:
        raise DatasetError(f"{folder} names other classes in each split: expected the same")
    return Listing(names.pop(), counts, pictures, "its own split", "\n".join(visit.stamp))


def _rows(table: Path) -> list[tuple[str, str, str]]:
    """Path, label and split of each row, as text; "" of what is not there."""
    ending = table.suffix.lower()
    if ending not in TABLES:
        raise DatasetError(f"{table} is no folder and no table: expected {LAYOUTS}")
    try:
        if ending == ".csv":
            kinds = {name: pa.string() for name in (*_NEEDED, "split")}
            options = pyarrow.csv.ConvertOptions(column_types=kinds)
            read = pyarrow.csv.read_csv(table, convert_options=options)
        else:
            read = pq.read_table(table)
        lacking = [name for name in _NEEDED if name not in read.column_names]
        if lacking:
            raise DatasetError(
                f"{table} has the columns {first_few(read.column_names)}: expected path,label or "
                "path,label,split, with commas"
            )
        columns = [read[name].cast(pa.string()).to_pylist() for name in _NEEDED]
        split = read["split"].cast(pa.string()) if "split" in read.column_names else None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise DatasetError(f"{table} is no table to read ({reason}): expected {LAYOUTS}") from error
    columns.append(split.to_pylist() if split is not None else [None] * len(columns[0]))
    return [tuple(each or "" for each in row) for row in zip(*columns, strict=True)]
