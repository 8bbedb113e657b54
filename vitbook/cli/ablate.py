"""``vitbook ablate``: what a classifier loses without heads of one kind."""

from pathlib import Path
from typing import Annotated, Literal

import torch
import typer

from vitbook import datasets, runs
from vitbook.analysis import head_kinds, mean_head_outputs
from vitbook.analysis.attention.head_kinds import EXPLAINS, IDLE, KINDS, NEAR
from vitbook.cli.head_sets import Trial, compare_kinds, interval_of, single_heads
from vitbook.cli.options import MOST_SEED, Device, data_name, stem
from vitbook.cli.probed_model import check_classes
from vitbook.cli.tables import interval, print_table
from vitbook.datasets.resizing import resize
from vitbook.devices import choose_device, set_threads
from vitbook.models.weights.pretrained import load_pretrained

# Training images over which a head's mean is taken.
REFERENCES = 64
SHOWN = ("drop", "compared_drop", "random_drop", "lead", "alone", "alone_lead")


def ablate(
    dataset: Annotated[
        str,
        typer.Argument(
            help="A data set for which the book has a linear head: tf_flowers.", callback=data_name
        ),
    ],
    model: Annotated[
        str, typer.Option(help="A name from `vitbook weights list`.")
    ] = "vit_small_patch14_focus",
    num_images: Annotated[
        int | None, typer.Option("--images", min=2, help="Held-out images; by default all.")
    ] = None,
    by: Annotated[
        Literal["mean", "zero"], typer.Option(help="What takes the place of a head's output.")
    ] = "mean",
    draws: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="Random sets of heads for each kind, in the same layers."
        ),
    ] = 10,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Of the images and of the random heads.")
    ] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the two measurements.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Ablate heads by kind and one by one: the drop in the logit of the right class.

    Fresh weights are no null here: a linear head says nothing of tokens that it was not fitted on.
    The null is as many heads of other kinds in the same layers.
    """
    set_threads(threads)
    subject = f"{stem(model)}-{dataset}-{by}"
    for kind in ("ablation", "head_ablation"):
        runs.check_place(kind, subject, out)
    loaded = load_pretrained(model, head=dataset)
    split = datasets.held_out_split(dataset)
    held_out = datasets.load(dataset, split)
    check_classes(loaded, held_out)
    if num_images is not None and num_images > len(held_out):
        raise ValueError(f"{num_images} images of {dataset}, {split}: it has {len(held_out)}")
    place, size = choose_device(device), loaded.model.spec.image_size
    body, generator = loaded.model.to(place), torch.Generator().manual_seed(seed)

    def prepared(images: torch.Tensor) -> torch.Tensor:
        return loaded.normalize(resize(images, size))

    drawn = torch.randperm(len(held_out), generator=generator)[:num_images]
    kinds = head_kinds(body, prepared(datasets.load("photos", "all").images))
    typer.echo(", ".join(f"{len(kinds.of(kind))} {kind}" for kind in KINDS) + " heads", err=True)
    means = None
    if by == "mean":
        learned = datasets.load(dataset, "train").images
        some = torch.randperm(len(learned), generator=generator)[:REFERENCES]
        means = mean_head_outputs(body, prepared(learned[some]))
    trial = Trial(body, prepared(held_out.images[drawn]), held_out.labels[drawn], means)
    settings = {
        "dataset": held_out.provenance["name"], "split": split, "photographs": len(drawn),
        "by": "the mean over images of each token's head output" if by == "mean" else "zero",
        "reference_images": 0 if means is None else len(some), "seed": seed, "draws": draws,
        "kinds_from": "the nine photographs of datasets.load('photos', 'all')",
        "thresholds": {"idle": IDLE, "near": NEAR, "offset": EXPLAINS, "content": EXPLAINS},
        "score": "logit of the right class less the mean of all classes' logits",
        "random": "as many heads of other kinds in the same layers, over the draws",
        "interval": "bootstrap over photographs, 95 %", "weights": loaded.provenance["digest"],
        "intact_score": interval_of(trial.intact[0]),
        "intact_accuracy": round(trial.accuracy(()), 4),
    }  # fmt: skip
    alone, one_by_one = single_heads(trial, kinds)
    by_kind = compare_kinds(trial, kinds, alone, draws, seed)
    print_table(
        [
            {"heads": row["kind"], "number": str(len(row["heads"]))}
            | {name: "-" if row[name] is None else interval(row[name], ".3f") for name in SHOWN}
            for row in by_kind
        ]
    )
    for kind, rows in (("ablation", by_kind), ("head_ablation", one_by_one)):
        measured = runs.Measurement(
            kind=kind,
            subject=subject,
            settings=settings,
            rows=rows,
            **runs.made_on(place),
        )
        typer.echo(f"wrote {runs.record(measured, out)}")
