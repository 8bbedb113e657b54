"""A race: the reader takes cells of an image away, explanations do too; who is done first?"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from einops import repeat
from torch import Tensor, nn

from vitbook.analysis.attribution.faithfulness import check_maps, order
from vitbook.figures.parts.drawing import as_images, base64, named
from vitbook.figures.parts.figure import Figure, at_the_start, piece_key
from vitbook.figures.parts.packing import squeeze
from vitbook.figures.parts.plain_vit import (
    answer,
    count_heads,
    encode,
    page_weights,
    shapes,
    values,
)
from vitbook.model_utilities import evaluating

_ALIKE = 0.05  # of the deviation of the logits: float16 weights change less


def deletion_curves(
    model: nn.Module,
    image,
    maps: Mapping[str, Tensor],
    *,
    classes: Sequence[str],
    beat: str,
    name: str = "the image",
    task: str | None = None,
    title: str = "Who ends the class first?",
    description: str | None = None,
) -> Figure:
    """An image whose cells the reader takes away, and the orders of explanations beside.

    The page computes the model's answer for any cells that are gone; they have the image's mean
    colour. The weights travel in float16, and come when the reader takes the first cell away. Each
    explanation has taken as many cells as the reader, and its curve stands beside the reader's.

    Args:
        model: a plain Vision Transformer of ours.
        image: uint8 "channels height width" of the size that it takes.
        maps: name -> an explanation "rows columns" of the class that the model says, all on one
            grid that divides the image.
        classes: names, in the model's order.
        beat: the explanation that the reader is to beat: the task is reached when the class is
            ended with fewer cells than it needs.
        name: of the image.

    Raises:
        ValueError: what is no plain Vision Transformer, or maps that do not fit.
        KeyError: no maps called ``beat``.
    """
    (photo,) = photos = as_images(torch.as_tensor(image)[None])
    if beat not in maps:
        raise KeyError(f"beat {beat!r}: expected one of {', '.join(maps)}")
    grid = tuple(maps[beat].shape)
    for each, found in maps.items():
        if tuple(found.shape) != grid:
            raise ValueError(
                f"{each} has a map of {tuple(found.shape)}: expected {grid}, as {beat}"
            )
    stacked = torch.stack([each.float().cpu() for each in maps.values()])
    check_maps(stacked, torch.from_numpy(photos).expand(len(maps), -1, -1, -1))
    weights = page_weights(model)
    names = named("classes", classes, [str(i) for i in range(len(weights["head.classifier.bias"]))])
    chances = _chances(weights, count_heads(model), photos)
    _check_computed(model, chances, photos)
    target = int(chances[0].argmax())
    mean = np.rint(photo.mean((1, 2))).astype(int)
    places = order(stacked).numpy()
    curves, ends = [], []
    for turns in places:
        found = _chances(weights, count_heads(model), _taken(photo, turns.reshape(grid), mean))
        lost = (found.argmax(1) != target).nonzero()
        curves.append(np.rint(255 * found[:, target].numpy()).astype(np.uint8))
        ends.append(int(lost[0]) if len(lost) else -1)
    stored = squeeze(values(weights).tobytes())
    asked = f"Take cells away, and end the class with fewer of them than {beat} needs."
    data = {
        "pixels": base64(photo), "name": name, "size": list(photo.shape[1:]), "grid": list(grid),
        "mean": mean.tolist(), "patch": list(weights["tokenizer.projection.weight"].shape[2:]),
        "heads": count_heads(model), "depth": len(model.encoder.blocks),
        "weights": shapes(weights), "values": piece_key(stored), "classes": names,
        "target": target, "names": list(maps), "places": base64(places.astype(np.uint16)),
        "curves": base64(np.stack(curves)), "ends": ends, "beat": beat,
        "task": asked if task is None else task,
        "start": {"gone": []}, "answer": [round(each, 4) for each in chances[0].tolist()],
    }  # fmt: skip
    cells = grid[0] * grid[1]
    told = "; ".join(
        f"{each} {f'after {end}' if end >= 0 else 'never'}"
        for each, end in zip(maps, ends, strict=True)
    )
    finding = (
        f"The model says {names[target]}, {chances[0, target]:.2f}. It stops saying so when cells, "
        f"of {cells}, are taken away in the order of {told}."
    )
    return Figure("deletion_curves", data, title, description or at_the_start(finding), (stored,))


def _taken(photo: np.ndarray, places: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The image with 0, 1, 2, ... cells in the mean colour."""
    tall, wide = (side // count for side, count in zip(photo.shape[1:], places.shape, strict=True))
    spread = repeat(places, "r c -> (r tall) (c wide)", tall=tall, wide=wide)
    counts = np.arange(places.size + 1)[:, None, None, None]
    return np.where(spread < counts, mean[:, None, None], photo).astype(np.uint8)


@torch.no_grad()
def _chances(weights: dict[str, Tensor], heads: int, images: np.ndarray) -> Tensor:
    """Of each class, as the page computes them."""
    found = []
    for some in torch.from_numpy(images).split(32):
        tokens, _ = encode(weights, heads, some)
        found.append(answer(weights, "head.classifier", tokens[:, 0]).softmax(1))
    return torch.cat(found)


@torch.no_grad()
def _check_computed(model: nn.Module, page: Tensor, photos: np.ndarray) -> None:
    """A model whose parts have these names may still compute another thing, such as a ReLU."""
    like = next(model.parameters())
    with evaluating(model):
        own = model((torch.from_numpy(photos) / 127.5 - 1).to(like)).float().cpu().softmax(1)
    if not (page - own).abs().max() < _ALIKE:
        raise ValueError(
            f"the page's answer of {type(model).__name__} differs from the model's by "
            f"{(page - own).abs().max():.2g}: expected a plain Vision Transformer, with GELU and "
            "LayerNorm before attention and MLP, that reads its class token"
        )
