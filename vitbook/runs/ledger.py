"""The rows as files: written whole, read with a word on what is wrong."""

import json
import lzma
from dataclasses import MISSING, asdict, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from vitbook.files import check_file_writable, check_writable, data_folder, write_atomically
from vitbook.runs.recipe import Recipe
from vitbook.runs.rows import LedgerError, Measurement, Result
from vitbook.typed import typed

FOLDERS = {Result: "results", Measurement: "measurements"}
Row = TypeVar("Row", Result, Measurement)


def record(result: Result | Measurement, folder: str | Path | None = None) -> Path:
    """Write a row of the ledger; what is repeated takes the place of the old one.

    Raises:
        LedgerError: what no row can say, or a name with a slash, whose file would lie where no row
            is looked for.
        OSError: the file could not be written.
    """
    folder = Path(folder) if folder is not None else data_folder() / FOLDERS[type(result)]
    file, content = _file(folder, result.name), asdict(result)
    _row(file, content, type(result))  # what could not be read is not written
    return write_atomically(file, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())


def check_place(kind: str, subject: str, folder: str | Path) -> None:
    """Before the work begins: could :func:`record` write this measurement there?

    Raises:
        LedgerError: as :func:`record`.
        OSError: the folder is not writable, or what has the name of the row is no plain file.
    """
    file = _file(Path(folder), f"{kind}-{subject}")
    check_writable(folder)
    check_file_writable(file)


def _file(folder: Path, name: str) -> Path:
    if Path(name).name != name:
        raise LedgerError(f"a row named {name}: expected a name without a slash, of one file")
    return folder / f"{name}.json"


def read(
    folder: str | Path | None = None,
    *,
    dataset: str | None = None,
    recipe: Any = None,
    tuned: bool = False,
    taught: bool = False,
    unlabeled: bool = False,
    few: bool = False,
    faulty: bool = False,
) -> list[Result]:
    """Training runs from fresh weights, with all images and labels alone, by name.

    Args:
        dataset: only those on this data set.
        recipe: only those by this :class:`~vitbook.runs.Recipe`, in every number of it,
            whatever its name; a row from before a number was there counts with its default. One
            with a fault, an objective or a distillation asks for such runs, and needs no further
            word.
        tuned: also those that started from weights that had learned: their accuracy is not that of
            a model on a data set.
        taught: also those that learned from a teacher's answers, for the same reason.
        unlabeled: also those that learned without labels: their accuracy is not of classes.
        few: also those that learned from a share of the images for training.
        faulty: also those with a mistake planted before the training.

    Raises:
        LedgerError: a file that is not a row; names the file and what is wrong with it.
        TypeError: the name of a recipe, instead of its numbers.

    Example:
        >>> from vitbook import runs
        >>> runs = {run.name: run for run in runs.read()}
        >>> run = runs["digits-vit_micro_patch2_8-digits-seed0"]
        >>> run.recipe["name"], run.parameters, run.accuracy > 0.9
        ('digits', 136138, True)
    """
    if recipe is not None:
        if not isinstance(recipe, Recipe):
            raise TypeError(
                f"recipe {recipe!r}: expected a Recipe, as vitbook.runs.get_recipe(name) gives"
            )
        wanted = asdict(recipe) | {"name": ""}
        defaults = {each.name: each.default for each in fields(recipe)}
        faulty, unlabeled = faulty or bool(recipe.fault), unlabeled or bool(recipe.objective)
        taught = taught or bool(recipe.distillation)
    return [
        row
        for row in read_all(folder)
        if dataset in (None, row.dataset)
        and (recipe is None or defaults | row.recipe | {"name": ""} == wanted)
        and (tuned or not row.start)
        and (taught or not row.teacher)
        and (unlabeled or not row.recipe.get("objective"))
        and (few or row.share == 1)
        and (faulty or not row.recipe.get("fault"))
    ]


def read_all(folder: str | Path | None = None) -> list[Result]:
    """All training runs, however they learned, by name.

    Rows are read once and shared: whoever changes one changes it for all.

    Raises:
        LedgerError: as :func:`read`.
    """
    return _read(Result, folder)


def measurements(
    kind: str | None = None, subject: str | None = None, folder: str | Path | None = None
) -> list[Measurement]:
    """All measurements, by name; or those of a kind, of a subject.

    Raises:
        LedgerError: as :func:`read`.
    """
    return [
        row
        for row in _read(Measurement, folder)
        if kind in (None, row.kind) and subject in (None, row.subject)
    ]


def _read(of: type[Row], folder: str | Path | None) -> list[Row]:
    home = data_folder() / FOLDERS[of]
    folder = Path(folder) if folder is not None else home
    # `vitbook train` and `vitbook measure` may write into one folder: each kind has its own fields.
    rows: dict[str, Row | None] = {}
    packed = home.with_suffix(".json.xz")  # of an installed package
    if folder == home and packed.is_file():
        for name, content in _content(packed, packed.read_bytes()).items():
            if not (folder / name).exists():
                rows[name] = _of_kind(folder / name, content, of)
    for path in sorted(folder.glob("*.json")):
        rows[path.name] = _read_once(path, path.read_bytes(), of)
    return [row for _, row in sorted(rows.items()) if row is not None]


# A chapter asks for the ledger many times.
@lru_cache(maxsize=4096)
def _read_once(path: Path, stored: bytes, of: type[Row]) -> Row | None:
    return _of_kind(path, _content(path, stored), of)


def _of_kind(path: Path, content: dict, of: type[Row]) -> Row | None:
    """The row, or None if it is one of another kind."""
    others = (kind for kind in FOLDERS if kind is not of)
    return None if any(_fits(content, kind) for kind in others) else _row(path, content, of)


def read_row(path: Path, of: type[Row] = Result) -> Row:
    """One row of the ledger.

    Raises:
        LedgerError: a file that is not a row; names it and what is wrong with it.
        FileNotFoundError: no such file.
    """
    return _row(path, _content(path, path.read_bytes()), of)


def _content(path: Path, stored: bytes) -> dict:
    try:
        content = json.loads(lzma.decompress(stored) if path.suffix == ".xz" else stored)
        content.keys()
    except (ValueError, AttributeError, RecursionError, lzma.LZMAError) as error:
        raise _no_row(path, error) from error
    return content


def _fits(content: object, of: type[Row]) -> bool:
    known, needed = _names(of)
    return isinstance(content, dict) and needed <= content.keys() <= known


def _names(of: type[Row]) -> tuple[set[str], set[str]]:
    """Of the fields that a row may have, and of those that it must: older rows have fewer."""
    found = fields(of)
    return {each.name for each in found}, {each.name for each in found if each.default is MISSING}


def _row(path: Path, content: dict, of: type[Row]) -> Row:
    known, needed = _names(of)
    try:
        if not needed <= content.keys() <= known:
            odd = ", ".join(sorted((needed - content.keys()) | (content.keys() - known)))
            raise LedgerError(f"missing or unknown: {odd}")
        return typed(content, of)
    except (ValueError, TypeError, AttributeError) as error:
        raise _no_row(path, error) from error


def _no_row(path: Path, error: Exception) -> LedgerError:
    return LedgerError(f"{path} is no row of the ledger ({error}): restore it, or remove it")


class _Published(TypedDict):
    """What each printed number must say; some say more."""

    source: str
    quantity: str
    model: str
    value: float
    printed: str


def published(**which: str) -> list[dict]:
    """Numbers that others printed, each with its ``source``.

    Args:
        which: for example ``quantity="macs", model="vit_base_patch16_224"``; all if empty.

    Example:
        >>> from vitbook.runs import published
        >>> rows = published(model="vit_base_patch16_224", quantity="parameters")
        >>> sorted(rows[0])
        ['model', 'printed', 'quantity', 'source', 'value', 'why']
    """
    path = data_folder() / "published.json"
    rows = json.loads(path.read_text())
    try:
        typed(rows, list[_Published])
    except ValueError as error:
        raise LedgerError(f"{path}: {error}") from error
    return [row for row in rows if which.items() <= row.items()]
