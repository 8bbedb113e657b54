"""Linear heads on frozen bodies, on disk: small, with what they were fitted on."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
from jaxtyping import Float
from msgspec import Meta
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from vitbook.files import data_folder, write_atomically
from vitbook.model_utilities import digest
from vitbook.models.weights.formats import refusal
from vitbook.typed import typed


class HeadError(ValueError):
    """A file that is no linear head, or one for another body."""


@dataclass(frozen=True)
class LinearHead:
    """The weights of :class:`vitbook.layers.ClassAndMeanHead`.

    Attributes:
        weight: on the class token beside the mean of the patch tokens.
        bias: likewise.
        class_names: what each logit means.
        image_size: of the images that it was fitted on, in pixels.
        provenance: body and its digest, data set, accuracy on held-out images.
    """

    weight: Float[Tensor, "classes features"]
    bias: Float[Tensor, "classes"]
    class_names: tuple[str, ...]
    image_size: int
    provenance: dict


@dataclass
class _Words:
    """What stands beside the weights."""

    class_names: list[str]
    image_size: Annotated[int, Meta(ge=1)]
    provenance: dict


def save_head(path: str | Path, head: LinearHead) -> Path:
    """Write a head in float16, whole or not at all.

    Raises:
        HeadError: weights that are NaN or infinite, maybe only in float16.
        OSError: the file could not be written.
    """
    state = {"weight": head.weight.half().contiguous(), "bias": head.bias.half()}
    if not all(tensor.isfinite().all() for tensor in state.values()):
        raise HeadError(f"the head of {path} holds NaN or infinity as float16: not written")
    about = _Words(list(head.class_names), head.image_size, head.provenance)
    words = {"linear_head": json.dumps(asdict(about))}
    return write_atomically(path, save(state, metadata=words | {"digest": digest(state, words)}))


def read_head(path: str | Path) -> LinearHead:
    """A head that :func:`save_head` wrote.

    Raises:
        FileNotFoundError: no such file.
        HeadError: the file is damaged or no head.
    """
    path = Path(path)
    path.open("rb").close()  # says truly why it cannot be read, where safetensors does not
    try:
        with safe_open(path, framework="pt") as file:
            words = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}
        text = words["linear_head"]
        if words["digest"] != digest(state, {"linear_head": text}):
            raise HeadError("its bytes are not those that were written")
        about = typed(json.loads(text), _Words)
        rows = (len(about.class_names),)
        if not state["weight"].shape[:-1] == state["bias"].shape == rows:
            raise HeadError("it has not one row for each class")
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        damaged = (
            f"{path} is damaged or no linear head ({error}): copy it again, or fit one with "
            "`vitbook measure linear-probe`"
        )
        expected = "a head that `vitbook measure linear-probe` fitted"
        raise HeadError(refusal(path, expected, damaged)) from error
    return LinearHead(
        state["weight"].float(),
        state["bias"].float(),
        tuple(about.class_names),
        about.image_size,
        about.provenance,
    )


def shipped_heads(body: str) -> dict[str, Path]:
    """Data set -> file of the book's own heads for a body."""
    files = sorted((data_folder() / "heads").glob(f"{body}-*.safetensors"))
    return {file.stem.removeprefix(f"{body}-"): file for file in files}


def fill_head(model: torch.nn.Module, head: LinearHead) -> None:
    """Put a head's weights into a model that has room for them."""
    classifier = model.head.classifier
    if classifier.weight.shape != head.weight.shape:
        raise HeadError(
            f"a head of {tuple(head.weight.shape)} where {tuple(classifier.weight.shape)} fits: "
            "it was fitted on another body"
        )
    with torch.no_grad():
        classifier.weight.copy_(head.weight)
        classifier.bias.copy_(head.bias)
