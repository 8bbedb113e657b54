"""Rows with what they have in common said once."""

import json

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
