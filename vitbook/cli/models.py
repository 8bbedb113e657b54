"""``vitbook models``: the catalogue, and its numbers beside the printed ones."""

from collections import Counter
from typing import Annotated

import torch
import typer

from vitbook import published_counts as audit
from vitbook.measure import count_parameters
from vitbook.models import create_model, list_models
from vitbook.runs.tables import print_table


def models(
    check: Annotated[
        bool, typer.Option("--audit", help="Count again what the papers print, and compare.")
    ] = False,
) -> None:
    """List every model with its image size and number of parameters."""
    if check:
        _print_audit()
        return
    longest = max(map(len, list_models()))
    for name in list_models():
        with torch.device("meta"):  # shapes without memory
            model = create_model(name)
        spec = model.spec
        typer.echo(
            f"{name:<{longest}} {spec.image_size:>4} px  {spec.channels} x {model.patch_size:<3}"
            f"{spec.num_classes:>5} classes {count_parameters(model):>12,} parameters"
        )


def _print_audit() -> None:
    figures = audit.audit()
    lines = audit.table(figures)
    print_table([{k: line[k] for k in line if k not in ("why", "source")} for line in lines])
    typer.echo("\nWhere they differ:")
    for line in lines:
        if line["why"]:
            typer.echo(f"- {line['model']}, {line['printed']} ({line['source']}): {line['why']}")
    counts = Counter(figure.verdict for figure in figures)
    typer.echo(f"\n{len(figures)} figures: {', '.join(f'{v} {n}' for v, n in counts.items())}.")
    typer.echo(audit.WHAT_IS_COUNTED)
