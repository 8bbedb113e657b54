"""What the chapter of models shows of printed counts."""

from collections.abc import Sequence
from html import escape

from vitbook.published_counts import Figure, table


def to_html(figures: Sequence[Figure]) -> str:
    """The table of the audit by source, narrow enough for a phone: a reason has its own row."""
    columns = ("model", "printed", "counted", "verdict")
    groups: dict[str, list[str]] = {}
    for line in table(figures):
        rows = groups.setdefault(line["source"], [])
        # A long name may break after each of its parts.
        cells = (escape(line[column]).replace("_", "_<wbr>") for column in columns)
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        if line["why"]:
            why = escape(line["why"])
            rows.append(f'<tr><td colspan="{len(columns)}"><small>{why}</small></td></tr>')
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    bodies = "".join(
        f'<tbody><tr><th colspan="{len(columns)}" scope="rowgroup">{escape(source)}</th></tr>'
        f"{''.join(rows)}</tbody>"
        for source, rows in groups.items()
    )
    return f'<table class="vb-numbers"><thead><tr>{head}</tr></thead>{bodies}</table>'
