"""What the chapter on positions measures."""

from math import isfinite

from torch import nn

from vitbook.analysis import mirror_similarity, position_tables
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import Checkpoints, check_each_once, stem
from vitbook.training.faults import load_checkpoint


@measurement(
    mirrors={"run": "{run}", "left and right": "{across:.3f}", "top and bottom": "{down:.3f}"}
)
def mirrors(sheet: Sheet, checkpoints: Checkpoints) -> None:
    """Score the mirror in a table of positions, left and right, and top and bottom.

    The score is the mean cosine of places that mirror each other, minus that of other places as
    far apart.
    """
    names = [stem(each) for each in checkpoints]
    check_each_once(names)
    loaded = [load_checkpoint(each) for each in checkpoints]
    subject = loaded[0].provenance.get("dataset", "digits")
    sheet.expect(subject)
    rows = []
    for name, each in zip(names, loaded, strict=True):
        try:
            across, down = (mirror_score(each.model, upside_down=down) for down in (False, True))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        rows.append({"run": name, "model": each.model.spec.name, "across": across, "down": down})
    settings = {"score": "mean cosine of mirrored places, minus that of others as far apart"}
    sheet.write(subject, settings, rows)


def mirror_score(model: nn.Module, upside_down: bool) -> float:
    """Of the one table of a model.

    Raises:
        ValueError: none, more than one, or one whose places mirror nothing.
    """
    tables = position_tables(model)
    if len(tables) > 1:
        raise ValueError(f"{len(tables)} tables of positions: expected one, at the stem")
    (table,) = tables.values()
    found = mirror_similarity(*table, upside_down=upside_down)
    if not isfinite(found.mirrored - found.others):
        raise ValueError("places without a direction, such as zeros: they mirror nothing")
    return round(found.mirrored - found.others, 5)
