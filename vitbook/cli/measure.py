"""``vitbook measure``: every measurement that there is, by name."""

from functools import cache
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from vitbook.cli.options import Device, Threads
from vitbook.errors import UnknownNameError
from vitbook.extras import from_extra
from vitbook.files import modules_saying
from vitbook.runs.measuring import Measure

# Those of two chapters or more, and those of one: what stands there is found.
ROOMS = ("vitbook.cli.measurements", "vitbook.studies")
Out = Annotated[Path, typer.Option(help="Folder of the rows, and of what is kept beside them.")]
SHARED = {"out": (Out, "runs"), "threads": (Threads, None), "device": (Device, None)}


@cache
def measures() -> dict[str, Measure]:
    """All measurements by name; what lacks a package of an extra is said, and left out."""
    found = {}
    # Those of plots alone are not imported.
    for name in (name for room in ROOMS for name in modules_saying(room, "@measurement(")):
        try:
            with from_extra("chapters"):
                module = import_module(name)
        except ImportError as error:
            typer.echo(f"{name} is left out: {error}", err=True)
            continue
        found |= {each.name: each for each in vars(module).values() if isinstance(each, Measure)}
    return dict(sorted(found.items()))


def as_command(measure: Measure) -> typer.core.TyperCommand:
    """A measurement whose parameters are options, with those that all have."""

    def run(**given: object) -> None:
        measure(**given)

    _, *own = signature(measure.function).parameters.values()
    shared = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in SHARED.items()
    ]
    run.__signature__ = Signature([*own, *shared])
    run.__annotations__ = {each.name: each.annotation for each in (*own, *shared)}
    run.__doc__ = measure.function.__doc__
    alone = typer.Typer(add_completion=False)
    alone.command(name=measure.name)(run)
    return typer.main.get_command(alone)


class Measures(TyperGroup):
    """Looks for measurements when one is asked for, and not before."""

    def list_commands(self, ctx: object) -> list[str]:
        return list(measures())

    def get_command(self, ctx: object, name: str) -> typer.core.TyperCommand:
        known = measures()
        if name not in known:
            raise UnknownNameError("measurement", name, known)
        return as_command(known[name])


app = typer.Typer(cls=Measures, no_args_is_help=True)


@app.callback()
def _measure() -> None:
    """Measure models that have learned, and record the rows."""
