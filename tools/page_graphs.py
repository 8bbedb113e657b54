"""The book's own models as a folder that the page ``photograph`` fetches: one graph of both."""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitbook import datasets
from vitbook.analysis import list_blocks
from vitbook.export import export_page
from vitbook.export.page_manifest import Answers
from vitbook.layers import ClassAndMeanHead
from vitbook.models.weights.efficientnet_lite import SIZES as TRAINED_AT
from vitbook.models.weights.efficientnet_lite import class_kinds, class_names
from vitbook.models.weights.linear_heads import LinearHead, read_head, shipped_heads
from vitbook.models.weights.pretrained import PRETRAINED, load_pretrained
from vitbook.models.weights.saliency import load_saliency_decoder
from vitbook.studies.photograph import LEAST, error_rates
from vitbook.studies.photograph import NAME as NAMER

NAME = "vit_small_patch14_focus"
SIDE, PATCH = 224, 14
# Of the heads that the book fitted on the ViT's tokens: one for Tiny-ImageNet names few photographs
# rightly, and is left out.
READ = ("cifar10", "tf_flowers")


class PageModel(nn.Module):
    """The ViT with its decoder and the book's heads, and beside it a network that knows names.

    It takes pixels as they are, uint8, of any size that the patches divide. The other network sees
    their middle square, at the size that it was trained at.
    """

    def __init__(self):
        super().__init__()
        loaded = load_pretrained(NAME)
        self.body, self.normalize = loaded.model, loaded.normalize
        self.decoder = load_saliency_decoder(self.body)
        self.heads = nn.ModuleDict({name: _layer(head) for name, head in _heads().items()})
        namer = load_pretrained(NAMER)
        self.namer, self.normalize_for_namer = namer.model, namer.normalize

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        size = tuple(pixels.shape[2:])
        images = self.normalize(pixels)
        tokens = self.body.features(images)
        answers = {name: head(tokens) for name, head in self.heads.items()}
        saliency = self.decoder(tokens, tuple(side // PATCH for side in size), size)
        # What the first block takes is no output of a block.
        return {
            "imagenet": self._named(pixels), "saliency": saliency, **answers,
            "embedded": self.body.embed(images),
        }  # fmt: skip

    def _named(self, pixels: Tensor) -> Tensor:
        height, width = pixels.shape[2:]
        side = torch.sym_min(height, width)
        pixels = pixels[:, :, (height - side) // 2 :][:, :, :side]
        pixels = pixels[..., (width - side) // 2 :][..., :side]
        size = (TRAINED_AT[NAMER], TRAINED_AT[NAMER])
        return self.namer(F.interpolate(self.normalize_for_namer(pixels), size, mode="bilinear"))


def shown_blocks(model: PageModel) -> list[str]:
    """Paths of the ViT's blocks; those of the other network give no tokens."""
    return [path for path in list_blocks(model) if path.startswith("body.")]


def _heads() -> dict[str, LinearHead]:
    return {dataset: read_head(shipped_heads(NAME)[dataset]) for dataset in READ}


def _layer(head: LinearHead) -> ClassAndMeanHead:
    layer = ClassAndMeanHead(head.weight.shape[1] // 2, len(head.class_names))
    layer.classifier.load_state_dict({"weight": head.weight, "bias": head.bias})
    return layer


def write_page_model(folder: str | Path, images: Tensor | None = None) -> dict:
    """:func:`vitbook.export.export_page` of the book's own models, in 8 bits.

    Args:
        images: uint8 "images 3 height width" on which the graph is compared with torch; by default
            the nine photographs.

    Raises:
        ConnectionError, PackageError, MissingPackageError: as
            :func:`vitbook.load_pretrained`.
        ExportError, OSError: as :func:`vitbook.export.export_page`.
    """
    if images is None:
        images = datasets.load("photos", "all", image_size=SIDE).images
    sources = ("{source}, {terms}; {learned}".format(**PRETRAINED[name]) for name in (NAME, NAMER))
    model = PageModel()
    return export_page(
        model, folder, images, lambda pixels: pixels, name=NAME, about=". ".join(sources),
        free_size=True, precision="int8", answers={"imagenet": _names()}
        | {name: _answers(name, head) for name, head in _heads().items()},
        map=("answer:saliency", "What draws the eye, says the ViT"), embedded="answer:embedded",
        blocks=shown_blocks(model),
    )  # fmt: skip


def _names() -> Answers:
    return Answers(
        "answer:imagenet", "Names: 1,000 classes of ImageNet, by EfficientNet-Lite0",
        list(class_names()),
        "EfficientNet-Lite0 is a convolutional network. It learned 1,000 names from the labels of "
        f"ImageNet. {error_rates()}".replace("%", "\u00a0%"),
        list(class_kinds()), LEAST,
    )  # fmt: skip


def _answers(name: str, head: LinearHead) -> Answers:
    dataset, right = head.provenance["dataset"].partition(",")[0], head.provenance["accuracy"][0]
    return Answers(
        f"answer:{name}", f"{len(head.class_names)} classes of {dataset}, by the ViT's tokens",
        list(head.class_names),
        "The ViT has learned no names. This book fitted one linear layer on its last tokens, with "
        f"{dataset} at {head.image_size} px. The layer is right on {right:.0%} of held-out images "
        "of these classes.".replace("%", "\u00a0%"),
    )  # fmt: skip
