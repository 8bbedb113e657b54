"""A mechanism drawn: boxes, and arrows with the shapes that go along them."""

import io
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Union

from einops import rearrange
from PIL import Image
from torch import Tensor

# Not Sequence["Part"]: a name that stands for itself is checked at random, and found now and then.
Part = Union[str, Tensor, Sequence, "Diagram"]

ARROW = "→"


@dataclass(frozen=True, repr=False)
class Diagram:
    """Parts in the order in which something goes through them.

    A text is a box, its first line the name and the others small; one that begins with an arrow
    tells what goes from the box before to the next, mostly a shape. An image "channels height
    width" of uint8 stands for itself. A list of lists are ways that lie beside each other.

    Examples:
        >>> Diagram(["tokens", "→ 17 × 64", [["queries"], ["keys"]], "softmax"])
        <Diagram: tokens → 17 × 64 → (queries | keys) → softmax>
    """

    parts: Sequence[Part]
    title: str = ""

    def _repr_html_(self) -> str:
        title = f"<p>{escape(self.title)}</p>" if self.title else ""
        told = escape(f"{self.title}: {_told(self.parts)}".removeprefix(": "))
        drawn = f'<div role="img" aria-label="{told}">{_way(self.parts)}</div>'
        style = files("vitbook.plots").joinpath("diagram.css").read_text(encoding="utf-8")
        return f'<div class="vb-diagram"><style>{style}</style>{title}{drawn}</div>'

    def __repr__(self) -> str:
        return f"<Diagram: {_told(self.parts)}>"


def _is_arrow(part: Part) -> bool:
    return isinstance(part, str) and part.startswith(ARROW)


def _way(parts: Sequence[Part]) -> str:
    """Parts one after the other, with an arrow between any two."""
    drawn: list[str] = []
    arrow = ""  # the next one, with what it tells
    for part in parts:
        if _is_arrow(part):
            arrow = _arrow(str(part).removeprefix(ARROW).strip())
            continue
        drawn += [arrow or (_arrow() if drawn else ""), _part(part)]
        arrow = ""
    drawn.append(arrow)
    return f'<div class="vb-way">{"".join(drawn)}</div>'


def _arrow(told: str = "") -> str:
    return f'<span class="vb-to">{escape(told)}</span>'


def _part(part: Part) -> str:
    if isinstance(part, Diagram):
        title = f"<p>{escape(part.title)}</p>" if part.title else ""
        return f'<div class="vb-frame">{title}{_way(part.parts)}</div>'
    if isinstance(part, Tensor):
        out = io.BytesIO()
        pixels = rearrange(part, "c h w -> h w c").squeeze(-1).numpy()
        Image.fromarray(pixels).save(out, "WEBP", lossless=True)
        data = b64encode(out.getvalue()).decode()
        return f'<img alt="" src="data:image/webp;base64,{data}">'
    if isinstance(part, str):
        name, *more = map(escape, part.splitlines())
        small = f"<small>{'<br>'.join(more)}</small>" if more else ""
        kind = "vb-box vb-sum" if part == "+" else "vb-box"
        return f'<div class="{kind}">{name}{small}</div>'
    if odd := [way for way in part if isinstance(way, str)]:
        raise TypeError(
            f"{odd[0]!r} stands where a way was expected: ways beside each other are a list of "
            "lists, as [[...], [...]] among the parts"
        )
    return f'<div class="vb-fork">{"".join(map(_way, part))}</div>'


def _told(parts: Sequence[Part]) -> str:
    words = []
    for part in parts:
        if isinstance(part, Tensor):
            words.append("an image")
        elif isinstance(part, str):
            words.append(" ".join(part.removeprefix(ARROW).split()) or "as it is")
        elif isinstance(part, Diagram):
            words.append(f"[{part.title}: {_told(part.parts)}]")
        else:
            words.append(f"({' | '.join(map(_told, part))})")
    return f" {ARROW} ".join(words)
