"""Runs a chapter at SCALE = "gpu" with next to no budget: python ... CHAPTER [pretended]

Of its cells those that the switch reaches, and those that these need; all others are as they are
at SCALE = "page", where another test runs them.
"""

import ast
import io
import json
import os
import re
import sys
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from pretended_gpu import PretendedGPU

SWITCH = re.compile(r'^SCALE, BUDGET = "page", 1\b', re.MULTILINE)
TINY = 'SCALE, BUDGET = "gpu", 1e-9'
IMAGES = {"train": 1_400, "test": 40}  # a hundredth of them has every class
BATCH = 16  # on the CPU; a pretended GPU is given whole ones


def write_few_pictures(root: Path) -> None:
    """CIFAR-10's file as it is read, of digits in colour: ten classes, a few of each."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    from vitbook import datasets

    names = [
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ]
    feature = {"label": {"names": names, "_type": "ClassLabel"}}
    about = {"huggingface": json.dumps({"info": {"features": feature}})}
    (root / "cifar10").mkdir(parents=True)
    for split, number in IMAGES.items():
        digits = datasets.load("digits", split, image_size=32)
        pictures = []
        for pixels in digits.images[:number]:
            file = io.BytesIO()
            Image.fromarray(pixels[0].numpy()).convert("RGB").save(file, "PNG")
            pictures.append({"bytes": file.getvalue(), "path": f"{len(pictures)}.png"})
        table = pa.table({"image": pictures, "label": digits.labels[:number].tolist()})
        path = root / "cifar10" / f"{split}-00000-of-00001.parquet"
        pq.write_table(table.replace_schema_metadata(about), path)


def with_few_images(whole):
    """`PlannedRun.shorter` with small batches: what they hold is not what is tested."""

    def shorter(run, share):
        cut = whole(run, share)
        assert cut.steps == 1
        return replace(cut, recipe=replace(cut.recipe, batch_size=BATCH, epoch_images=BATCH))

    return shorter


def names_of(source: str) -> tuple[set[str], set[str], set[str], set[str]]:
    """Names that a cell reads of others, writes or changes, binds anew, and imports."""
    reads, writes, anew, imports = set(), set(), set(), set()
    for statement in ast.parse(source).body:
        nodes = list(ast.walk(statement))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        taken = {
            (node.asname or node.name).split(".")[0]
            for node in nodes
            if isinstance(node, ast.alias)
        }
        called = (
            node.value.func
            for node in nodes
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        )
        parts = [node for node in nodes if isinstance(node, ast.Attribute | ast.Subscript)]
        changed = {root(node) for node in parts if not isinstance(node.ctx, ast.Load)}
        changed |= {root(node) for node in called if isinstance(node, ast.Attribute)}
        changed |= {root(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
        changed.discard("")
        reads |= (read | changed) - anew
        writes |= bound | taken | changed
        imports |= taken
        if isinstance(statement, ast.Assign | ast.FunctionDef | ast.Import | ast.ImportFrom):
            anew |= (bound | taken) - read
    return reads, writes, anew, imports


def root(node: ast.AST) -> str:
    """The name in front of attributes, subscripts and calls; nothing if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def reached(sources: list[str]) -> list[bool]:
    """Of each cell, whether the switch changes what it does, or a later such cell needs it."""
    cells = [names_of(source) for source in sources]
    modules = set().union(*(imports for *_, imports in cells))  # a call does not change these
    cells = [
        (reads, writes - modules | imports, anew, imports) for reads, writes, anew, imports in cells
    ]
    changed, needed, hit, kept = {"SCALE", "BUDGET"}, set(), [], []
    for reads, writes, anew, _ in cells:
        hit.append("SCALE" in writes or bool(reads & changed))
        changed = changed | writes if hit[-1] else changed - anew
    for (reads, writes, anew, _), own in zip(reversed(cells), reversed(hit), strict=True):
        kept.insert(0, own or bool(writes & needed))
        if kept[0]:
            needed = needed - anew | reads
    return kept


def stops_of(path: Path) -> list[str]:
    """Where the chapter stops, a line a cell; what it asserts of the book's models aside."""
    from IPython.core.interactiveshell import InteractiveShell

    shell, said, sources = InteractiveShell.instance(), [], {}
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] == "code" and not {"raises-exception", "solution"} & set(tags):
            sources[number] = SWITCH.sub(TINY, shell.transform_cell("".join(cell["source"])))
    kept = reached(list(sources.values()))
    for (number, source), wanted in zip(sources.items(), kept, strict=True):
        if not wanted:
            continue
        try:
            exec(compile(source, f"cell {number}", "exec"), shell.user_ns)
        except Exception as error:
            said.append(f"cell {number}: {traceback.format_exc(limit=-3)} {error}")
    return said


def main(path: Path, pretended: bool) -> int:
    from vitbook.runs.planned_run import PlannedRun

    with tempfile.TemporaryDirectory() as folder:
        write_few_pictures(Path(folder))
        os.environ["VITBOOK_DATA"] = folder
        path = path.resolve()
        os.chdir(folder)  # what is trained lies there
        few = patch.object(PlannedRun, "shorter", with_few_images(PlannedRun.shorter))
        with PretendedGPU() if pretended else few:
            stops = stops_of(path)
        os.chdir(path.parent)
    print("\n".join(stops))
    return len(stops)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "pretended" in sys.argv[2:]))
