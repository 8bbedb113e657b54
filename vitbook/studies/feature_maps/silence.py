"""Channels that a ReLU6 cuts to one number everywhere: on one photograph, and on many."""

from collections.abc import Callable
from typing import Annotated

import torch
import typer
from jaxtyping import Bool, Float
from torch import Tensor, nn
from tqdm import tqdm

from vitbook import datasets
from vitbook.analysis.capture.outputs import outputs_of
from vitbook.models.weights.efficientnet_lite import SIZES, efficientnet_lite
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import DataName

NAME = "efficientnet_lite0"
SHOWN = (1, 10, 100)
BATCH = 25


def cut(
    maps: Float[Tensor, "images channels rows columns"],
) -> tuple[Bool[Tensor, "images channels"], Bool[Tensor, "images channels"]]:
    """Whether each channel of each image is 0 everywhere, and whether it is 6 everywhere."""
    return maps.amax((2, 3)) <= 0, maps.amin((2, 3)) >= 6


def fresh_lite(images: Float[Tensor, "images 3 height width"]) -> nn.Module:
    """EfficientNet-Lite0 with random weights (seed 0), its norms measured on these images.

    A batch norm that has seen no image passes numbers so small that nothing would reach 6.
    """
    torch.manual_seed(0)
    model = efficientnet_lite(NAME, None)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None  # the plain mean over all batches
    with torch.no_grad():
        model.train()(images)
    return model.eval()


def relu6_layers(model: nn.Module) -> tuple[str, ...]:
    return tuple(path for path, part in model.named_modules() if isinstance(part, nn.ReLU6))


@measurement(
    silent_channels={"weights": "{weights}", "layers": "{layers}", "photographs": "{images}",
                     "at 0": "{at_0:.1%}", "at 6": "{at_6:.1%}"}
)  # fmt: skip
def silent_channels(
    sheet: Sheet,
    dataset: DataName,
    images: Annotated[int, typer.Option(min=1, help="Held-out photographs, the first ones.")] = 200,
) -> None:
    """Count channels of EfficientNet-Lite0 that a ReLU6 cuts to 0, or to 6, everywhere."""
    subject = f"{NAME}-{dataset}"
    sheet.expect(subject)
    real = load_pretrained(NAME)
    size = SIZES[NAME]
    test = datasets.load(dataset, datasets.held_out_split(dataset), image_size=size)
    asked = test.images[:images]

    def rows_of(name: str) -> list[dict]:
        fresh = fresh_lite(real.normalize(asked[: 4 * BATCH]))
        model = (real.model if name == "learned" else fresh).to(sheet.device)
        paths = relu6_layers(model)
        seen = {path: ([], []) for path in paths}
        for batch in tqdm(asked.split(BATCH), desc=name):
            found = outputs_of(model, real.normalize(batch), paths, lambda _, maps: cut(maps))
            for path, both in found.items():
                for kept, each in zip(seen[path], both, strict=True):
                    kept.append(each.cpu())
        whole = {path: [torch.cat(kept) for kept in both] for path, both in seen.items()}
        return [
            {"weights": name, "layers": told, "images": number,
             "at_0": share(0, some, number), "at_6": share(1, some, number),
             "channels": sum(whole[path][0].shape[1] for path in some)}
            for told, some in (("all", paths), ("last", paths[-1:]))
            for number in (*(n for n in SHOWN if n < len(asked)), len(asked))
            for share in [_share(whole)]
        ]  # fmt: skip

    rows = [row for name in ("learned", "fresh") for row in sheet.once(name, rows_of, name)]
    settings = {
        "dataset": test.provenance["name"], "model": NAME, "image_size": size,
        "test_images": len(asked),
        "weights": real.provenance["digest"], "fresh": "seed 0, norms measured on 100 photographs",
        "counted": "channels behind a ReLU6 that are 0 (or 6) at every position of all of so many "
        "photographs together, the mean over as many groups as there are",
    }  # fmt: skip
    sheet.write(subject, settings, rows)


def _share(whole: dict[str, list[Tensor]]) -> Callable[[int, tuple[str, ...], int], float]:
    """Share of channels that are cut on all images of a group, the mean over groups."""

    def share(which: int, paths: tuple[str, ...], number: int) -> float:
        table = torch.cat([whole[path][which] for path in paths], dim=1)
        groups = [each for each in table.split(number) if len(each) == number]
        return torch.stack([each.all(dim=0).float().mean() for each in groups]).mean().item()

    return share
