"""The tools that keep notebooks clean, addresses in step and the cache honest."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import build_book
import clean_notebooks
import nbformat
import pytest
import stamp_address
import weigh
from hypothesis import given
from hypothesis import strategies as st
from nbformat import v4

ROOT = Path(__file__).resolve().parents[2]
TEXT = st.text(max_size=30)
TAGS = st.lists(st.sampled_from(["check-output", "hide-input", "remove-cell"]), unique=True)
VOLATILE = st.fixed_dictionaries(
    {}, optional={"collapsed": st.booleans(), "colab": st.just({}), "outputId": TEXT}
)
OUTPUTS = st.lists(
    st.one_of(
        st.builds(
            lambda name, text: v4.new_output("stream", name=name, text=text),
            st.sampled_from(["stdout", "stderr"]),
            TEXT,
        ),
        st.builds(
            lambda kind, text: v4.new_output(kind, {"text/plain": text, "image/png": "AAAA"}),
            st.sampled_from(["execute_result", "display_data"]),
            TEXT,
        ),
    ),
    max_size=4,
)


def code_cell(source, outputs, tags, volatile, count):
    metadata = {**volatile, "tags": tags}
    return v4.new_code_cell(source, outputs=outputs, metadata=metadata, execution_count=count)


CELLS = st.one_of(
    st.builds(code_cell, TEXT, OUTPUTS, TAGS, VOLATILE, st.none() | st.integers(1, 99)),
    st.builds(lambda text, data: v4.new_markdown_cell(text, metadata=data), TEXT, VOLATILE),
)


@given(st.lists(CELLS, max_size=5), VOLATILE, st.booleans())
def test_cleaning_settles_at_once_and_keeps_what_is_written(cells, metadata, with_ids):
    notebook = v4.new_notebook(cells=cells, metadata=metadata)
    if not with_ids:
        notebook.nbformat_minor = 4
        for cell in cells:
            cell.pop("id", None)
    text = nbformat.writes(notebook) if with_ids else json.dumps(notebook)
    once = clean_notebooks.cleaned(text)
    assert clean_notebooks.cleaned(once) == once

    result = nbformat.reads(once, as_version=4)
    nbformat.validate(result)
    assert result.metadata == clean_notebooks.METADATA
    assert [c.source for c in result.cells] == [c.source.strip("\n") for c in cells]
    for cell in result.cells:
        assert set(cell.metadata) <= {"tags", "mystnb"}
        if cell.cell_type == "code" and "check-output" not in cell.metadata.get("tags", ()):
            assert cell.outputs == [] and cell.execution_count is None
        for output in cell.get("outputs", ()):
            assert output.output_type == "stream" or set(output.data) == {"text/plain"}
            assert output.get("name") != "stderr"


def test_cleaning_joins_what_one_cell_printed_in_pieces():
    streams = [("stdout", "a\n"), ("stderr", "warning\n"), ("stdout", "b\n")]
    outputs = [v4.new_output("stream", name=name, text=text) for name, text in streams]
    cell = code_cell("print()", outputs, ["check-output"], {}, 17)
    (kept,) = clean_notebooks.clean(v4.new_notebook(cells=[cell])).cells[0].outputs
    assert kept.text == "a\nb\n"


def test_cleaning_numbers_twin_ids_apart():
    notebook = v4.new_notebook()
    notebook.cells = [v4.new_code_cell("1", id="twin"), v4.new_code_cell("2", id="twin")]
    text = json.dumps(notebook)
    first, second = nbformat.v4.reads(clean_notebooks.cleaned(text)).cells
    assert first.id == "twin" != second.id
    assert clean_notebooks.cleaned(text) == clean_notebooks.cleaned(text)


@pytest.fixture
def tree(tmp_path):
    """A copy of what carries the address, with one chapter more."""
    for name in ("README.md", "CITATION.cff", "_config.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "book").mkdir()
    for chapter in (*ROOT.glob("book/*.ipynb"), *ROOT.glob("book/*.md")):
        shutil.copy(chapter, tmp_path / "book")
    badge = "[![Open in Colab](badge.svg)](https://colab.research.google.com/github/a/b/c.ipynb)"
    other = "[timm](https://github.com/huggingface/pytorch-image-models)"
    cells = [
        v4.new_markdown_cell(f"# New\n\n{badge} {other}"),
        v4.new_code_cell('importlib.util.find_spec("vitbook")'),
    ]
    nbformat.write(v4.new_notebook(cells=cells), tmp_path / "book" / "new.ipynb")
    return tmp_path


def stamp(tree, *arguments):
    tool = [sys.executable, ROOT / "tools" / "stamp_address.py", "--root", tree, *arguments]
    return subprocess.run(tool, capture_output=True, text=True)


def test_one_setting_carries_the_address_everywhere(tree):
    old, setting = stamp_address.setting(tree), tree / "pyproject.toml"
    setting.write_text(setting.read_text().replace(old, "someone/their-book"))
    assert stamp(tree, "--check").returncode == 1
    assert stamp(tree).returncode == 0
    assert stamp(tree, "--check").returncode == 0

    files = [path for path in tree.rglob("*") if path.is_file()]
    assert [path.name for path in files if old in path.read_text()] == []
    chapter = nbformat.read(tree / "book" / "new.ipynb", as_version=4)
    assert "/github/someone/their-book/blob/main/book/new.ipynb" in chapter.cells[0].source
    assert "huggingface/pytorch-image-models" in chapter.cells[0].source
    assert chapter.cells[1].source == stamp_address.INSTALL.format(slug="someone/their-book")


def test_an_address_that_is_no_repository_is_named(tree):
    setting = tree / "pyproject.toml"
    setting.write_text(setting.read_text().replace("https://github.com/", "https://example.org/"))
    refused = stamp(tree)
    assert refused.returncode == 1 and "write https://github.com/OWNER/NAME" in refused.stderr


def test_pages_are_made_anew_when_what_makes_them_changes(tmp_path):
    extension = tmp_path / "book" / "_ext" / "stills" / "draw.js"
    extension.parent.mkdir(parents=True)
    extension.write_text("1")
    build_book.forget_if_changed(tmp_path)
    for folder in (".doctrees", ".jupyter_cache"):
        (tmp_path / "_build" / folder).mkdir()
    assert not build_book.forget_if_changed(tmp_path)
    assert (tmp_path / "_build" / ".doctrees").exists()
    extension.write_text("2")
    assert not build_book.forget_if_changed(tmp_path)
    assert not (tmp_path / "_build" / ".doctrees").exists()
    assert (tmp_path / "_build" / ".jupyter_cache").exists()


@pytest.mark.parametrize("changed", ["vitbook/a.py", "vitbook/b/c.js", "data/results/run.json"])
def test_the_cache_is_cleared_when_what_chapters_import_changes(tmp_path, changed):
    cached = tmp_path / "_build" / ".jupyter_cache" / "record"
    source = tmp_path / changed
    for file in (cached, source):
        file.parent.mkdir(parents=True)
    source.write_text("1")
    assert build_book.forget_if_changed(tmp_path)
    cached.parent.mkdir(exist_ok=True)
    cached.write_text("kept")
    assert not build_book.forget_if_changed(tmp_path) and cached.exists()
    source.write_text("2")
    assert build_book.forget_if_changed(tmp_path) and not cached.exists()


def test_what_a_chapter_folds_is_weighed_without_its_solutions(tmp_path):
    cells = [
        v4.new_code_cell("a = 1\n\nb = 2"),
        v4.new_code_cell("c = 3", metadata={"tags": ["hide-cell"]}),
        v4.new_code_cell("d = 4\ne = 5", metadata={"tags": ["hide-cell", "solution"]}),
        v4.new_markdown_cell("words"),
    ]
    nbformat.write(v4.new_notebook(cells=cells), tmp_path / "chapter.ipynb")
    assert weigh.folded(tmp_path / "chapter.ipynb") == (1, 3)


def test_rooms_that_import_each_other_are_a_circle(tmp_path, monkeypatch):
    for room, line in (("up", "from house.down import b"), ("down", "b = 1")):
        (tmp_path / "house" / room).mkdir(parents=True)
        (tmp_path / "house" / room / "__init__.py").write_text(f"{line}\n")
    (tmp_path / "house" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert weigh.circle("house") == []
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import house.up\n"
    (tmp_path / "house" / "down" / "__init__.py").write_text(types)
    assert set(weigh.circle("house")) == {"up", "down"}


def test_the_report_of_this_house():
    said = weigh.report(ROOT)
    assert said[0].split() == ["room", "Python", "JavaScript", "CSS", "C"]
    assert any(line.startswith("figures ") for line in said) and "circle of rooms" in said[-1]
