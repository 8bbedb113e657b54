import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import vitbook

ROOT = Path(__file__).resolve().parents[2]


def test_the_rooms_are_found_without_an_import_of_their_own(plain_vitbook):
    said = plain_vitbook(
        """
        import sys, vitbook
        assert "matplotlib" not in sys.modules and "torchvision" not in sys.modules
        print(vitbook.analysis.capture_attention.__name__, vitbook.plots.lines.__name__)
        assert {"analysis", "plots", "create_model"} <= set(dir(vitbook))
        try:
            vitbook.analyses
        except AttributeError as error:
            print(error)
        """
    )
    assert said.splitlines() == [
        "capture_attention lines",
        "module 'vitbook' has no attribute 'analyses'",
    ]


def test_there_is_one_version():
    assert vitbook.__version__ == version("vitbook")
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited[1] == vitbook.__version__


def test_the_types_are_for_others_too():
    assert (ROOT / "vitbook" / "py.typed").is_file()


PACKAGES = [
    ".".join(file.relative_to(ROOT).parts[:-1])
    for file in sorted((ROOT / "vitbook").rglob("__init__.py"))
]


@pytest.mark.parametrize("name", PACKAGES)
def test_no_function_hides_the_module_of_its_name(name):
    package = import_module(name)
    modules = {file.stem for folder in package.__path__ for file in Path(folder).glob("*.py")}
    hidden = {
        module
        for module in modules & set(dir(package))
        if not isinstance(getattr(package, module), ModuleType)
    }
    assert not hidden


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/*.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_what_others_run_and_read_has_their_form(schema, files):
    found = sorted(ROOT.glob(files))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    said = subprocess.run([*command, *found], capture_output=True, text=True)
    assert found and said.returncode == 0, said.stdout + said.stderr


def test_a_workflow_runs_what_the_makefile_has():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        for command in re.findall(r"run: (.+)", workflow.read_text()):
            make, target = command.split()
            assert make == "make" and target in targets, workflow.name
