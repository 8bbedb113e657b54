import re
from importlib.metadata import version
from pathlib import Path

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
