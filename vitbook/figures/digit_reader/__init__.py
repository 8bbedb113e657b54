"""A trained Vision Transformer that runs in the reader's browser."""

import torch
from torch import Tensor, nn

from vitbook.figures.parts.drawing import CIVIDIS, as_array, as_images, base64, image_png
from vitbook.figures.parts.figure import Figure, at_the_start
from vitbook.figures.parts.plain_vit import (
    answer,
    count_heads,
    encode,
    page_weights,
    shapes,
    values,
)

_LEVELS, _CLASSES = 16, "0123456789"


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights of a model of grey images with one class token."""
    weights = page_weights(model)
    prefix, channels = len(weights["prefix"]), weights["tokenizer.projection.weight"].shape[1]
    if (prefix, channels) != (1, 1):
        raise ValueError(
            f"{type(model).__name__} has {prefix} prefix tokens and {channels} channels, expected "
            "one of each: pass a model of grey images with one class token"
        )
    return weights


def forward(weights: dict[str, Tensor], num_heads: int, images: Tensor) -> tuple[Tensor, Tensor]:
    """What `figure.js` computes: logits, and attention "layers b heads queries keys"."""
    tokens, maps = encode(weights, num_heads, images)
    return answer(weights, "head.classifier", tokens[:, 0]), maps


def digit_reader(
    model: nn.Module,
    examples,
    *,
    task: str = "Draw a digit that you can read and the model cannot.",
    title: str = "A Vision Transformer reads while you write",
    description: str | None = None,
) -> Figure:
    """A pad to draw on, and what the model makes of every stroke, computed in the page.

    Args:
        model: a plain Vision Transformer of small grey images with one class token.
        examples: held-out images and labels, as a data set or a pair: uint8 "n 1 h w", ints "n".
    """
    weights = _weights(model)
    num_heads = count_heads(model)
    given = (examples.images, examples.labels) if hasattr(examples, "images") else examples
    images, labels = as_images(given[0]), as_array(given[1]).astype(int)
    rows, columns = images.shape[-2:]
    patch = list(weights["tokenizer.projection.weight"].shape[2:])
    tokens, width = weights["position.table"].shape
    if (rows // patch[0]) * (columns // patch[1]) + 1 != tokens:
        raise ValueError(
            f"examples came as {rows} x {columns}, expected {tokens - 1} patches of "
            f"{patch[0]}x{patch[1]}: pass the images the model was trained on"
        )
    logits, maps = forward(weights, num_heads, torch.from_numpy(images))
    probabilities = logits.softmax(-1).numpy()
    data = {
        "size": [rows, columns], "patch": patch, "width": width, "heads": num_heads,
        "depth": len(maps), "levels": _LEVELS, "classes": list(_CLASSES),
        "examples": [
            {"pixels": image.ravel().tolist(), "image": image_png(image), "label": int(label)}
            for image, label in zip(images, labels, strict=True)
        ],
        "weights": shapes(weights), "values": base64(values(weights)),
        "ramp": CIVIDIS, "task": task,
    }  # fmt: skip
    read = int(probabilities[0].argmax())
    finding = (
        f"The first example is a {_CLASSES[labels[0]]}; the model reads {_CLASSES[read]} "
        f"with probability {probabilities[0, read]:.2f}."
    )
    return Figure("digit_reader", data, title, description or at_the_start(finding))
