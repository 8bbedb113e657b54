"""``vitbook probe``: look into a model with images of one's own, and write a page."""

from pathlib import Path
from typing import Annotated

import typer

from vitbook.cli.options import AnyModel, Device, Pretrained
from vitbook.cli.probed_model import load_probed_model, read_images
from vitbook.devices import choose_device
from vitbook.errors import UnknownNameError
from vitbook.files import check_writable
from vitbook.measure import count_parameters


def probe(
    model: AnyModel = "vit_small_patch14_focus",
    images: Annotated[
        Path | None,
        typer.Option(help="A folder of images, or one file; by default nine photographs."),
    ] = None,
    probes: Annotated[
        str, typer.Option("--probe", help="Which, by name, with commas.")
    ] = "colors,heads,distance,rollout,relevance,filters,positions",
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("probe"),
    pretrained: Pretrained = False,
    device: Device = None,
) -> None:
    """Write figures and one HTML page of what the probes see."""
    from vitbook.cli.report import Section, write_report  # these draw
    from vitbook.cli.sections import PROBES, Look

    names = [name.strip() for name in probes.split(",") if name.strip()]
    for name in names:
        if name not in PROBES:
            raise UnknownNameError("probe", name, PROBES)
    if not names:
        raise ValueError(f"--probe names none: expected some of {', '.join(PROBES)}")
    check_writable(out)
    probed = load_probed_model(model, pretrained)
    given, skipped, enlarged = read_images(images, probed.size, probed.channels)
    place = choose_device(device)
    for each in filter(None, (probed.model, probed.fresh)):
        each.to(place)
    look, sections = Look(probed, given), {}
    for name in names:
        try:
            sections[name] = PROBES[name](look)
        except (ValueError, RuntimeError, TypeError) as error:
            sections[name] = Section(refused=str(error))
            typer.echo(f"{name}: not run: {error}")
    facts = {
        "model": probed.name,
        "weights": probed.weights,
        "parameters": f"{count_parameters(probed.model):,}",
        "images": f"{len(given)}, the centre square at {probed.size} px: " + ", ".join(given),
    }
    for name, why in skipped.items():
        typer.echo(f"skipped {name}: {why}")
    if enlarged:
        facts["enlarged"] = "; ".join(f"{name} ({own} px)" for name, own in enlarged.items())
    if skipped:
        facts["skipped"] = "; ".join(f"{name} ({why})" for name, why in skipped.items())
    page = write_report(out, f"Looking into {probed.name}", facts, sections)
    typer.echo(f"wrote {page}")
