"""A set of answers: learned queries read an image, each tells one object or none."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers import (
    MLP,
    Encoder,
    EncoderBlock,
    OverlappingPatches,
    SelfAttention,
    SinusoidPosition2D,
    xavier_uniform_,
)
from vitbook.layers.initialization import linear
from vitbook.layers.shapes import Images, Tokens
from vitbook.studies.detection.attention import (
    CrossAttention,
    DeformableCrossAttention,
    NoMixing,
    Queries,
    ReferencePoints,
)
from vitbook.studies.detection.canvases import CLASSES, SIDE

PATCH, WIDTH, HEADS, DEPTH, MLP_WIDTH = 5, 64, 4, 2, 128
NUM_QUERIES = 10


class Answers(NamedTuple):
    """What the queries say.

    Attributes:
        logits: of the classes, and behind them of "no object".
        boxes: centre x, centre y, width and height, in shares of the image.
    """

    logits: Float[Tensor, "batch queries classes_and_none"]
    boxes: Float[Tensor, "batch queries 4"]


class DecoderBlock(nn.Module):
    r"""Queries see one another, then the image, then think alone; Pre-LN.

    .. math::
        q' = q + \mathrm{MSA}(\mathrm{LN}(q)), \quad q'' = q' + \mathrm{MCA}(\mathrm{LN}(q'), T),
        \quad q''' = q'' + \mathrm{MLP}(\mathrm{LN}(q''))

    Carion et al. 2020, section 3.2 and figure 10, where the norms stand behind the shortcuts and
    positions are added again in each block.

    Args:
        attention: among the queries; takes queries.
        cross_attention: from queries to the image; takes queries and tokens.
        mlp: works on each query.
        width: of a query.
    """

    def __init__(
        self, attention: nn.Module, cross_attention: nn.Module, mlp: nn.Module, width: int
    ):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = attention
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.cross_attention = cross_attention
        self.norm3 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = mlp

    def forward(self, queries: Queries, tokens: Tokens) -> Queries:
        queries = queries + self.attention(self.norm1(queries))
        queries = queries + self.cross_attention(self.norm2(queries), tokens)
        return queries + self.mlp(self.norm3(queries))


class Decoder(nn.Module):
    """Blocks, and one norm for what comes out of each."""

    def __init__(self, blocks: Sequence[nn.Module], width: int):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, queries: Queries, tokens: Tokens) -> list[Queries]:
        """The queries behind each block, normed."""
        found = []
        for block in self.blocks:
            queries = block(queries, tokens)
            found.append(self.norm(queries))
        return found


class BoxHead(nn.Module):
    """Three layers on each query, and a sigmoid: a box inside the image (section 3.2).

    Args:
        references: if given, the centre is told from the query's reference point, as in Zhu et al.
            2021, section 4.1.
    """

    def __init__(self, width: int, references: ReferencePoints | None = None):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), linear(width, 4)
        )
        self.references = references

    def forward(self, queries: Queries) -> Float[Tensor, "batch queries 4"]:
        told = self.layers(queries)
        if self.references is not None:
            told = told + nn.functional.pad(self.references.logits, (0, 2))
        return told.sigmoid()


class Detector(nn.Module):
    r"""Image to tokens, tokens through an encoder; queries read them and answer.

    Carion et al. 2020, "End-to-end object detection with Transformers" (DETR), figure 2. Patches
    stand where the paper has a convolutional network. Queries are learned vectors; which object a
    query tells, the loss decides (:func:`~.matching.set_loss`).

    Args:
        tokenizer: images to patch tokens.
        position: tells a token its position.
        encoder: tokens to tokens.
        decoder: queries and tokens to queries, behind each block.
        class_head: a query to logits of the classes and of "no object".
        box_head: a query to a box.
        num_queries: answers to each image.
        width: of a query.
    """

    def __init__(
        self,
        tokenizer: nn.Module,
        position: nn.Module,
        encoder: nn.Module,
        decoder: nn.Module,
        class_head: nn.Module,
        box_head: nn.Module,
        *,
        num_queries: int,
        width: int,
    ):
        super().__init__()
        self.tokenizer = tokenizer
        self.position = position
        self.encoder = encoder
        self.queries = nn.Parameter(torch.randn(num_queries, width))
        self.decoder = decoder
        self.class_head = class_head
        self.box_head = box_head

    @property
    def grid_size(self) -> tuple[int, int]:
        """(rows, columns) of the patch tokens."""
        return self.tokenizer.grid_size

    @property
    def num_queries(self) -> int:
        return len(self.queries)

    def answers(self, images: Images) -> list[Answers]:
        """What the queries say behind each block of the decoder, by the same two heads.

        All of them learn, the last one answers: the paper's auxiliary losses.
        """
        tokens = self.encoder(self.position(self.tokenizer(images)))
        queries = repeat(self.queries, "q d -> b q d", b=len(images))
        behind = self.decoder(queries, tokens)
        return [Answers(self.class_head(each), self.box_head(each)) for each in behind]

    def forward(self, images: Images) -> Answers:
        return self.answers(images)[-1]


def make_detector(
    num_queries: int = NUM_QUERIES,
    mixing: bool = True,
    deformable: bool = False,
) -> Detector:
    """The chapter's detector, for canvases of 40 x 40 pixels.

    Args:
        mixing: whether queries attend to one another.
        deformable: whether queries read a few points around a reference point of their own, from
            which their boxes are told too, instead of all tokens.
    """
    tokenizer = OverlappingPatches(SIDE, PATCH, 1, WIDTH)
    places = ReferencePoints(num_queries) if deformable else None

    def reads_image() -> nn.Module:
        if deformable:
            return DeformableCrossAttention(WIDTH, HEADS, tokenizer.grid_size, places)
        return CrossAttention(WIDTH, HEADS)

    model = Detector(
        tokenizer=tokenizer,
        position=SinusoidPosition2D(tokenizer.grid_size, WIDTH, num_prefix_tokens=0),
        encoder=Encoder(
            [
                EncoderBlock(SelfAttention(WIDTH, HEADS), MLP(WIDTH, MLP_WIDTH), WIDTH)
                for _ in range(DEPTH)
            ],
            WIDTH,
        ),
        decoder=Decoder(
            [
                DecoderBlock(
                    attention=SelfAttention(WIDTH, HEADS) if mixing else NoMixing(),
                    cross_attention=reads_image(),
                    mlp=MLP(WIDTH, MLP_WIDTH),
                    width=WIDTH,
                )
                for _ in range(DEPTH)
            ],
            WIDTH,
        ),
        class_head=linear(WIDTH, CLASSES + 1),
        box_head=BoxHead(WIDTH, places),
        num_queries=num_queries,
        width=WIDTH,
    )
    xavier_uniform_(model)  # as the authors begin
    for block in model.decoder.blocks if deformable else ():
        block.cross_attention.spread()
    return model
