"""One HTML page that stands alone: images inside, no script, no request."""

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from vitbook.extras import from_extra
from vitbook.files import write_atomically

with from_extra("chapters"):
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
img { max-width: 100%; background: white; border-radius: 4px; }
figure { margin: 1rem 0; } figcaption { font-size: .9rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left;
  vertical-align: top; }
.wide { overflow-x: auto; }
.refused { border-left: 4px solid #d55e00; padding-left: 1rem; }
"""


@dataclass(frozen=True)
class Section:
    """What one probe found.

    Attributes:
        title: of the section.
        reading: how to read it, and beside what.
        figures: alternative text -> figure.
        numbers: for the file beside the page, as JSON takes them.
        refused: why the probe did not run; then there is nothing else.
    """

    title: str
    reading: str = ""
    figures: dict[str, Figure] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    refused: str = ""


def write_report(
    folder: Path, title: str, facts: dict[str, str], sections: Sequence[Section]
) -> Path:
    """``report.html``, its figures as PNG files, and ``report.json`` with the numbers.

    Args:
        folder: made if it is not there.
        facts: a table under the title, plain text.
    """
    folder.mkdir(parents=True, exist_ok=True)
    body = [f"<h1>{escape(title)}</h1>", _table(facts)]
    for section in sections:
        body.append(f"<section><h2>{escape(section.title)}</h2>")
        if section.refused:
            body.append(f'<p class="refused">Not run: {escape(section.refused)}</p>')
        body += [f"<p>{escape(part)}</p>" for part in section.reading.split("\n\n") if part]
        for number, (words, figure) in enumerate(section.figures.items(), start=1):
            encoded = _png(figure)
            write_atomically(folder / f"{section.title}-{number}.png", encoded)
            source = f"data:image/png;base64,{base64.b64encode(encoded).decode()}"
            body.append(
                f'<figure class="wide"><img src="{source}" alt="{escape(words)}">'
                f"<figcaption>{escape(words)}</figcaption></figure>"
            )
        body.append("</section>")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>"
    )
    found = {
        section.title: {"refused": section.refused} if section.refused else section.numbers
        for section in sections
    }
    write_atomically(folder / "report.json", json.dumps(facts | found, indent=1).encode())
    return write_atomically(folder / "report.html", page.encode())


def _table(facts: dict[str, str]) -> str:
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in facts.items()
    )
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160)
    return buffer.getvalue()
