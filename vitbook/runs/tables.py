"""Rows with what they have in common said once, and tables on a terminal."""

import json
from collections.abc import Sequence

from vitbook.runs.rows import Result


def table(rows: list[Result]) -> list[dict[str, str]]:
    """A line for each model, data set and recipe: what the seeds have in common stands once.

    Accuracy is the mean over seeds, with the lowest and the highest where there are several.
    """
    groups: dict[tuple, list[Result]] = {}
    for row in rows:
        recipe = json.dumps(row.recipe, sort_keys=True)
        weights = (row.start, row.teacher, row.model)
        key = (row.dataset, row.share, row.share_seed, *weights, recipe, row.device)
        groups.setdefault(key, []).append(row)
    return [_line(group) for group in groups.values()]


def accuracy_of(group: list[Result]) -> str:
    """The mean over seeds, with the lowest and the highest of several."""
    scores = [row.accuracy for row in group]
    mean = f"{sum(scores) / len(scores):.2%}"
    return mean + (f" ({min(scores):.2%} to {max(scores):.2%})" if len(scores) > 1 else "")


def _line(group: list[Result]) -> dict[str, str]:
    first = group[0]
    return {
        "data": first.provenance["name"],
        # A second head that no teacher spoke to has distilled nothing.
        "model": first.model
        + " (no teacher)" * ("distilled" in first.model and not first.teacher)
        + (f", from {first.start}" if first.start else "")
        + (f", taught by {first.teacher}" if first.teacher else "")
        + (f", {first.recipe['objective']}" if first.recipe.get("objective") else "")
        + (f", fault: {first.recipe['fault']}" if first.recipe.get("fault") else ""),
        "parameters": f"{first.parameters:,}",
        "recipe": first.recipe["name"],
        "data passes": f"{first.data_passes:.0f}",
        "seeds": ", ".join(str(row.seed) for row in sorted(group, key=lambda row: row.seed)),
        "accuracy": accuracy_of(group),
        "minutes": f"{max(row.wall_time_s for row in group) / 60:.0f}",
        "images/s": f"{max(row.images_per_second for row in group):,.0f}",
        "device": first.device,
    }


def print_table(lines: list[dict[str, str]]) -> None:
    """Columns as wide as their widest cell, under their names; nothing of no lines.

    rich, which comes with typer, would fold cells to the terminal's width, and to 80 columns in a
    pipe: a line would no longer be a row.
    """
    if not lines:
        return
    cells = [list(lines[0]), *(list(line.values()) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(padded).rstrip())


def interval(values: Sequence[float], form: str) -> str:
    """A middle and its interval, as "−0.01 [−0.02, 0.00]": with a real minus sign."""
    middle, low, high = (f"{value:{form}}".replace("-", "−") for value in values)
    return f"{middle} [{low}, {high}]"
