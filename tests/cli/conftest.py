import pytest
from typer.testing import CliRunner

from vitbook.__main__ import app, main


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
