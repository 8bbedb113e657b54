"""What the chapter on the designs of CNNs measures."""

from torch import nn

from vitbook import datasets
from vitbook.analysis import layer_redundancy
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import Checkpoints, OtherData, Split, rows_of_checkpoints
from vitbook.training.engine.evaluation import as_pixels


@measurement(
    redundancy={
        "run": "{run}",
        "effective channels": "{channels:.1f}",
        "share of width": "{share:.3f}",
        "CKA of neighbours": "{likeness:.3f}",
    }
)
def redundancy(
    sheet: Sheet, checkpoints: Checkpoints, dataset: OtherData = None, split: Split = None
) -> None:
    """Count the channels that a layer uses, their share of its width, and how alike layers are.

    Each number is a mean over the blocks of a checkpoint.
    """

    def row(model: nn.Module, images: datasets.Dataset) -> dict:
        found = layer_redundancy(model, as_pixels(images.images, model))
        return {
            "channels": round(found.channels, 4),
            "share": round(found.share, 5),
            "likeness": round(found.likeness, 5),
        }

    subject, about, rows = rows_of_checkpoints(sheet, checkpoints, dataset, split, row)
    settings = about | {
        "channels": "effective, by the participation ratio of the channels' correlations",
        "share": "of them in a layer's channels",
        "likeness": "linear CKA of neighbouring blocks",
        "mean": "over the blocks",
    }
    sheet.write(subject, settings, rows)
