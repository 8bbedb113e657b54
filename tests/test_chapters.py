"""Without the pretrained weights a chapter says one sentence, and goes on with what it has."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from vitbook import chapters
from vitbook.chapters import NotHere, pretrained
from vitbook.errors import UnknownNameError

CELLS = (
    "from vitbook.chapters import pretrained\n"
    "from myst_nb import glue\n"
    "real = pretrained('vit_small_patch14_focus')",
    "own = 1 + 1\nprint(own)",
    "width = real.model.grid_size\nfor i in range(2):\n    last = i",
    "def grid(): return real.model.grid_size\nglue('rows', grid()[0], display=False)",
    "grid()",
    "width, own",
    "print(own)",
    "width = 5",
    "print(width)",
    "again = pretrained('vit_small_patch14_focus')",
)


def run(cells, monkeypatch, tmp_path):
    monkeypatch.setenv("VITBOOK_WEIGHTS", str(tmp_path / "none"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    glued = [
        output.metadata.scrapbook.name
        for cell in notebook.cells
        for output in cell.outputs
        if "scrapbook" in output.get("metadata", {})
    ]
    said = [
        "".join(output.text for output in cell.outputs if output.output_type == "stream")
        for cell in notebook.cells
    ]
    return said, glued


def test_cells_that_need_them_are_left_out_and_the_others_run(monkeypatch, tmp_path):
    said, glued = run(CELLS, monkeypatch, tmp_path)
    assert "could not be fetched from the Python index" in said[0]
    assert "The cells that need these weights are left out." in said[0]
    left_out = "Left out: it needs the pretrained weights.\n"
    assert said[-1] == said[0]
    assert said[1:-1] == ["2\n", left_out, left_out, left_out, left_out, "2\n", "", "5\n"]
    assert glued == [chapters.LEFT_OUT]  # for the text of the built book, which warns of a second


def test_outside_of_a_notebook_the_error_is_raised(monkeypatch, tmp_path):
    monkeypatch.setenv("VITBOOK_WEIGHTS", str(tmp_path / "none"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ConnectionError, match="could not be fetched"):
        pretrained("vit_small_patch14_focus")


def test_a_mistake_stays_one():
    with pytest.raises(UnknownNameError, match="did you mean vit_small_patch14_focus"):
        pretrained("vit_small_patch14_focs")


def left_out(source, **names):
    return ast.unparse(chapters._LeaveOut(names).visit(ast.parse(source)))


def test_what_a_cell_would_have_made_is_not_here_either():
    absent = NotHere("no index")
    source = "a = real.model\nb, (c, *d) = a\ndef f(): pass\nglue('k', b)\nglue(x, b)\nprint(e)"
    said = left_out(source, real=absent)
    for name in "abcdf":
        assert f"{name} = real" in said
    assert "glue(" not in said and "print(e)" not in said
    for reads in (
        "for x in y:\n    print(real)",
        "for real in real:\n    pass",
        "if real:\n    x = 1",
    ):
        assert "Left out" in left_out(reads, real=absent)
    kept = left_out("from math import pi\nrows['a'] = real.x", real=absent)
    assert "from math import pi" in kept and "rows = real" in kept


@pytest.mark.parametrize(
    "source",
    [
        "a = other",
        "real = chapters.pretrained('x')",
        "real = 3\nprint(real.imag)",
        "q = [real for real in range(3)]",
        "f = lambda real: real + 1",
        "def f(real):\n    return real + 1",
        "print(other.real)",
        "for real in range(3):\n    print(real)",
        "for a in range(3):\n    for real in range(a):\n        print(real)",
        "for a in range(3):\n    real = a\n    print(real)",
        "with open('x') as real:\n    real.read()",
        "if True:\n    real = 3\n    print(real)",
    ],
)
def test_a_cell_that_does_not_read_what_is_lost_is_left_as_it_is(source):
    assert left_out(source, real=NotHere("no index")) == source


def test_a_chapter_loads_the_weights_in_a_cell_of_their_own():
    """What stands beside them in the cell would run on what is not here."""
    found = 0
    for path in sorted((Path(__file__).resolve().parents[1] / "book").glob("*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            loads = re.search(r"= (chapters\.)?pretrained\(", cell.source)
            if cell.cell_type == "code" and loads:
                found += 1
                (line,) = ast.parse(cell.source).body
                assert isinstance(line, ast.Assign), path
    assert found > 5
