"""What a classifier loses without heads of one kind."""

from typing import Annotated, Literal

import torch
import typer

from vitbook import datasets
from vitbook.datasets.resizing import resize
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.interventions.classes import check_classes
from vitbook.studies.interventions.head_sets import Trial, compare_kinds, interval_of, single_heads
from vitbook.studies.interventions.heads import mean_head_outputs
from vitbook.studies.interventions.kinds import EXPLAINS, IDLE, KINDS, NEAR, head_kinds
from vitbook.training.asked import HeadedData, Seed, SomeImages, stem

# Training images over which a head's mean is taken.
REFERENCES = 64
SHOWN = ("drop", "compared_drop", "random_drop", "lead", "alone", "alone_lead")


@measurement(
    ablation={"heads": "{kind}"} | {name: f"{{{name}:.3f}}" for name in SHOWN}, head_ablation=None
)
def ablate(
    sheet: Sheet,
    dataset: HeadedData,
    model: Annotated[
        str, typer.Option(help="A name from `vitbook weights list`.")
    ] = "vit_small_patch14_focus",
    num_images: SomeImages = None,
    by: Annotated[
        Literal["mean", "zero"], typer.Option(help="What takes the place of a head's output.")
    ] = "mean",
    draws: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="Random sets of heads for each kind, in the same layers."
        ),
    ] = 10,
    seed: Seed = 0,
) -> None:
    """Ablate heads by kind and one by one: the drop in the logit of the right class.

    Fresh weights are no null here: a linear head says nothing of tokens that it was not fitted on.
    The null is as many heads of other kinds in the same layers.
    """
    subject = f"{stem(model)}-{dataset}-{by}"
    sheet.expect(subject)
    loaded = load_pretrained(model, head=dataset)
    split = datasets.held_out_split(dataset)
    held_out = datasets.load(dataset, split)
    check_classes(loaded, held_out)
    if num_images is not None and num_images > len(held_out):
        raise ValueError(f"{num_images} images of {dataset}, {split}: it has {len(held_out)}")
    body, size = loaded.model.to(sheet.device), loaded.model.spec.image_size
    generator = torch.Generator().manual_seed(seed)

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
    sheet.write(subject, settings, compare_kinds(trial, kinds, alone, draws, seed))
    sheet.write(subject, settings, one_by_one, "head_ablation")
