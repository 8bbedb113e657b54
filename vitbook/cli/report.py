"""One HTML page that stands alone: images inside, no script, no request."""

import base64
import io
import json
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
        reading: how to read it, and beside what.
        figures: alternative text -> figure.
        numbers: for the file beside the page, as JSON takes them.
        refused: why the probe did not run; then there is nothing else.
    """

    reading: str = ""
    figures: dict[str, Figure] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    refused: str = ""


def write_report(
    folder: Path, title: str, facts: dict[str, str], sections: dict[str, Section]
) -> Path:
    """``report.html``, its figures as PNG files, and ``report.json`` with the numbers.

    Args:
        folder: made if it is not there.
        facts: a table under the title, plain text.
    """
    rows = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    body = [f'<h1>{escape(title)}</h1><div class="wide"><table>{"".join(rows)}</table></div>']
    for name, section in sections.items():
        body.append(f"<section><h2>{escape(name)}</h2>")
        if section.refused:
            body.append(f'<p class="refused">Not run: {escape(section.refused)}</p>')
        else:
            body.append(f"<p>{escape(section.reading)}</p>")
        for number, (words, figure) in enumerate(section.figures.items(), start=1):
            png = io.BytesIO()
            figure.savefig(png, format="png", dpi=160)
            write_atomically(folder / f"{name}-{number}.png", png.getvalue())
            encoded, said = base64.b64encode(png.getvalue()).decode(), escape(words)
            body.append(
                f'<figure class="wide"><img src="data:image/png;base64,{encoded}" alt="{said}">'
                f"<figcaption>{said}</figcaption></figure>"
            )
        body.append("</section>")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>"
    )
    found = {
        name: {"refused": section.refused} if section.refused else section.numbers
        for name, section in sections.items()
    }
    write_atomically(folder / "report.json", json.dumps(facts | found, indent=1).encode())
    return write_atomically(folder / "report.html", page.encode())
