"""The ledger: every number that the book did not compute in a cell, with its provenance.

A row is a small JSON file that is read strictly. Here rows are written, read, asked for and
compared; what makes them belongs in `training` and `cli`, what draws them in `plots`.
"""

from vitbook.results.gains import Gain, gain
from vitbook.results.ledger import (
    check_place,
    data_folder,
    measurements,
    published,
    read,
    read_all,
    read_row,
    record,
)
from vitbook.results.provenance import (
    WIDE_VECTORS,
    command,
    commit,
    device_name,
    made_on,
    versions,
)
from vitbook.results.rows import (
    LedgerError,
    Measurement,
    Result,
    experiment_run_name,
    run_name,
)
from vitbook.results.tables import accuracy_of, table

__all__ = [
    "WIDE_VECTORS",
    "Gain",
    "LedgerError",
    "Measurement",
    "Result",
    "accuracy_of",
    "check_place",
    "command",
    "commit",
    "data_folder",
    "device_name",
    "experiment_run_name",
    "gain",
    "made_on",
    "measurements",
    "published",
    "read",
    "read_all",
    "read_row",
    "record",
    "run_name",
    "table",
    "versions",
]
