"""What the page of models has to download, and the counts that papers print beside ours."""

from collections import Counter

import vitbook
from vitbook import published_counts as audit
from vitbook.runs import Evidence, Table


def table() -> list[dict[str, object]]:
    """A line for each model of the catalogue, at the size and with the classes it is named for."""
    lines = []
    for name in vitbook.list_models():
        model = audit.build(name, None)
        rows, columns = getattr(model, "grid_size", None) or (None, None)
        lines.append({
            "model": name,
            "parameters": audit.parameters(name, None)["learned"],
            "multiply_adds": audit.macs(name, None),
            "image_size": model.spec.image_size,
            "channels": model.spec.channels,
            "classes": model.spec.num_classes,
            "rows": rows,
            "columns": columns,
        })  # fmt: skip
    return lines


def evidence() -> Evidence:
    """Every printed count beside ours, a table for each paper."""
    papers: dict[str, list[audit.Figure]] = {}
    for figure in audit.audit():
        papers.setdefault(figure.row["source"].partition(", ")[0], []).append(figure)
    return Evidence((), tuple(_printed(*paper) for paper in papers.items()))


def _printed(paper: str, figures: list[audit.Figure]) -> Table:
    verdicts = Counter(figure.verdict for figure in figures)
    lines = [
        {
            "model": line["model"],
            "printed": f"{line['printed']} {line['quantity']}",
            "counted": line["counted"],
            "verdict": line["verdict"],
            "where, and why": f"{line['source'].partition(', ')[2]}. {line['why']}".strip(". "),
        }
        for line in audit.table(figures)
    ]
    return Table(paper, f"{', '.join(f'{v} {n}' for v, n in verdicts.items())}.", lines)
