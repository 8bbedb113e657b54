"""Tables on a terminal.

rich, which comes with typer, folds cells to the terminal's width, and to 80 columns in a pipe:
a line would no longer be a row.
"""

import typer


def print_table(lines: list[dict[str, str]]) -> None:
    """Columns as wide as their widest cell, under their names; nothing of no lines."""
    if not lines:
        return
    cells = [list(lines[0]), *(list(line.values()) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(padded).rstrip())


def interval(values: list[float], form: str) -> str:
    """A middle and its interval, [middle, low, high], as "0.99 [0.98, 1.00]"."""
    middle, low, high = (f"{value:{form}}" for value in values)
    return f"{middle} [{low}, {high}]"
