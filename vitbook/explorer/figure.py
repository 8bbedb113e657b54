"""A figure is its data, and one ES module that draws it and makes it move."""

import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)


@cache
def _source(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


@cache
def _style(module: str) -> str:
    """The style of all figures, and of one that has its own beside its module."""
    own = files(__package__) / f"{module.removesuffix('.js')}.css"
    return _source("figure.css") + (_source(own.name) if own.is_file() else "")


def _needs(name: str) -> list[str]:
    """A module after everything that it imports."""
    names = [each for other in _IMPORT.findall(_source(name)) for each in _needs(other)]
    return [*dict.fromkeys(names), name]


def _script(module: str, root_id: str) -> str:
    """The module and what it imports as one inline script, which also runs from a plain file."""
    parts = [_IMPORT.sub("", _source(name)) for name in dict.fromkeys(_needs(module))]
    return "\n".join([*parts, f'boot("{root_id}", render);']).replace("</", r"<\/")


def piece_key(text: str) -> str:
    """Sixteen hex digits that name a text."""
    return hashlib.sha1(text.encode()).hexdigest()[:16]


_AT_START = re.compile(r"(At|Shown at) the start\b")


@dataclass(frozen=True, repr=False)
class Figure:
    """One self-contained output for a built page, JupyterLab and Colab.

    Args:
        module: file name of the ES module; it exports `render(root, data)`.
        data: what the module draws; plain JSON.
        title: the claim that the figure makes.
        description: where to look, and the finding in words. Of one that begins with "At the
            start", the first line is shown until the reader moves something.
        pieces: text that is too much to come with the page; the module asks for each by its
            :func:`piece_key`, and a built page keeps each in a file of its own.
        still: HTML of the start, of a figure whose start no script but a browser's can draw, since
            it decodes a photograph. The start of all others is drawn when a book is built.
    """

    module: str
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
            f'<div class="vitbook-figure" id="{root_id}" data-module="{self.module}" role="group"'
            f' aria-label="{escape(self.title)}">\n'
            f"<style>{_style(self.module)}</style>\n"
            f'<p class="vb-title">{escape(self.title)}</p>\n'
            f'<div class="vb-still">{self.still}</div>\n'
            f'<p class="vb-caption">{_caption(self.description)}</p>\n'
            f'<script type="application/json" class="vb-data" data-key="{self.key}">'
            f"{self.json}</script>\n"
            f"{self._pieces()}"
            f'<script type="module">\n{_script(self.module, root_id)}\n</script>\n</div>'
        )

    def _pieces(self) -> str:
        return "".join(
            f'<script type="application/json" class="vb-piece" data-key="{key}">"{text}"</script>\n'
            for key, text in {piece_key(text): text for text in self.pieces}.items()
        )

    def __repr__(self) -> str:
        return f"<Figure {self.module.removesuffix('.js')}: {self.title}>"


def at_the_start(finding: str) -> str:
    """A finding as a caption, whose first line leaves when the reader moves something."""
    return f"At the start: {finding[:1].lower()}{finding[1:]}"


def _caption(description: str) -> str:
    """The caption as HTML: what is true at the start alone stands apart, and ends with its line."""
    if not _AT_START.match(description):
        return escape(description)
    finding, _, reading = description.partition("\n")
    return f'<span class="vb-at-start">{escape(finding)}</span> {escape(reading)}'.rstrip()
