"""With what probing needs alone: what works, and what the rest says that it lacks."""

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
ADVICE = re.compile(r'(?:vitbook: )?(\w+) is not installed: pip install "vitbook\[(\w+)\]"')
# Torch may bring or use packages of ours for itself: here nobody finds them.
WITHOUT = """
import json, sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in absent:
            return super().find_spec(name, path, target)

absent = set(json.loads(sys.argv[1]))
sys.meta_path[sys.meta_path.index(PathFinder)] = Without

def said(task):
    try:
        task()
    except (ModuleNotFoundError, SystemExit) as error:
        return f"{error}"
"""


def declared() -> dict[str, set[str]]:
    """Extra -> the distributions that it brings, those of extras inside it too; "" is the core."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}

    def brings(extra: str) -> set[str]:
        needed = [Requirement(line) for line in lists[extra]]
        own = {canonicalize_name(each.name) for each in needed if each.name != "vitbook"}
        return own.union(*(brings(inner) for each in needed for inner in each.extras))

    return {extra: brings(extra) for extra in lists}


EXTRAS = declared()
DISTRIBUTIONS = {
    module: {canonicalize_name(name) for name in names}
    for module, names in packages_distributions().items()
}


def without_extras(code: str) -> dict[str, str | None]:
    """What a script prints as JSON in a process that finds no package of an extra."""
    beyond = set().union(*EXTRAS.values()) - EXTRAS[""]
    absent = [module for module, names in DISTRIBUTIONS.items() if names & beyond]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT + textwrap.dedent(code), json.dumps(absent)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def check_advice(sentence: str) -> None:
    match = ADVICE.fullmatch(sentence)
    assert match, sentence
    assert DISTRIBUTIONS[match[1]] & EXTRAS[match[2]], sentence


def test_the_core_is_what_probing_needs():
    assert EXTRAS[""] == {"einops", "jaxtyping", "msgspec", "numpy", "safetensors", "torch"}
    assert EXTRAS["data"] < EXTRAS["train"] < EXTRAS["chapters"] < EXTRAS["test"] < EXTRAS["dev"]
    assert EXTRAS["pretrained"] < EXTRAS["chapters"]


# Imported, and brought by what the extra names.
BROUGHT = {"ipython": "ipywidgets", "pandas": "seaborn", "scipy": "scikit-learn"}


def imported() -> set[str]:
    """The packages that chapters import, and all of vitbook but what no chapter uses."""
    transform = TransformerManager().transform_cell
    sources = [
        transform(cell.source)
        for path in (ROOT / "book").glob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
    ]
    apart = ("cli", "export", "__main__.py")
    files = (ROOT / "vitbook").rglob("*.py")
    sources += [each.read_text() for each in files if each.parts[len(ROOT.parts) + 1] not in apart]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"vitbook"}


def test_what_chapters_import_comes_with_their_extra():
    for name, by in BROUGHT.items():
        assert name in {canonicalize_name(Requirement(each).name) for each in requires(by)}
    has = EXTRAS[""] | EXTRAS["chapters"] | BROUGHT.keys()
    assert {name for name in imported() if not DISTRIBUTIONS.get(name, set()) & has} == set()


def test_every_module_is_imported_or_says_what_it_lacks():
    answers = without_extras("""
        import importlib, pkgutil, vitbook

        # The files of the command are reached by its __main__, which says it for all of them, and
        # a study by its chapter, whose install cell brings what chapters need.
        names = [
            module.name
            for module in pkgutil.walk_packages(vitbook.__path__, "vitbook.", lambda name: None)
            if not module.name.startswith(("vitbook.cli", "vitbook.studies"))
        ]
        print(json.dumps({name: said(lambda: importlib.import_module(name)) for name in names}))
    """)
    lacking = {name: sentence for name, sentence in answers.items() if sentence}
    for sentence in lacking.values():
        check_advice(sentence)
    assert {name.split(".")[1] for name in lacking} == {
        *("__main__", "datasets", "figures", "export", "plots", "training")
    }
    assert answers["vitbook.datasets"] is None  # the rooms themselves are imported
    assert (
        lacking["vitbook.__main__"]
        == 'vitbook: typer is not installed: pip install "vitbook[train]"'
    )


@pytest.fixture(scope="module")
def uses():
    return without_extras("""
        import torch, vitbook
        from vitbook import analysis, create_model, datasets, load_checkpoint, runs, training
        from vitbook.models.weights.timm import load_timm

        own = create_model("vit_micro_patch2_8").eval()
        images = torch.rand(2, 1, 8, 8)
        tiny = datasets.Dataset(
            torch.zeros(64, 1, 8, 8, dtype=torch.uint8), torch.arange(64) % 4, tuple("abcd"), {}
        )
        uses = {
            "probing": lambda: analysis.mean_attention_distance(own, images),
            "a checkpoint": lambda: load_checkpoint("digits-vit_micro_patch2_8-digits-seed0"),
            "digits": lambda: datasets.load("digits", "test"),
            "photos": lambda: datasets.load("photos", "all"),
            "stored": lambda: datasets.load("cifar10", "test"),
            "training": lambda: training.train(own, tiny, runs.RECIPES["digits"]),
            "drawing": lambda: vitbook.plots,
            "laying on": lambda: analysis.overlay(tiny.images, torch.ones(64, 2, 2)),
            "attribution": lambda: analysis.patch_occlusion(own, images),
            "others' weights": lambda: load_timm(own, "vit_tiny_patch16_224"),
        }
        print(json.dumps({name: said(use) for name, use in uses.items()}))
    """)


def test_probing_and_checkpoints_need_no_extra(uses):
    assert uses["probing"] is None
    assert uses["a checkpoint"] is None


@pytest.mark.parametrize(
    ("use", "package", "extra"),
    [
        ("digits", "sklearn", "data"),
        ("photos", "skimage", "data"),
        ("stored", "pyarrow", "data"),
        ("training", "tqdm", "train"),
        ("drawing", "matplotlib", "chapters"),
        ("laying on", "PIL", "data"),
        ("attribution", "captum", "chapters"),
        ("others' weights", "timm", "pretrained"),
    ],
)
def test_a_use_says_its_extra(uses, use, package, extra):
    assert uses[use] == f'{package} is not installed: pip install "vitbook[{extra}]"'
    check_advice(uses[use])
