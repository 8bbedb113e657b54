"""The pretrained model as files that a page fetches: graphs for several sizes, one set of weights.

A page has no disk to keep one file whole, and a cut download should not begin anew: so the weights
lie in pieces, each with its digest, and the graphs, which are small, share them.
"""

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from vitbook import datasets
from vitbook.export.onnx_file import Exported, export_onnx
from vitbook.files import write_atomically
from vitbook.layers import ClassAndMeanHead
from vitbook.models.weights.linear_heads import read_head, shipped_heads
from vitbook.models.weights.pretrained import PRETRAINED, load_pretrained, load_saliency_decoder

NAME = "vit_small_patch14_focus"
SIZES = (224, 112)
PIECE_BYTES = 4_000_000
WEIGHTS = "weights"  # the file that the graphs think their weights are in
SHARED = 1024  # smaller initialisers stay in their graph
ALIGNED = 64  # where a weight may begin: a runtime may read the file as it lies in memory


class PageModel(nn.Module):
    """The body, the decoder that it was trained with, and each linear head that the book fitted."""

    def __init__(self, image_size: int):
        super().__init__()
        loaded = load_pretrained(NAME, image_size=image_size)
        self.body, self.normalize = loaded.model, loaded.normalize
        self.decoder = load_saliency_decoder(self.body)
        self.heads = nn.ModuleDict({name: _layer(path) for name, path in _heads().items()})

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        tokens = self.body.features(images)
        answers = {name: head(tokens) for name, head in self.heads.items()}
        # What the first block takes is no output of a block.
        return {"saliency": self.decoder(tokens), **answers, "embedded": self.body.embed(images)}


def _heads() -> dict[str, Path]:
    return shipped_heads(NAME)


def _layer(path: Path) -> ClassAndMeanHead:
    head = read_head(path)
    layer = ClassAndMeanHead(head.weight.shape[1] // 2, len(head.class_names))
    layer.classifier.load_state_dict({"weight": head.weight, "bias": head.bias})
    return layer


def write_page_model(folder: str | Path, images: Tensor | None = None) -> dict:
    """Write graphs, pieces and ``manifest.json``, which names them, into a folder.

    Args:
        folder: made if it is not there; files of the same names are replaced.
        images: uint8 "images 3 224 224" on which each graph is compared with torch; by default the
            nine photographs.

    Returns:
        The manifest. ``sizes``: side in pixels -> its graph, its grid, and the largest difference
        of each output to torch's as a share of its largest number. ``pieces``: file, bytes, sha256.
        ``heads``: classes, the side that it was fitted at, and its accuracy there.

    Raises:
        ConnectionError, PackageError, MissingPackageError: as
            :func:`vitbook.load_pretrained`.
        ExportError: a graph computes something else than torch.
        OSError: the folder is not writable, or full.
    """
    folder, shared, sizes = Path(folder), Shared(WEIGHTS, SHARED), {}
    if images is None:
        images = datasets.load("photos", "all", image_size=max(SIZES)).images
    for size in SIZES:
        with TemporaryDirectory() as temporary:
            exported = _export(size, Path(temporary) / "model.onnx", images)
            graph = onnx.load(exported.path)
        shared.move(graph)
        content = graph.SerializeToString()
        write_atomically(folder / f"{size}.onnx", content)
        sizes[size] = {
            "graph": f"{size}.onnx", "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(), "grid": [size // 14, size // 14],
            "errors": dict(exported.errors),
        }  # fmt: skip
    pieces = []
    for start in range(0, len(shared.content), PIECE_BYTES):
        piece = bytes(shared.content[start : start + PIECE_BYTES])
        file = f"{WEIGHTS}-{len(pieces):02}.bin"
        write_atomically(folder / file, piece)
        digest = hashlib.sha256(piece).hexdigest()
        pieces.append({"file": file, "bytes": len(piece), "sha256": digest})
    manifest = {
        "name": NAME, "about": PRETRAINED[NAME], "weights": WEIGHTS, "sizes": sizes,
        "pieces": pieces, "heads": {name: _about(path) for name, path in _heads().items()},
    }  # fmt: skip
    write_atomically(folder / "manifest.json", json.dumps(manifest, indent=1).encode())
    return manifest


def _export(size: int, path: Path, images: Tensor) -> Exported:
    model = PageModel(size)
    if images.shape[-1] != size:
        images = nn.functional.interpolate(
            images.float(), size=(size, size), mode="bilinear", antialias=True
        )
        images = images.round().to(torch.uint8)
    return export_onnx(
        model, path, images, model.normalize, attention=True, tokens=True, precision="int8",
        free_batch=False, about={"model": NAME, "weights": PRETRAINED[NAME]["source"]},
    )  # fmt: skip


def _about(path: Path) -> dict:
    head = read_head(path)
    return {
        "classes": list(head.class_names),
        "size": head.image_size,
        "dataset": head.provenance["dataset"],
        "accuracy": head.provenance["accuracy"],
    }


class Shared:
    """What graphs have in common.

    Args:
        location: name of the file, as the graphs say it.
        smallest: in bytes; what is smaller stays in its graph.

    Attributes:
        content: of the file.
    """

    def __init__(self, location: str, smallest: int):
        self.location, self.smallest = location, smallest
        self.content = bytearray()
        self._places: dict[bytes, int] = {}

    def move(self, graph: onnx.ModelProto) -> None:
        """Take each large initialiser out of a graph; it says from then on where it lies."""
        for weight in graph.graph.initializer:
            # As bytes, whichever of its fields held them.
            values = numpy_helper.to_array(weight).tobytes()
            if len(values) < self.smallest:
                continue
            if values not in self._places:
                self.content += bytes(-len(self.content) % ALIGNED)
                self._places[values] = len(self.content)
                self.content += values
            kept = onnx.TensorProto(name=weight.name, data_type=weight.data_type, dims=weight.dims)
            kept.data_location = onnx.TensorProto.EXTERNAL
            place = (self.location, self._places[values], len(values))
            for key, value in zip(("location", "offset", "length"), place, strict=True):
                kept.external_data.add(key=key, value=str(value))
            weight.CopyFrom(kept)
