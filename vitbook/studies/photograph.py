"""The names on the page `photograph`: when one is said, and how often it is wrong."""

from typing import Annotated

import torch
import typer
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from vitbook import datasets, runs
from vitbook.models.weights.efficientnet_lite import SIZES, class_kinds
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import SomeImages, data_name
from vitbook.training.transfer.linear_probe import share_interval

# A name is said that is likelier than all others together; set before anything was measured.
LEAST = 0.5
NAME = "efficientnet_lite0"
DATASET = "tf_flowers"


def said_name(
    chances: Float[Tensor, "classes"],
    names: tuple[str, ...],
    kinds: tuple[str, ...] = (),
    least: float = LEAST,
) -> str | None:
    """The likeliest class, else what several likely ones are, else None: it is not known.

    Args:
        chances: of the classes, which add up to 1.
        names: of the classes.
        kinds: as :func:`vitbook.models.weights.efficientnet_lite.class_kinds`.
        least: probability from which something is said.
    """
    top = int(chances.argmax())
    if chances[top] >= least:
        return names[top]
    kind = kinds[top] if kinds else ""
    alike = torch.tensor([bool(kind) and each == kind for each in kinds], dtype=torch.bool)
    return kind if kind and chances[alike].sum() >= least else None


@measurement(
    said_names={
        "photographs": "{of}", "images": "{images}", "named": "{named:.0%}",
        "wrong among the named": "{wrong:.0%}",
    }
)  # fmt: skip
@torch.no_grad()
def said_names(
    sheet: Sheet,
    dataset: Annotated[
        str,
        typer.Argument(
            help="A data set, some of whose classes ImageNet has by the same name.",
            callback=data_name,
        ),
    ] = DATASET,
    num_images: SomeImages = None,
) -> None:
    """Say how often the classifier of the page `photograph` names an image, and how often wrongly.

    For images of classes that ImageNet does not have, each name is wrong.
    """
    subject = f"{NAME}-{dataset}"
    sheet.expect(subject)
    split = datasets.held_out_split(dataset)
    given = datasets.load(dataset, split, image_size=SIZES[NAME])
    loaded, kinds = load_pretrained(NAME), class_kinds()
    model, said = loaded.model.to(sheet.device), []
    images = given.images[:num_images]
    for batch in tqdm(images.split(32), desc="names"):
        chances = model(loaded.normalize(batch).to(sheet.device)).softmax(1).cpu()
        said += [said_name(each, loaded.class_names, kinds) for each in chances]
    meant = [given.class_names[label].partition(",")[0] for label in given.labels[: len(images)]]
    rows = [
        _row(of, [pair for pair in zip(said, meant, strict=True) if has(pair[1])])
        for of, has in (
            ("of classes that ImageNet has", lambda name: name in loaded.class_names),
            ("of classes that it does not have", lambda name: name not in loaded.class_names),
        )
    ]
    settings = {
        "dataset": given.provenance["name"], "split": split, "images": len(images),
        "image_size": SIZES[NAME], "least": LEAST, "weights": loaded.provenance["digest"],
        "interval": "Wilson, 95 %",
    }  # fmt: skip
    sheet.write(subject, settings, [row for row in rows if row["images"]])


def _row(of: str, pairs: list[tuple[str | None, str]]) -> dict:
    named = [(said, meant) for said, meant in pairs if said is not None]
    wrong = sum(said != meant for said, meant in named)
    return {
        "of": of, "images": len(pairs),
        "named": share_interval(len(named), len(pairs)) if pairs else None,
        "wrong": share_interval(wrong, len(named)) if named else None,
    }  # fmt: skip


def error_rates(dataset: str = DATASET) -> str:
    """What was measured, in two sentences for a reader of the page.

    Raises:
        ValueError: it was not measured.
    """
    found = runs.measurements(kind="said_names", subject=f"{NAME}-{dataset}")
    if not found or len(found[0].rows) != 2:
        raise ValueError(f"no row of names on {dataset}: `vitbook measure said-names {dataset}`")
    (known, other), about = found[0].rows, found[0].settings
    return (
        f"On {about['images']} photographs of {about['dataset']}, none of them shown here, it is "
        f"wrong on {known['wrong'][0]:.0%} of the daisies that it names. It gives a wrong name to "
        f"{other['named'][0]:.0%} of the flowers that ImageNet has no class for."
    )
