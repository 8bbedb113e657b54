"""Handing runs to a cluster through submitit: SLURM, or processes of this machine."""

import subprocess
import sys
from pathlib import Path

import typer

from vitbook.cli.worker import ROOT
from vitbook.cli.workplace import WorkError
from vitbook.errors import UnknownNameError
from vitbook.runs import PlannedRun

CLUSTERS = ("slurm", "local")
DAY = 24 * 60


def submit(
    runs: list[PlannedRun],
    cluster: str,
    words: list[str],
    *,
    folder: Path,
    settings: list[str],
    minutes: float | None,
    threads: int | None,
) -> None:
    """A job for each run: ``vitbook experiments run`` with its name.

    Args:
        cluster: one of :data:`CLUSTERS`.
        words: what each job's command gets beside the name.
        folder: of what the jobs print.
        settings: of SLURM, as "partition=gpu".
        minutes: that a job may take; a day if None.

    Raises:
        ModuleNotFoundError: submitit is not installed.
        WorkError: no such cluster here.
        ValueError: a setting without a value.
    """
    try:
        import submitit
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "submitit is not installed: pip install submitit, or leave --submit out"
        ) from error
    if cluster not in CLUSTERS:
        raise UnknownNameError("cluster", cluster, CLUSTERS)
    if odd := [word for word in settings if "=" not in word]:
        raise ValueError(f"--slurm {odd[0]}: expected a name and a value, such as partition=gpu")
    try:
        executor = submitit.AutoExecutor(folder, cluster=cluster)
    except RuntimeError as error:
        raise WorkError(
            f"--submit {cluster}: {error}; give it on a machine of the cluster"
        ) from error
    executor.update_parameters(
        name="vitbook",
        timeout_min=DAY if minutes is None else int(minutes) + 5,
        cpus_per_task=threads or 1,
        **{f"slurm_{word.partition('=')[0]}": word.partition("=")[2] for word in settings},
    )
    command = [sys.executable, "-m", "vitbook", "experiments", "run"]
    for run in runs:
        job = executor.submit(subprocess.run, [*command, run.name, *words], cwd=ROOT, check=True)
        typer.echo(f"{run.name}: job {job.job_id}")
    typer.echo(f"{len(runs)} job{'s' * (len(runs) != 1)}; what they print is in {folder}")
