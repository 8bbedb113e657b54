"""A figure is its data, and one ES module that draws it and makes it move."""

import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from posixpath import dirname, join, normpath

_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[a-z_./]+\.js)";\n', re.MULTILINE)
_COMMENT = re.compile(r"^ */\*\*.*?\*/\n|^ *//[^\n]*\n", re.MULTILINE | re.DOTALL)
_ROOM = __package__.rpartition(".")[0]


@cache
def _source(name: str) -> str:
    """A file of this room by its path, such as ``soft_lookup/figure.js``."""
    return (files(_ROOM) / name).read_text(encoding="utf-8")


@cache
def _style(name: str) -> str:
    """The style of all figures, and of one that has its own."""
    own = f"{name}/figure.css"
    return _source("parts/figure.css") + (_source(own) if (files(_ROOM) / own).is_file() else "")


def _needs(module: str) -> list[str]:
    """A module after everything that it imports."""
    others = (normpath(join(dirname(module), path)) for path in _IMPORT.findall(_source(module)))
    return [*dict.fromkeys(each for other in others for each in _needs(other)), module]


def in_line(module: str) -> str:
    """A module as a page carries it: without imports, and without the comments that are for us."""
    return _COMMENT.sub("", _IMPORT.sub("", module))


def _script(name: str, root_id: str) -> str:
    """A figure's module and what it imports as one inline script, which also runs from a file."""
    parts = [in_line(_source(module)) for module in _needs(f"{name}/figure.js")]
    return "\n".join([*parts, f'boot("{root_id}", render);']).replace("</", r"<\/")


def piece_key(text: str) -> str:
    """Sixteen hex digits that name a text."""
    return hashlib.sha1(text.encode()).hexdigest()[:16]


_AT_START = re.compile(r"(At|Shown at) the start\b")


@dataclass(frozen=True, repr=False)
class Figure:
    """One self-contained output for a built page, JupyterLab and Colab.

    Args:
        name: of its folder, whose ES module ``figure.js`` exports ``render(root, data)``.
        data: what it draws; plain JSON.
        title: the claim that the figure makes.
        description: where to look, and the finding in words. Of one that begins with "At the
            start", the first line is shown until the reader moves something.
        pieces: text that is too much to come with the page; the module asks for each by its
            :func:`piece_key`, and a built page keeps each in a file of its own.
        still: HTML of the start, of a figure whose start no script but a browser's can draw, since
            it decodes a photograph. The start of all others is drawn when a book is built.
    """

    name: str
    data: dict
    title: str
    description: str
    pieces: tuple[str, ...] = ()
    still: str = ""

    @property
    def json(self) -> str:
        """The data as it stands in the page: no `<`, so that it cannot close its script."""
        text = json.dumps(self.data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.replace("<", r"\u003c")

    @property
    def key(self) -> str:
        """Sixteen hex digits that name the data."""
        return piece_key(self.json)

    def _repr_html_(self) -> str:
        # A fresh id each time: a module script cannot ask where it stands in the page.
        root_id = f"vb-{self.key}-{secrets.token_hex(4)}"
        return (
            f'<div class="vitbook-figure" id="{root_id}" data-figure="{self.name}" role="group"'
            f' aria-label="{escape(self.title)}">\n'
            f"<style>{_style(self.name)}</style>\n"
            f'<p class="vb-title">{escape(self.title)}</p>\n'
            f'<div class="vb-still">{self.still}</div>\n'
            f'<p class="vb-caption">{_caption(self.description)}</p>\n'
            f'<script type="application/json" class="vb-data" data-key="{self.key}">'
            f"{self.json}</script>\n"
            f"{self._pieces()}"
            f'<script type="module">\n{_script(self.name, root_id)}\n</script>\n</div>'
        )

    def _pieces(self) -> str:
        return "".join(
            f'<script type="application/json" class="vb-piece" data-key="{key}">"{text}"</script>\n'
            for key, text in {piece_key(text): text for text in self.pieces}.items()
        )

    def __repr__(self) -> str:
        return f"<Figure {self.name}: {self.title}>"


def at_the_start(finding: str) -> str:
    """A finding as a caption, whose first line leaves when the reader moves something."""
    return f"At the start: {finding[:1].lower()}{finding[1:]}"


def _caption(description: str) -> str:
    """The caption as HTML: what is true at the start alone stands apart, and ends with its line."""
    if not _AT_START.match(description):
        return escape(description)
    finding, _, reading = description.partition("\n")
    return f'<span class="vb-at-start">{escape(finding)}</span> {escape(reading)}'.rstrip()
