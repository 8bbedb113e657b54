"""``vitbook results``: the ledger, printed."""

from pathlib import Path
from typing import Annotated

import typer

from vitbook import results
from vitbook.errors import UnknownNameError


def show(
    name: Annotated[
        str | None, typer.Argument(help="One run, with its curve; by default a table of all.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Of the rows; by default the book's own ledger.")
    ] = None,
) -> None:
    """Print what has been measured, on what, by which command."""
    rows = results.read(folder)
    if name is None:
        _print_table(results.table(rows))
        return
    known = {row.name: row for row in rows}
    if name not in known:
        raise UnknownNameError("run", name, known)
    _print_run(known[name])


def _print_table(lines: list[dict[str, str]]) -> None:
    if not lines:
        typer.echo("no runs yet: `vitbook train` makes one")
        return
    cells = [list(lines[0]), *(list(line.values()) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(padded).rstrip())


def _print_run(row: results.Result) -> None:
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
    _print_table([{key: f"{number:.5g}" for key, number in point.items()} for point in row.curve])
