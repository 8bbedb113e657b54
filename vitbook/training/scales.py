"""A chapter's one switch: its models as the book has them, or trained here at full strength.

The two are experiments of the list, ``NAME`` and ``NAME_gpu``, with the same roles, so that the
code of a chapter is the same: it asks for "plain" and "rotated", whatever these are called.
"""

import hashlib
import math
import re
import textwrap
import time
from pathlib import Path

from vitbook import runs
from vitbook.devices import choose_device
from vitbook.errors import UnknownNameError
from vitbook.runs import PlannedRun
from vitbook.training.pace import Pace, TooLongError, told
from vitbook.training.roles import AtScale

SCALES = ("page", "gpu")
DRIVE = Path("/content/drive/MyDrive")  # of Colab, once it is mounted
FEW = 0.1  # of the budget: below it, one seed of each role
WIDE = 102  # characters of a line of output on the page


def at_scale(
    name: str,
    scale: str = "page",
    budget: float | int = 1.0,
    *,
    minutes: float | int = 40,
    folder: str | Path | None = None,
    device: str | None = None,
) -> AtScale:
    """The runs of an experiment, or those of ``NAME_gpu``, which are made here where they lack.

    A run that was cut off goes on when the same cell is run again. Weights and rows lie in
    ``folder``, below a folder for each version of the code: what another version made is not read.

    Args:
        name: of an experiment of ``data/experiments.toml`` with roles.
        scale: "page" for the runs behind the page, "gpu" for full strength.
        budget: share of the steps at full strength, up to 1; below a tenth, of one seed.
        minutes: that the missing runs may take here, by the time of one step of each model.
        folder: by default ``vitbook-runs`` on the Drive that Colab has mounted, else here.
        device: by default the GPU if there is one.

    Raises:
        UnknownNameError: no such experiment, or scale.
        TooLongError: it would take longer; says how long, and which budget fits.
        DatasetError, ConnectionError: the data cannot be had.
        ValueError: a budget or minutes that are no such number, an experiment without roles.

    Example:
        >>> from vitbook.training import at_scale
        >>> found = at_scale("rotations")  # doctest: +ELLIPSIS
        Models: digits, 1,320 steps, seeds 0 to 7, on ...
        >>> found.compare("rotated", "control").gap > 0
        True
    """
    if scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    for key, number, most in (("budget", budget, 1), ("minutes", minutes, float("inf"))):
        if type(number) not in (int, float) or not 0 < number <= most:
            told = f"{key} {number!r}: expected a number above 0"
            raise ValueError(told + ", up to 1" * (most == 1))
    asked = runs.get_experiment(name if scale == "page" else f"{name}_gpu")
    if not asked.roles:
        raise ValueError(f"experiment {asked.name} has no roles: name them in its runs")
    roles = {role: tuple(each.unprobed for each in some) for role, some in asked.roles.items()}
    if scale == "gpu" and budget < 1:
        roles = {role: _cut(some, budget) for role, some in roles.items()}
    place = Path(folder) if folder else (DRIVE if DRIVE.is_dir() else Path()) / "vitbook-runs"
    place /= f"{runs.versions()['vitbook']}-{_code()}"
    found = AtScale(asked, scale, roles, place, choose_device(device))
    if missing := found.missing:
        if scale == "page":
            raise ValueError(
                f"{asked.name}: {missing[0].name} was not run; see `vitbook experiments`"
            )
        _say_others(place)
        _make_all(found, missing, minutes, budget)
    print(textwrap.fill(f"Models: {found}", WIDE, subsequent_indent="  "))
    if scale == "gpu":
        print(f"Cost: {found.cost}")
    return found


def _code() -> str:
    """The commit, or a digest of the code where files differ from it or none is known."""
    if re.fullmatch(r"[0-9a-f]{40}", commit := runs.commit()):
        return commit[:12]
    whole = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        whole.update(path.read_bytes())
    return f"changed-{whole.hexdigest()[:12]}"


def _make_all(
    found: AtScale, missing: list[PlannedRun], minutes: float | int, budget: float | int
) -> None:
    pace, here = Pace(found.device), runs.device_name(found.device)
    left = pace.minutes(missing)
    if left > minutes:
        # Of a smaller budget no run is there: all of them are made anew.
        whole = pace.minutes({run for some in found.planned.values() for run in some})
        raise TooLongError(
            f"{len(missing)} runs of {found.experiment.name} take about {told(left)} on {here}, "
            f"and {told(minutes)} were asked for: choose a GPU, BUDGET = "
            f"{budget * minutes / whole * 0.8:.2g}, or minutes={max(1, math.ceil(left * 1.2))}"
        )
    print(
        f"{len(missing)} run{'s' * (len(missing) > 1)}, about {told(left)} on {here}. Kept in "
        f"{found.folder}; what is cut off goes on when this cell is run again."
    )
    for number, wanted in enumerate(missing, 1):
        print(f"[{number}/{len(missing)}] {wanted.model}, seed {wanted.seed}; {told(left)} left")
        begun = time.monotonic()
        found.make(wanted)
        # What is left is told by what the runs took, and not by what one step had promised.
        slower = (time.monotonic() - begun) / 60 / pace.minutes([wanted])
        left = slower * pace.minutes(missing[number:])


def _cut(some: tuple[PlannedRun, ...], budget: float | int) -> tuple[PlannedRun, ...]:
    """The same runs with fewer steps, and below a tenth one seed alone."""
    return tuple(run.shorter(budget) for run in (some[:1] if budget < FEW else some))


def _say_others(place: Path) -> None:
    """What other versions of the code have left beside is named, and not read."""
    others = [
        each.name for each in place.parent.glob("*") if each != place and any(each.glob("*.json"))
    ]
    if others:
        print(f"Not read: runs by other versions of vitbook in {place.parent}, {', '.join(others)}")
