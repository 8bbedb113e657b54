"""A page built without the pretrained weights says so; elsewhere a lost number is a mistake."""

import io
import re

import nbformat
import pytest
import vitbook_left_out
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

TEXT = "# A page\n\nIt is {glue:text}`known:.1f` and {glue:text}`lost:.2f` and {glue:text}`gone`."


def output(name, value):
    prefix = "application/papermill.record/"
    return nbformat.v4.new_output(
        "display_data",
        {f"{prefix}text/plain": repr(value)},
        metadata={"scrapbook": {"mime_prefix": prefix, "name": name}},
    )


@pytest.fixture
def build(tmp_path):
    def run(more="", **glued):
        outputs = [output(name.replace("_", "-"), value) for name, value in glued.items()]
        cells = [
            nbformat.v4.new_markdown_cell(f"{TEXT} {more}"),
            nbformat.v4.new_code_cell("1", outputs=outputs, execution_count=1),
        ]
        about = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
        notebook = nbformat.v4.new_notebook(cells=cells, metadata=about)
        nbformat.write(notebook, tmp_path / "index.ipynb")
        warnings = io.StringIO()
        with docutils_namespace():  # what one build registers, the next one would be warned of
            Sphinx(
                tmp_path, None, tmp_path / "html", tmp_path / "trees", "html", freshenv=True,
                status=None, warning=warnings, confoverrides={
                    "extensions": ["myst_nb", "vitbook_left_out"], "nb_execution_mode": "off",
                },
            ).build()  # fmt: skip
        page = (tmp_path / "html" / "index.html").read_text()
        return re.sub("<[^>]*>", "", page), warnings.getvalue()

    return run


def test_what_left_out_cells_would_have_glued_reads_not_run(build):
    page, warnings = build(known=3.14159, left_out="no index")
    assert "It is 3.1 and not run and not run." in page
    assert "was built without the pretrained weights" in page and "vitbook weights fetch" in page
    assert warnings == ""


def test_what_another_page_has_is_not_lost(build, tmp_path):
    about = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    other = nbformat.v4.new_notebook(metadata=about, cells=[
        nbformat.v4.new_markdown_cell("# Another"),
        nbformat.v4.new_code_cell("1", outputs=[output("there", 2.5)], execution_count=1),
    ])  # fmt: skip
    nbformat.write(other, tmp_path / "other.ipynb")
    page, warnings = build(
        "{glue:text}`other.ipynb::there:.2f`", known=3.14159, left_out="no index"
    )
    assert "It is 3.1 and not run and not run. 2.50" in page and "glue" not in warnings


def test_where_nothing_was_left_out_a_lost_number_is_warned_of(build):
    page, warnings = build(known=3.14159)
    assert "It is 3.1" in page and "not run" not in page and "weights" not in page
    assert warnings.count("found in glue data") == 2


def test_the_note_names_its_command_once():
    assert vitbook_left_out.NOTE.count("`") == 2
