"""Chapters keep to the measures of a chapter, and nbval keeps to its word."""

import re
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
import stamp_address

# The measures of teaching: lowest and highest.
WORDS = (1200, 2200)
CODE_CELLS = (10, 18)
# A chapter of pairs: each pitfall is two small cells, one that fails and one that is mended.
PAIRS = {"pitfalls": 20}
CODE_CELLS_OF = {"pitfalls": (40, 47)}
MEDIAN_LINES = 6
CELL_LINES = 12
LISTING_LINES = 30
PARAGRAPH_WORDS = 80
EXERCISES = (5, 8)

FOLDED = {"hide-cell", "remove-cell", "solution"}
FENCE = re.compile(r"^(`{3,}|:{3,})")
ANSWER = re.compile(r"^(:::+|```+)\{dropdown\}.*?^\1$", re.DOTALL | re.MULTILINE)
LISTING = re.compile(r"^(```+)(?!\{).*?^\1", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"^\$\$.*?\$\$", re.DOTALL | re.MULTILINE)
APART = re.compile(r"\s*(#|\||:[\w-]+:|\(.*\)=$|\[!\[)")  # heading, table, option, label, badge
WORD = re.compile(r"[A-Za-z0-9][\w'’.,-]*")


def tags(cell) -> list[str]:
    return cell.metadata.get("tags", [])


def code_cells(chapter) -> list:
    """What a reader sees of the code: neither the install cell nor imports nor solutions."""
    return [c for c in chapter.cells if c.cell_type == "code" and not FOLDED & set(tags(c))]


def lines(cell) -> int:
    return len([line for line in cell.source.splitlines() if line.strip()])


def paragraphs(chapter) -> list[str]:
    """Running text: no headings, tables, formulas, listings, nor the answers that are folded."""
    cells = [c for c in chapter.cells if c.cell_type == "markdown" and not FOLDED & set(tags(c))]
    text = "\n\n".join(cell.source for cell in cells)
    for aside in (ANSWER, LISTING, FORMULA):
        text = aside.sub("", text)
    prose = [line for line in text.splitlines() if not (FENCE.match(line) or APART.match(line))]
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)", "\n".join(prose))
    return [block.strip() for block in blocks if block.strip()]


def words(text: str) -> int:
    text = re.sub(r"\{[\w:-]+\}`[^`]*`|\$[^$]+\$", "X", text)  # a role or a formula is one word
    return len(WORD.findall(re.sub(r"\]\([^)]*\)", "]", text)))


def test_it_opens_with_its_title_badge_and_install_cell(notebook):
    first, second = notebook.cells[:2]
    assert first.cell_type == "markdown" and first.source.startswith("# ")
    badge = f"/blob/main/book/{notebook.path.name})"
    assert "[![Open in Colab](_static/colab.svg)](https://colab" in first.source
    assert badge in first.source, f"the badge does not lead to this page: {badge}"
    slug = stamp_address.setting(notebook.path.parents[1])
    assert second.source == stamp_address.INSTALL.format(slug=slug), "run `make stamp`"
    assert {"remove-cell", "hide-cell"} & set(tags(second))


def test_it_takes_from_its_own_study_at_most(notebook):
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    named = re.findall(r"from vitbook\.studies import (\w+)|vitbook\.studies\.(\w+)", code)
    assert {first or second for first, second in named} <= {notebook.path.stem}


def test_it_has_numbers_that_nbval_compares(notebook):
    checked = [cell for cell in notebook.cells if "check-output" in tags(cell)]
    assert checked, "no cell is tagged check-output"
    empty = [cell.source for cell in checked if not cell.outputs]
    assert not empty, f"tagged check-output, but without an output to compare: {empty}"


def test_its_code_is_short(chapter):
    cells = code_cells(chapter)
    low, high = CODE_CELLS_OF.get(chapter.path.stem, CODE_CELLS)
    assert low <= len(cells) <= high, f"{len(cells)} code cells"
    assert statistics.median(map(lines, cells)) <= MEDIAN_LINES, [lines(cell) for cell in cells]
    long = sorted((lines(cell), cell.source) for cell in cells if lines(cell) > CELL_LINES)
    for count, source in long[:-1] + [row for row in long[-1:] if row[0] > LISTING_LINES]:
        pytest.fail(f"{count} lines, at most {CELL_LINES} ({LISTING_LINES} once):\n{source}")


def test_a_number_of_the_text_shows_its_code(chapter):
    """Folded, a click away: a removed cell may fetch data, it does not compute a claim."""
    removed = [c.source for c in chapter.cells if "remove-cell" in tags(c)]
    assert not [source for source in removed if "glue(" in source]


def test_its_prose_is_short(chapter):
    counts = {text: words(text) for text in paragraphs(chapter) if words(text)}
    total = sum(counts.values())
    long = {text[:60]: count for text, count in counts.items() if count > PARAGRAPH_WORDS}
    assert not long, f"paragraphs of more than {PARAGRAPH_WORDS} words: {long}"
    assert WORDS[0] <= total <= WORDS[1], f"{total} words"


@pytest.mark.parametrize(("name", "count"), PAIRS.items())
def test_each_pitfall_is_a_failing_and_a_mended_cell(name, count):
    path = Path(__file__).resolve().parents[2] / f"book/{name}.ipynb"
    code = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    kinds = [kind for cell in code for kind in ("failing", "mended") if kind in tags(cell)]
    assert kinds == ["failing", "mended"] * count
    follows = [set(tags(b)) for a, b in pairwise(code) if "failing" in tags(a)]
    assert all("mended" in later for later in follows), "a failing cell without its mended one"
    for cell in code:
        if "failing" in tags(cell):
            assert cell.outputs, f"it shows nothing that gives the fault away:\n{cell.source}"
            assert {"check-output", "raises-exception"} & set(tags(cell)), cell.source
        if "mended" in tags(cell):
            assert re.search(r"^\s*assert ", cell.source, re.MULTILINE), f"no law:\n{cell.source}"


def make_notebook(*cells: tuple) -> nbformat.NotebookNode:
    """A notebook of code cells, each (source, printed text or None, tags)."""
    v4, made = nbformat.v4, []
    for source, printed, tags in cells:
        outputs = [v4.new_output("stream", name="stdout", text=printed)] if printed else []
        made.append(
            v4.new_code_cell(
                source,
                outputs=outputs,
                execution_count=len(made) + 1 if printed else None,
                metadata={"tags": list(tags)},
            )
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return v4.new_notebook(cells=made, metadata={"kernelspec": kernel})


def test_its_exercises_say_how_long_and_how_hard(chapter):
    text = "\n".join(cell.source for cell in chapter.cells if cell.cell_type == "markdown")
    exercises = re.findall(r"^\*\*((?:Recall|Exercise) \d+)\*\*(.{,30})", text, re.MULTILINE)
    bare = [name for name, rest in exercises if not re.match(r" \(\d+ minutes?, level \d", rest)]
    assert not bare, f"without `(N minutes, level N)`: {bare}"
    assert EXERCISES[0] <= len(exercises) <= EXERCISES[1], f"{len(exercises)} exercises"


def test_nbval_tells(tmp_path):
    """Three notebooks: an honest one, a checked number that was changed, a cell that raises."""
    checked = ("print(6 * 7)", "42\n", ["check-output"])
    other_picture = ("import os; os.urandom(4)", None, [])
    changed = ("print(6 * 7)", "43\n", ["check-output"])
    notebooks = {
        "honest": [checked, other_picture],
        "changed": [changed],
        "raises": [checked, ("1 / 0", None, [])],
    }
    for name, cells in notebooks.items():
        nbformat.write(make_notebook(*cells), tmp_path / f"{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-rA"]
    ran = subprocess.run(
        [*command, "-c", Path("/dev/null"), *(f"{name}.ipynb" for name in notebooks)],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    told = re.findall(r"^(PASSED|FAILED) (?:.*/)?(\w+)\.ipynb::Cell (\d)", ran.stdout, re.MULTILINE)
    assert sorted(told, key=lambda each: each[1:]) == [
        ("FAILED", "changed", "0"), ("PASSED", "honest", "0"), ("PASSED", "honest", "1"),
        ("PASSED", "raises", "0"), ("FAILED", "raises", "1"),
    ], ran.stdout[-2000:]  # fmt: skip


def test_a_figure_is_not_kept_back(chapter):
    kept = [
        cell.metadata.mystnb.figure.name
        for cell in chapter.cells
        if "figure" in cell.metadata.get("mystnb", {}) and cell.source.rstrip().endswith(";")
    ]
    assert not kept, f"a semicolon keeps the figure from the page: {kept}"


def test_no_two_figures_of_the_book_have_one_name():
    named = [
        figure["name"]
        for path in (Path(__file__).parents[2] / "book").glob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        if "name" in (figure := cell.metadata.get("mystnb", {}).get("figure", {}))
    ]
    assert len(named) > 20 and sorted(named) == sorted(set(named))
