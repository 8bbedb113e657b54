"""What was to be run, what was, and what it shows: recipes, plan, ledger, provenance, comparison.

A row is a small JSON file that is read strictly. Here recipes are made, runs planned, rows written,
read, asked for and compared; what makes a run belongs in `training` and `cli`, what draws it in
`plots`.
"""

from vitbook.files import data_folder
from vitbook.runs.comparison import Gain, gain
from vitbook.runs.ledger import (
    check_place,
    measurements,
    published,
    read,
    read_all,
    read_row,
    record,
)
from vitbook.runs.plan import Experiment, ExperimentError, read_experiments
from vitbook.runs.planned_run import PlannedRun
from vitbook.runs.provenance import (
    command,
    commit,
    device_name,
    made_on,
    versions,
)
from vitbook.runs.recipe import Recipe
from vitbook.runs.recipes import RECIPES, get_recipe
from vitbook.runs.rows import (
    LedgerError,
    Measurement,
    Result,
    experiment_run_name,
    run_name,
)
from vitbook.runs.tables import accuracy_of, table

__all__ = [
    "RECIPES",
    "Experiment",
    "ExperimentError",
    "Gain",
    "LedgerError",
    "Measurement",
    "PlannedRun",
    "Recipe",
    "Result",
    "accuracy_of",
    "check_place",
    "command",
    "commit",
    "data_folder",
    "device_name",
    "experiment_run_name",
    "gain",
    "get_recipe",
    "made_on",
    "measurements",
    "published",
    "read",
    "read_all",
    "read_experiments",
    "read_row",
    "record",
    "run_name",
    "table",
    "versions",
]
