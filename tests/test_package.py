import re
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import vitbook

ROOT = Path(__file__).resolve().parents[1]


def test_the_rooms_are_found_without_an_import_of_their_own(plain_vitbook):
    said = plain_vitbook(
        """
        import sys, vitbook
        assert "matplotlib" not in sys.modules and "torchvision" not in sys.modules
        print(vitbook.analysis.capture_attention.__name__, vitbook.plotting.lines.__name__)
        assert {"analysis", "plotting", "create_model"} <= set(dir(vitbook))
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
