"""``vitbook results``: the ledger, printed."""

from pathlib import Path
from typing import Annotated

import typer

from vitbook import runs
from vitbook.errors import UnknownNameError
from vitbook.runs.tables import print_table


def show(
    name: Annotated[
        str | None, typer.Argument(help="One run, with its curve; by default a table of all.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Of the rows; by default the book's own ledger.")
    ] = None,
) -> None:
    """Print what has been measured, on what, by which command."""
    if folder is not None and not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder: give one with rows of the ledger")
    rows = runs.read_all(folder)
    if name is None:
        if rows:
            print_table(runs.table(rows))
        else:
            typer.echo("no runs yet: `vitbook train` makes one")
        return
    known = {row.name: row for row in rows}
    if name not in known:
        raise UnknownNameError("run", name, known)
    _print_run(known[name])


def _print_run(row: runs.Result) -> None:
    for field, content in vars(row).items():
        if field == "probes":
            seen = ", ".join(f"{', '.join(p.keys() - {'epoch'})} at {p['epoch']}" for p in content)
            typer.echo(f"{field}: {seen or 'none'}")
        elif field == "curve":
            continue
        elif isinstance(content, dict):
            typer.echo(f"{field}: " + ", ".join(f"{k} {v}" for k, v in content.items()))
        else:
            typer.echo(f"{field}: {content}")
    print_table([{key: f"{number:.5g}" for key, number in point.items()} for point in row.curve])
