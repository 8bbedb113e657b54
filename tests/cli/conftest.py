import subprocess
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from vitbook import runs
from vitbook.__main__ import app, main
from vitbook.models import create_model
from vitbook.training import save_checkpoint


@pytest.fixture
def told():
    """What a command prints, in this process."""

    def run(*words: object) -> str:
        done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
        assert not done.exit_code, done.output
        return done.output

    return run


@pytest.fixture
def refused(capsys, monkeypatch):
    """What a command that is refused says, as a user sees it."""

    def run(*words: object) -> str:
        monkeypatch.setattr("sys.argv", ["vitbook", *map(str, words)])
        with pytest.raises(SystemExit, match="2"):
            main()
        return capsys.readouterr().err.strip()

    return run


@pytest.fixture(scope="session")
def git():
    """What git says of a checkout, by an author of its own."""

    def run(folder, *words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", "-C", folder, *who, *words], capture_output=True, check=True)
        return done.stdout.decode().strip()

    return run


@pytest.fixture
def made():
    """A planned run as if it had been made: its row, and its weights, which may lie elsewhere."""

    def make(planned, folder, weights=None, commit="c"):
        row = runs.Result(
            model=planned.model, parameters=1, dataset="digits", recipe=asdict(planned.recipe),
            seed=planned.seed, accuracy=0.5, curve=[{"epoch": 1, "loss": 1.0, "accuracy": 0.5}],
            probes=[], data_passes=1.0, wall_time_s=1.0, images_per_second=1.0, peak_memory_mb=1,
            precision="float32", processes=1, device="d", versions={}, commit=commit, command="x",
            provenance={"name": "digits"}, experiment=planned.experiment, definition=planned.digest,
        )  # fmt: skip
        path = runs.record(row, folder)
        kept = (weights or folder) / f"{row.name}.safetensors"
        kept.parent.mkdir(parents=True, exist_ok=True)
        save_checkpoint(kept, create_model(row.model, channels=1), provenance=asdict(row))
        return row, path, kept

    return make
