"""What was to be run, what was, and what it shows: recipes, plan, ledger, provenance, comparison.

A row is a small JSON file that is read strictly. Here recipes are made, runs planned, rows written,
read, asked for and compared; what makes a run belongs in `training` and `cli`, what draws it in
`plots`.
"""

from vitbook.files import data_folder
from vitbook.runs.comparison import Comparison, compare
from vitbook.runs.evidence import Claim, Evidence, Table, not_run, printed, reported, select
from vitbook.runs.ledger import (
    check_place,
    measurements,
    published,
    read,
    read_all,
    read_row,
    record,
)
from vitbook.runs.plan import (
    Experiment,
    ExperimentError,
    answers,
    get_experiment,
    read_experiments,
)
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
from vitbook.runs.statistics import (
    Difference,
    OneRun,
    Spread,
    contrast,
    difference,
    difference_of,
    holm,
    images_needed,
    log_odds,
    seeds_needed,
    summary,
    verdict_of,
)
from vitbook.runs.tables import accuracy_of, table

__all__ = [
    "RECIPES",
    "Claim",
    "Comparison",
    "Difference",
    "Evidence",
    "Experiment",
    "ExperimentError",
    "LedgerError",
    "Measurement",
    "OneRun",
    "PlannedRun",
    "Recipe",
    "Result",
    "Spread",
    "Table",
    "accuracy_of",
    "answers",
    "check_place",
    "command",
    "commit",
    "compare",
    "contrast",
    "data_folder",
    "device_name",
    "difference",
    "difference_of",
    "experiment_run_name",
    "get_experiment",
    "get_recipe",
    "holm",
    "images_needed",
    "log_odds",
    "made_on",
    "measurements",
    "not_run",
    "printed",
    "published",
    "read",
    "read_all",
    "read_experiments",
    "read_row",
    "record",
    "reported",
    "run_name",
    "seeds_needed",
    "select",
    "summary",
    "table",
    "verdict_of",
    "versions",
]
