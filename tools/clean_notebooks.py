"""Strip notebooks to what is written by hand, and the text that nbval compares.

A cell tagged `check-output` keeps its printed text and the text of its result, with a count,
which is how nbval knows that there is something to compare. All else a build makes anew.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import nbformat

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT = ("thumbnail",)
CELL_METADATA = ("mystnb", "tags")


def text_outputs(outputs: list, count: int) -> list:
    """Standard output, its pieces joined, and results as plain text; no errors, pictures, HTML."""
    kept = []
    for output in outputs:
        if output.output_type == "stream" and output.name == "stdout":
            if kept and kept[-1].output_type == "stream":
                kept[-1].text += output.text
            else:
                kept.append(nbformat.v4.new_output("stream", name="stdout", text=output.text))
        elif output.output_type == "execute_result" and "text/plain" in output.data:
            data = {"text/plain": output.data["text/plain"]}
            kept.append(nbformat.v4.new_output("execute_result", data, execution_count=count))
    return kept


def clean(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The same notebook without outputs, counts and metadata that change from run to run."""
    taken, count = set(), 0
    for position, cell in enumerate(notebook.cells):
        metadata = {key: cell.metadata[key] for key in CELL_METADATA if key in cell.metadata}
        cell.metadata = nbformat.from_dict(metadata)
        cell.source = cell.source.strip("\n")
        if not cell.get("id") or cell.id in taken:
            cell.id = hashlib.sha1(f"{position}\0{cell.source}".encode()).hexdigest()[:8]
        taken.add(cell.id)
        if cell.cell_type == "code":
            count += 1
            checked = "check-output" in metadata.get("tags", ())
            cell.execution_count = count if checked else None
            cell.outputs = text_outputs(cell.outputs, count) if checked else []
    kept = {key: notebook.metadata[key] for key in KEPT if key in notebook.metadata}
    notebook.metadata = nbformat.from_dict(METADATA | kept)
    notebook.nbformat_minor = 5
    nbformat.validate(notebook)
    return notebook


def cleaned(text: str) -> str:
    # Not nbformat.reads, which gives a twin id another at random.
    return nbformat.v4.writes(clean(nbformat.v4.reads(text))) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: every chapter in book/")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if one would be")
    arguments = parser.parse_args()

    dirty = []
    for path in arguments.notebooks or sorted(Path("book").glob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        if (new := cleaned(text)) != text:
            dirty.append(str(path))
            if not arguments.check:
                path.write_text(new, encoding="utf-8")
    if arguments.check and dirty:
        print(f"not clean: {', '.join(dirty)}; run `python tools/clean_notebooks.py`")
        return 1
    print(f"{len(dirty)} notebooks cleaned" if dirty else "notebooks are clean")
    return 0


if __name__ == "__main__":
    sys.exit(main())
