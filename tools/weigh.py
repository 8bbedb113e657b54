"""How large the house is: lines by room, what a chapter folds, full folders, circles.

`python tools/weigh.py` prints it.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

MOST_FILES = 25  # in a folder
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}


def lines(files: Iterable[Path]) -> int:
    return sum(len(file.read_text("utf-8").splitlines()) for file in files)


def rooms(package: Path) -> dict[str, Counter]:
    """Of each room the lines of each kind of file; single files are one room."""
    found: dict[str, Counter] = {}
    for kind in ("py", "js", "css", "c"):
        for file in sorted(package.rglob(f"*.{kind}")):
            parts = file.relative_to(package).parts
            room = parts[0] if len(parts) > 1 else "(single files)"
            found.setdefault(room, Counter())[kind] += lines([file])
    return found


def folded(notebook: Path) -> tuple[int, int]:
    """Lines of code that a reader must unfold, and all; solutions are not counted."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    hidden = total = 0
    for cell in cells:
        tags = set(cell["metadata"].get("tags", ()))
        if cell["cell_type"] == "code" and "solution" not in tags:
            count = sum(bool(line.strip()) for line in "".join(cell["source"]).splitlines())
            total += count
            hidden += count if tags & FOLDED else 0
    return hidden, total


def circle(package: str) -> list[str]:
    """Rooms that import each other in a ring, also for types alone; none is an empty list."""
    graph = grimp.build_graph(package)
    above: dict[str, set[str]] = {}
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            ends = [name.split(".")[1] for name in (module, other) if name != package]
            if len(ends) == 2 and ends[0] != ends[1]:
                above.setdefault(ends[0], set()).add(ends[1])
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def full_folders(root: Path) -> dict[str, int]:
    counts = Counter(
        file.parent.relative_to(root).as_posix()
        for top in ("book", "tests", "tools", "vitbook")
        for file in (root / top).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    )
    return {folder: count for folder, count in counts.items() if count > MOST_FILES}


def report(root: Path) -> list[str]:
    found = rooms(root / "vitbook")
    said = [f"{'room':18}{'Python':>9}{'JavaScript':>12}{'CSS':>6}{'C':>6}"]
    for room, count in sorted(found.items(), key=lambda pair: -pair[1]["py"]):
        said.append(f"{room:18}{count['py']:9,}{count['js']:12,}{count['css']:6,}{count['c']:6,}")
    total = sum(found.values(), Counter())
    said += [
        f"{'all':18}{total['py']:9,}{total['js']:12,}{total['css']:6,}{total['c']:6,}",
        f"core {total['py'] - found['studies']['py']:,}, studies {found['studies']['py']:,}",
        f"tests {lines((root / 'tests').rglob('*.py')):,}, tools and the book's extensions "
        f"{lines([*root.glob('tools/*.py'), *root.glob('book/_ext/**/*.[pj][ys]')]):,}",
        "",
        "folded lines of code",
    ]
    shares = {book.stem: folded(book) for book in sorted(root.glob("book/*.ipynb"))}
    said += [
        f"  {name:24}{hidden / all_:5.0%} of {all_}" for name, (hidden, all_) in shares.items()
    ]
    hidden, all_ = (sum(column) for column in zip(*shares.values(), strict=True))
    ring = circle("vitbook")
    return [
        *said,
        f"  {'all':24}{hidden / all_:5.0%} of {all_:,}",
        "",
        f"folders of more than {MOST_FILES} files: "
        + (", ".join(f"{name} {count}" for name, count in full_folders(root).items()) or "none"),
        f"circle of rooms: {' -> '.join(ring) or 'none'}",
    ]


if __name__ == "__main__":
    sys.stdout.write("\n".join(report(Path(__file__).resolve().parents[1])) + "\n")
