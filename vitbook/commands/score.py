"""``vitbook score``: explanations of a checkpoint, scored on images whose answer is known."""

from pathlib import Path
from typing import Annotated

import typer

from vitbook import datasets, results
from vitbook.analysis.scoring import (
    EXPLANATIONS,
    SCORES,
    null_explanations,
    score_explanations,
    score_rows,
)
from vitbook.commands.options import Device, stem
from vitbook.commands.probed_model import fresh_twin
from vitbook.commands.tables import interval, print_table
from vitbook.devices import choose_device, set_threads
from vitbook.extras import from_extra
from vitbook.training import load_checkpoint

MASKS = {"cluttered_digits": datasets.digit_masks}
AGAINST = "edges"
STEPS = 16


def score(
    checkpoint: Annotated[
        str, typer.Argument(help="A file that `vitbook train` wrote, or one of the book's own.")
    ],
    num_images: Annotated[
        int | None, typer.Option("--images", min=2, help="Held-out images to use; by default all.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the measurement.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Score explanations of a checkpoint by pointing, deletion and insertion, beside nulls."""
    set_threads(threads)
    subject = stem(checkpoint)
    results.check_place("explanations", subject, out)
    with from_extra("chapters"):
        import captum  # noqa: F401  integrated gradients would ask for it after minutes
    loaded = load_checkpoint(checkpoint)
    learned = loaded.provenance.get("dataset", "what it does not say")
    if learned not in MASKS:
        raise ValueError(
            f"{checkpoint} learned from {learned}, whose images do not say where their answer "
            f"lies: expected a checkpoint of {', '.join(MASKS)}"
        )
    device = choose_device(device)
    split = datasets.held_out_split(learned)
    held_out, masks = datasets.load(learned, split), MASKS[learned](split)[:num_images]
    model, fresh = loaded.model.to(device), fresh_twin(loaded.model).to(device)
    images = datasets.normalize(held_out.images[:num_images]).to(device)
    targets = held_out.labels[:num_images].to(device)
    maps = {}
    for name, explain in EXPLANATIONS.items():
        typer.echo(f"{name} of {len(images)} images", err=True)
        maps[name] = explain(model, images, targets)
        maps[f"{name}, untrained twin"] = explain(fresh, images, targets)
    maps |= null_explanations(images, masks.to(device), model.grid_size)
    scores = score_explanations(model, images, targets, masks, maps, steps=STEPS)
    rows = [
        {"knows_model": row["name"] in EXPLANATIONS} | row for row in score_rows(scores, AGAINST)
    ]
    print_table(
        [
            {"explanation": row["name"]} | {score: interval(row[score], ".3f") for score in SCORES}
            for row in rows
        ]
    )
    measured = results.Measurement(
        kind="explanations",
        subject=subject,
        settings={
            "dataset": learned, "split": split, "pictures": len(images), "against": AGAINST,
            "steps": STEPS, "deletion": "to the mean colour",
            "insertion": "from the blurred image",
            "pointing": "without tolerance", "class": "the label", "interval": "bootstrap, 95 %",
            "twin": "fresh weights, seed 0",
        },
        rows=rows,
        **results.made_on(device),
    )  # fmt: skip
    typer.echo(f"wrote {results.record(measured, out)}")
