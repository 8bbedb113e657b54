"""Runs a chapter at SCALE = "gpu" with next to no budget: python ... CHAPTER [pretended]"""

import io
import json
import os
import re
import sys
import tempfile
import traceback
from contextlib import nullcontext
from pathlib import Path

from pretended_gpu import PretendedGPU

SWITCH = re.compile(r'^SCALE, BUDGET = "page", 1\b', re.MULTILINE)
TINY = 'SCALE, BUDGET = "gpu", 1e-9'
IMAGES = {"train": 1_400, "test": 40}  # a hundredth of them has every class


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


def stops_of(path: Path) -> list[str]:
    """Where the chapter stops, a line a cell; what it asserts of the book's models aside."""
    from IPython.core.interactiveshell import InteractiveShell

    shell, said = InteractiveShell.instance(), []
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] != "code" or {"raises-exception", "solution"} & set(tags):
            continue
        source = SWITCH.sub(TINY, shell.transform_cell("".join(cell["source"])))
        try:
            exec(compile(source, f"cell {number}", "exec"), shell.user_ns)
        except Exception as error:
            said.append(f"cell {number}: {traceback.format_exc(limit=-3)} {error}")
    return said


def main(path: Path, pretended: bool) -> int:
    with tempfile.TemporaryDirectory() as folder:
        write_few_pictures(Path(folder))
        os.environ["VITBOOK_DATA"] = folder
        path = path.resolve()
        os.chdir(folder)  # what is trained lies there
        with PretendedGPU() if pretended else nullcontext():
            stops = stops_of(path)
        os.chdir(path.parent)
    print("\n".join(stops))
    return len(stops)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "pretended" in sys.argv[2:]))
