"""The book's own model as a folder that the page ``photograph`` fetches."""

from pathlib import Path

from torch import Tensor, nn

from vitbook import datasets
from vitbook.export import export_page
from vitbook.export.page_manifest import Answers
from vitbook.layers import ClassAndMeanHead
from vitbook.models.weights.linear_heads import LinearHead, read_head, shipped_heads
from vitbook.models.weights.pretrained import PRETRAINED, load_pretrained
from vitbook.models.weights.saliency import load_saliency_decoder

NAME = "vit_small_patch14_focus"
SIZES = (224, 112)


class PageModel(nn.Module):
    """The body, the decoder that it was trained with, and each linear head that the book fitted."""

    def __init__(self, image_size: int):
        super().__init__()
        loaded = load_pretrained(NAME, image_size=image_size)
        self.body, self.normalize = loaded.model, loaded.normalize
        self.decoder = load_saliency_decoder(self.body)
        self.heads = nn.ModuleDict({name: _layer(head) for name, head in _heads().items()})

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        tokens = self.body.features(images)
        answers = {name: head(tokens) for name, head in self.heads.items()}
        # What the first block takes is no output of a block.
        return {"saliency": self.decoder(tokens), **answers, "embedded": self.body.embed(images)}


def _heads() -> dict[str, LinearHead]:
    return {name: read_head(path) for name, path in shipped_heads(NAME).items()}


def _layer(head: LinearHead) -> ClassAndMeanHead:
    layer = ClassAndMeanHead(head.weight.shape[1] // 2, len(head.class_names))
    layer.classifier.load_state_dict({"weight": head.weight, "bias": head.bias})
    return layer


def write_page_model(folder: str | Path, images: Tensor | None = None) -> dict:
    """:func:`vitbook.export.export_page` of the book's own model, in 8 bits.

    Args:
        images: uint8 "images 3 224 224" on which each graph is compared with torch; by default the
            nine photographs.

    Raises:
        ConnectionError, PackageError, MissingPackageError: as
            :func:`vitbook.load_pretrained`.
        ExportError, OSError: as :func:`vitbook.export.export_page`.
    """
    if images is None:
        images = datasets.load("photos", "all", image_size=max(SIZES)).images
    models, about = {size: PageModel(size) for size in SIZES}, PRETRAINED[NAME]
    return export_page(
        models, folder, images, next(iter(models.values())).normalize, name=NAME,
        about=f"{about['source']}, {about['terms']}; {about['learned']}", precision="int8",
        answers={name: _answers(name, head) for name, head in _heads().items()},
        map=("answer:saliency", "What draws the eye, says the model"), embedded="answer:embedded",
    )  # fmt: skip


def _answers(name: str, head: LinearHead) -> Answers:
    dataset, right = head.provenance["dataset"].partition(",")[0], head.provenance["accuracy"][0]
    return Answers(
        f"answer:{name}", f"{len(head.class_names)} classes of {dataset}", list(head.class_names),
        f"One linear layer on the tokens, which this book fitted on {dataset} at "
        f"{head.image_size} px. It is right on {right:.0%} of held-out images. ".replace("%", " %"),
    )  # fmt: skip
