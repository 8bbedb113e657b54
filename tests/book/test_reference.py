"""The reference has every public name, and code in a sentence leads to it."""

import os
import pkgutil
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
import yaml
from bs4 import BeautifulSoup
from sphinx.util.inventory import InventoryFile
from vitbook_reference import BLOCK, room

import vitbook
from vitbook.__main__ import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "book" / "api"
PACKAGES = ["vitbook"] + [
    f"vitbook.{module.name}"
    for module in pkgutil.iter_modules(vitbook.__path__)
    if module.ispkg and hasattr(import_module(f"vitbook.{module.name}"), "__all__")
]
# What each says, and where it leads, if to anything.
WORDS = {
    "capture_attention": "analysis.html#vitbook.analysis.capture_attention",
    "Recipe": "runs.html#vitbook.runs.Recipe",
    "vitbook.analysis.relevance": "analysis.html#vitbook.analysis.relevance",
    "training.train": "training.html#vitbook.training.train",
    'training.train(model, data, get_recipe("digits"))': "training.html#vitbook.training.train",
    "vitbook.models.create_model": "vitbook.html#vitbook.create_model",
    "Attention.weights": "layers.html#vitbook.layers.Attention.weights",
    "vitbook.models.papers.vit.vit": "models.html#vitbook.models.papers.vit.vit",
    "vitbook.analysis": "analysis.html#module-vitbook.analysis",
    "vitbook models --audit": "command.html#vitbook-models",
    "vitbook data list": "command.html#vitbook-data-list",
    "vitbook unknown": None,
    "image_size": None,  # of a model, of a recipe's crop, an argument
    "train": None,  # the name of a split
    "table": None,  # a matrix in a chapter, a function of the ledger
    "forward": None,
    "capture_attention + 1": None,
    "no_such_name": None,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The pages of the reference and one of code words, built with warnings as errors."""
    source = tmp_path_factory.mktemp("book")
    shutil.copytree(PAGES, source / "book" / "api")
    (source / "book" / "models.md").write_text("# Models\n")
    words = "\n\n".join(f"`{word}`" for word in WORDS)
    (source / "words.md").write_text(f"# Words\n\n{words}\n\n## A `capture_attention`\n")
    (source / "index.md").write_text("# Book\n\n```{toctree}\n:glob:\n\n**\n```\n")
    settings = yaml.safe_load((ROOT / "_config.yml").read_text())
    own = ("add_function", "autodoc", "maximum", "napoleon", "nitpick", "python", "toc_object")
    config = {k: v for k, v in settings["sphinx"]["config"].items() if k.startswith(own)}
    loaded = settings["sphinx"]["config"]["extensions"]
    config["extensions"] = ["myst_parser", *(name for name in loaded if "sphinx.ext" in name)]
    config["extensions"] += ["vitbook_links", "vitbook_reference"]
    config["myst_enable_extensions"] = settings["parse"]["myst_enable_extensions"]
    lines = "\n".join(f"{key} = {value!r}" for key, value in config.items())
    (source / "conf.py").write_text(f"{lines}\nhtml_theme = 'basic'\n")
    where = os.pathsep.join([str(ROOT), str(ROOT / "book/_ext")])
    command = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-b", "html"]
    ran = subprocess.run(
        [*command, source, source / "html"],
        env=os.environ | {"PYTHONPATH": where},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return source / "html"


def page(built: Path, name: str) -> BeautifulSoup:
    return BeautifulSoup((built / name).read_text(encoding="utf-8"), "html.parser")


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_it_has_every_public_name(built, package):
    file = f"{package.removeprefix('vitbook.')}.html"
    found = page(built, f"book/api/{file}")
    listed = {link["href"].rpartition("#")[2] for link in found.select("table.vb-names a")}
    module = import_module(package)
    names = {f"{package}.{name}": getattr(module, name) for name in module.__all__}
    # The one entry of what the library has at its top is there.
    top = {getattr(vitbook, name): f"vitbook.{name}" for name in vitbook.__all__}
    with (built / "objects.inv").open("rb") as file:
        objects = InventoryFile.load(file, "", lambda base, uri: uri)
    entries = {path for kind, paths in objects.items() if kind.startswith("py:") for path in paths}
    for path, value in names.items():
        entry = top[value] if getattr(value, "__hash__", None) and value in top else path
        assert entry in listed, f"{path} is not in the table of its page"
        assert entry in entries, f"{path} has no entry"


def test_a_page_stands_for_each_package_and_all_are_in_the_contents():
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    last = parts[-1]
    assert last["caption"] == "Reference"
    listed = [chapter["file"].removeprefix("book/api/") for chapter in last["chapters"]]
    assert sorted(listed) == sorted(path.stem for path in PAGES.glob("*.md"))
    assert {package.removeprefix("vitbook.") for package in PACKAGES} <= set(listed)


@pytest.mark.slow
def test_an_entry_shows_shapes_and_sections(built):
    entry = page(built, "book/api/analysis.html").find(id="vitbook.analysis.attention_distance")
    text = re.sub(r"\s+", " ", entry.parent.get_text())
    assert 'weights: Float[Tensor, "batch heads queries keys"]' in text
    assert 'Float[Tensor, "batch heads"]' in text
    for section in ("Parameters:", "Raises:"):
        assert section in text
    lines = entry.select(".vb-line")
    assert len(lines) == 5 and not entry.select("dl, dd"), "a list without terms is none"


@pytest.mark.slow
def test_what_python_and_torch_say_by_themselves_is_left_out(built):
    tuples, modules = (page(built, f"book/api/{name}.html") for name in ("analysis", "layers"))
    assert "Alias for field" not in tuples.get_text()
    assert "*args" not in modules.find(id="vitbook.layers.Attention").get_text()


@pytest.mark.slow
def test_every_command_is_shown_with_its_options(built):
    text = page(built, "book/api/command.html").get_text()
    assert not re.search(r"–[a-z]", text), "two hyphens of an option became a dash"

    def check(command, name: str) -> None:
        assert name in text
        for sub in command.list_commands(None) if hasattr(command, "list_commands") else ():
            check(command.get_command(None, sub), f"{name} {sub}")
        for param in command.params:
            if param.param_type_name == "option" and "completion" not in param.name:
                assert param.opts[0] in text, f"{name} {param.opts[0]}"

    check(typer.main.get_command(app), "vitbook")


@pytest.mark.slow
@pytest.mark.parametrize(("word", "target"), WORDS.items(), ids=WORDS)
def test_code_in_a_sentence_leads_to_what_it_names(built, word, target):
    codes = [code for code in page(built, "words.html").select("p code") if code.text == word]
    (code,) = codes
    link = code.parent if code.parent.name == "a" else None
    assert (link and link["href"]) == (target and f"book/api/{target}")
    if link:
        assert "vb-entry" in link["class"] and not link.get("title")


@pytest.mark.slow
def test_a_heading_and_an_entry_link_not_to_themselves(built):
    assert not page(built, "words.html").select("h2 code a, h2 a code")
    own = page(built, "book/api/training.html").find(id="vitbook.training.save_checkpoint")
    assert not own.parent.select('a.vb-entry[href="#vitbook.training.save_checkpoint"]')


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_headings_stand_over_files_that_are_there(path):
    for block in BLOCK.finditer(path.read_text()):
        if block["what"] == "room":
            assert list(room(block["of"].split(), block["content"].splitlines()))


def test_a_heading_over_a_file_that_is_gone_is_refused():
    with pytest.raises(ValueError, match="vitbook.analysis, Rollout: no public name is in roll"):
        list(room(["vitbook.analysis"], ["Capture: record", "Rollout: rollout roll"]))
