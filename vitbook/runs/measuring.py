"""One frame for all measurements: what each of them would ask, check and write is done here.

A measurement is a decorated function. It says its parameters, and which columns to print of each
kind of row that it writes; ``vitbook measure NAME`` finds it, and takes the parameters as options::

    @measurement(lengths={"run": "{run}", "length": "{length:.2f}"})
    def lengths(sheet: Sheet, checkpoints: Checkpoints) -> None:
        \"""Say how long the weights of checkpoints are.\"""
        sheet.expect("digits")
        rows = [sheet.once(name, length_of, name) for name in checkpoints]
        sheet.write("digits", {"length": "of all weights, as one vector"}, rows)
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from vitbook.devices import choose_device, set_threads
from vitbook.extras import from_extra
from vitbook.files import write_atomically
from vitbook.runs.ledger import check_place, record
from vitbook.runs.provenance import made_on
from vitbook.runs.rows import Measurement
from vitbook.runs.tables import interval, print_table

# Title -> how a row is shown, as "{loss:.4f}"; or a function of all rows; or None for no table.
Columns = Mapping[str, str] | Callable[[list[dict]], list[dict[str, str]]] | None


@dataclass
class Sheet:
    """Where a measurement computes, and what it writes on.

    Attributes:
        device: that models run on.
        folder: of the rows, and of what is kept beside them.
        written: the rows so far.
    """

    device: torch.device
    folder: Path
    written: list[Measurement] = field(default_factory=list)
    _kinds: Mapping[str, Columns] = field(default_factory=dict)
    _question: dict = field(default_factory=dict)
    _known: dict = field(default_factory=dict)
    _unfinished: Path | None = None

    def expect(self, *subjects: str) -> None:
        """Before the work begins: could a row of each kind be written of these subjects?

        Raises:
            LedgerError, OSError: as :func:`vitbook.runs.check_place`.
        """
        for subject in subjects:
            for kind in self._kinds:
                check_place(kind, subject, self.folder)
        self._unfinished = self.folder / f"{next(iter(self._kinds))}-{subjects[0]}.unfinished"
        try:
            found = json.loads(self._unfinished.read_bytes())
            self._known = found["known"] if found["question"] == self._question else {}
        except (FileNotFoundError, ValueError, LookupError, TypeError):  # or damaged: begin anew
            self._known = {}

    def once(self, key: str, compute: Callable[..., Any], *given: object) -> Any:
        """What ``compute(*given)`` returns, as JSON keeps it.

        Where a call was killed that asked the same, the next one does not compute it again.

        Args:
            key: all that tells this part of the question from the others.
        """
        if key not in self._known:
            self._known[key] = compute(*given)
            content = json.dumps({"question": self._question, "known": self._known})
            write_atomically(self._unfinished, content.encode())
            self._known = json.loads(content)["known"]
        return self._known[key]

    def write(self, subject: str, settings: dict, rows: list[dict], kind: str = "") -> None:
        """Print the table of a measurement, and record it.

        Args:
            kind: one of the measurement's; by default the first.
        """
        kind = kind or next(iter(self._kinds))
        measured = Measurement(kind, subject, settings, rows, **made_on(self.device))
        print_table(_lines(self._kinds[kind], rows))
        print(f"wrote {record(measured, self.folder)}")
        self.written.append(measured)

    def close(self) -> None:
        if self._unfinished is not None:
            self._unfinished.unlink(missing_ok=True)


@dataclass(frozen=True)
class Measure:
    """A measurement that can be asked for, as :func:`measurement` makes it.

    Attributes:
        function: takes a sheet, and the parameters that are its own.
        kinds: of the rows that it writes -> the columns that are printed.
        needs: an extra of this package and a module of it, for what is asked after hours.
    """

    function: Callable[..., None]
    kinds: Mapping[str, Columns]
    needs: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return self.function.__name__.replace("_", "-")

    def __call__(
        self,
        *,
        out: str | Path = "runs",
        threads: int | None = None,
        device: str | None = None,
        **parameters: object,
    ) -> list[Measurement]:
        """Measure, print and record.

        Args:
            out: folder of the rows, and of what is kept beside them.
            threads: of the CPU; by default all.
            device: by default the GPU if there is one.
        """
        set_threads(threads)
        place = choose_device(device)
        if self.needs:
            extra, module = self.needs
            with from_extra(extra):
                import_module(module)
        asked = signature(self.function).bind(None, **parameters)
        asked.apply_defaults()
        question = {name: repr(value) for name, value in asked.arguments.items()}
        made = made_on(place) | {"command": self.name}
        sheet = Sheet(place, Path(out), _kinds=self.kinds, _question=question | made)
        self.function(sheet, **parameters)
        sheet.close()
        return sheet.written


def measurement(
    needs: tuple[str, str] | None = None, **kinds: Columns
) -> Callable[[Callable[..., None]], Measure]:
    """Make a function of a sheet a measurement of these kinds of rows; see :class:`Measure`."""
    return lambda function: Measure(function, kinds, needs)


def _lines(columns: Columns, rows: list[dict]) -> list[dict[str, str]]:
    if columns is None:
        return []
    if callable(columns):
        return columns(rows)
    shown = [{name: _Shown(value) for name, value in row.items()} for row in rows]
    return [{title: form.format_map(row) for title, form in columns.items()} for row in shown]


@dataclass(frozen=True)
class _Shown:
    """A value of a row in a column: an interval with its ends, a dash for what is not there."""

    value: object

    def __format__(self, form: str) -> str:
        if self.value is None:
            return "-"
        if isinstance(self.value, list) and form:
            return interval(self.value, form)
        return format(self.value, form)
