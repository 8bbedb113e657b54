"""What stands in the folder of a page's model: ``manifest.json``, and the files that it names."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from vitbook.files import write_atomically
from vitbook.typed import FileName, typed

FILE, FORMAT = "manifest.json", "vitbook page model 2"
# What a page takes, in bytes: a browser keeps the files, and float32 of their weights beside them.
MOST_PAGE_BYTES = 400_000_000
MOST_SIDE = 2048  # pixels

Count = Annotated[int, Meta(ge=1)]
# The lengths that each axis of an output may have; None: any.
Sides = tuple[set[int] | None, ...]


@dataclass(frozen=True)
class Piece:
    """A file: its name, its length and its digest."""

    file: FileName
    bytes: Count
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Output:
    """What a graph gives: its shape, and how far it is from torch's, of the largest number."""

    shape: list[Count]
    error: float


@dataclass(frozen=True)
class Size:
    """The model for images of one size.

    Attributes:
        grid: rows and columns of its patches; None of a model that has no such grid.
        macs: multiply-adds of an image.
        outputs: by name.
        check: an output, and what torch gives there for :func:`~vitbook.export.page_model.pattern`.
    """

    grid: list[Count] | None
    macs: Annotated[int, Meta(ge=0)]
    outputs: dict[str, Output]
    check: tuple[str, list[float]]


@dataclass(frozen=True)
class Layer:
    """A block or an attention: the names of its outputs, or None where it has none to show."""

    name: str
    tokens: str | None = None
    attention: str | None = None


@dataclass(frozen=True)
class Answers:
    """Logits among which a page finds the likeliest classes.

    Attributes:
        output: its name.
        label: in words.
        classes: what each logit means; None if nobody says it.
        about: a sentence or two on where they come from.
        kinds: what several classes are, as "cat" of six; "" of a class that stands alone.
        least: probability from which a page names a class, or else the kind of the likeliest; below
            it the page says that the model does not know. None: the likeliest is always named.
    """

    output: str
    label: str
    classes: list[str] | None
    about: str = ""
    kinds: list[str] | None = None
    least: Annotated[float, Meta(gt=0, lt=1)] | None = None


@dataclass(frozen=True)
class Manifest:
    """The model of a page.

    Attributes:
        about: where its weights come from, in words.
        channels: of the pixels that it takes.
        prefix: tokens in front of the patches.
        graph: the ONNX file, whose large weights lie in the pieces.
        sizes: "height x width" in pixels, as "224x168" -> what is for images of that size.
        weights: the file in which the graph thinks its weights are: the ``pieces``, in turn.
        lacks: what a page leaves out, and why.
        map: an output "1 height width" from 0 to 1 to lay over the image, and its title.
        embedded: an output: the tokens that enter the first layer.
    """

    name: str
    about: str
    precision: str
    channels: Count
    prefix: Annotated[int, Meta(ge=0)]
    graph: Piece
    sizes: dict[str, Size]
    weights: str
    pieces: list[Piece]
    layers: list[Layer]
    answers: dict[str, Answers]
    lacks: list[str] = field(default_factory=list)
    map: tuple[str, str] | None = None
    embedded: str | None = None
    format: str = FORMAT

    @property
    def files(self) -> list[Piece]:
        """All files but the manifest itself."""
        return [self.graph, *self.pieces]

    def __post_init__(self):
        """Held against itself, as ``readManifest`` of ``photo_manifest.js`` does in the page."""
        for told, right in self._laws():
            if not right:
                raise ValueError(f"it is wrong about {told}")

    def _laws(self) -> Iterator[tuple[str, bool]]:
        yield f"the channels, {self.channels}: a page gives 1 or 3", self.channels in (1, 3)
        most = sum(each.bytes for each in self.files)
        yield f"its {most:,} bytes: a page takes {MOST_PAGE_BYTES:,}", most <= MOST_PAGE_BYTES
        yield "its sizes: it has none", bool(self.sizes)
        for sides, size in self.sizes.items():
            of, grid = f"for images of {sides} px", size.grid
            height, by, width = sides.partition("x")
            whole = bool(by) and {height, width} <= set(map(str, range(1, MOST_SIDE + 1)))
            yield f"images of {sides} px: two whole numbers to {MOST_SIDE}, as 224x168", whole
            divides = grid is None or (
                len(grid) == 2 and int(height) % grid[0] == int(width) % grid[1] == 0
            )
            yield f"the grid {of}, {grid}: rows and columns that divide it", divides
            name, numbers = size.check
            right = name in size.outputs and bool(numbers)
            yield f"what torch gives {of}, {name}", right
            if self.map is not None:
                shape = size.outputs[self.map[0]].shape if self.map[0] in size.outputs else []
                right = bool(shape) and math.prod(shape) == int(height) * int(width)
                yield f"the shape of {self.map[0]} {of}, {shape}: a number for each pixel", right
            for output, sides in self._shown(math.prod(grid) if grid else -1):
                shape = size.outputs[output].shape if output in size.outputs else None
                yield f"the shape of {output} {of}, {shape}", _fits(shape, sides)

    def _shown(self, cells: int) -> Iterator[tuple[str, Sides | None]]:
        """Each output that a page shows, and the sides that it may have there."""
        tokens = cells + self.prefix
        for layer in self.layers:
            if layer.tokens is not None:
                yield layer.tokens, ({1}, {cells, tokens}, None)
            if layer.attention is not None:
                yield layer.attention, ({1}, None, {tokens}, {tokens})
        for each in self.answers.values():
            for words in (each.classes, each.kinds):
                yield each.output, ({1}, None if words is None else {len(words)})
        if self.embedded is not None:
            yield self.embedded, None


def _fits(shape: list[int] | None, sides: Sides | None) -> bool:
    if shape is None or sides is None:
        return shape is not None
    return len(shape) == len(sides) and all(
        may is None or side in may for side, may in zip(shape, sides, strict=True)
    )


def piece_of(file: str, content: bytes) -> Piece:
    return Piece(file, len(content), hashlib.sha256(content).hexdigest())


def write_page_folder(folder: Path, manifest: Manifest, files: Mapping[str, bytes]) -> dict:
    """Files by name, and the manifest, as what comes back, last: a folder cut short has none."""
    if (folder / FILE).is_file():  # of an earlier model, which may have had more pieces
        for old in (folder / FILE, *folder.glob(f"{manifest.weights}-[0-9][0-9].bin")):
            old.unlink()
    for file, content in files.items():
        write_atomically(folder / file, content)
    words = asdict(manifest)
    write_atomically(folder / FILE, json.dumps(words, indent=1, allow_nan=False).encode())
    return words


def read_page_model(folder: str | Path) -> tuple[dict, dict[str, bytes]]:
    """A folder that :func:`~vitbook.export.export_page` wrote: its manifest, and its files by name.

    Raises:
        FileNotFoundError: no manifest, or a file that it names is not there.
        ValueError: it is no manifest, or a file has other bytes than it says.
        OSError: a file cannot be read.
    """
    folder = Path(folder)
    if not (folder / FILE).is_file():
        raise FileNotFoundError(
            f"{folder} holds no {FILE}: expected a folder that `vitbook export MODEL --page "
            f"{folder}` wrote"
        )
    try:
        words = json.loads((folder / FILE).read_text("utf-8"), parse_constant=_no_number)
        came = words.get("format") if isinstance(words, dict) else None
        if came != FORMAT:
            raise ValueError(f"its format is {came!r}, expected {FORMAT!r}")
        manifest = typed(words, Manifest)
    except ValueError as error:
        raise ValueError(f"{folder / FILE}: {error}; export the model again") from error
    return words, {each.file: _read(folder, each) for each in manifest.files}


def _no_number(came: str) -> None:
    raise ValueError(f"{came}: expected a number")


def _read(folder: Path, piece: Piece) -> bytes:
    path = folder / piece.file
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing, which {FILE} names: copy the whole folder")
    content = path.read_bytes()
    if len(content) != piece.bytes:
        raise ValueError(
            f"{path} has {len(content):,} bytes, {FILE} says {piece.bytes:,}: copy it again"
        )
    if hashlib.sha256(content).hexdigest() != piece.sha256:
        raise ValueError(f"{path} has other bytes than were written: copy it again")
    return content
