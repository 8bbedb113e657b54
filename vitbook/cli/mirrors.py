"""``vitbook mirrors``: how alike mirrored places are in the position tables of checkpoints."""

from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from vitbook import runs
from vitbook.analysis import mirror_similarity, position_tables
from vitbook.cli.faults import load_checkpoint
from vitbook.cli.options import stems
from vitbook.cli.tables import print_table

KIND = "mirrors"


def mirrors(
    checkpoints: Annotated[
        list[str],
        typer.Argument(help="Files that `vitbook train` wrote, or names of the book's own."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the measurement.")] = Path("runs"),
) -> None:
    """Score the mirror in a table of positions, left and right, and top and bottom.

    The score is the mean cosine of places that mirror each other, minus that of other places as
    far apart.
    """
    names = stems(checkpoints)
    rows, subject = [], ""
    for name, checkpoint in zip(names, checkpoints, strict=True):
        loaded = load_checkpoint(checkpoint)
        if not subject:
            subject = loaded.provenance.get("dataset", "digits")
            runs.check_place(KIND, subject, out)
        try:
            tables = position_tables(loaded.model)
            if len(tables) > 1:
                raise ValueError(f"{len(tables)} tables of positions: expected one, at the stem")
            (table,) = tables.values()
            found = [mirror_similarity(*table, upside_down=down) for down in (False, True)]
            if not all(isfinite(each.mirrored - each.others) for each in found):
                raise ValueError("places without a direction, such as zeros: they mirror nothing")
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        across, down = (round(each.mirrored - each.others, 5) for each in found)
        model = loaded.model.spec.name
        rows.append({"run": name, "model": model, "across": across, "down": down})
    print_table(
        [
            {
                "run": row["run"],
                "left and right": f"{row['across']:.3f}",
                "top and bottom": f"{row['down']:.3f}",
            }
            for row in rows
        ]
    )
    measured = runs.Measurement(
        kind=KIND,
        subject=subject,
        settings={"score": "mean cosine of mirrored places, minus that of others as far apart"},
        rows=rows,
        **runs.made_on("cpu"),
    )
    typer.echo(f"wrote {runs.record(measured, out)}")
