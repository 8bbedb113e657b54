"""MathJax, served by the book: the parts that it uses, in one script.

The ready-made script for TeX holds a menu too, which is four tenths of its bytes.
"""

import json
from importlib.util import find_spec
from pathlib import Path

# `startup.js` begins when all of the script has run, and finds the others loaded.
# `lazy` sets a formula when it comes near: all at once they hold up a slow phone for seconds.
PARTS = (
    *("core", "input/tex", "output/chtml", "output/chtml/fonts/tex"),
    *("a11y/assistive-mml", "ui/lazy"),
)
ASKED_FOR = ("output/chtml/fonts/woff-v2/*", "input/tex/extensions/*")  # by the script itself
SCRIPT = "mathjax/mathjax.js"


def script(source: Path) -> str:
    start, *parts = (source / f"{part}.js" for part in ("startup", *PARTS))
    known = f"MathJax.loader.preLoad({', '.join(map(json.dumps, PARTS))});"
    texts = [start.read_text("utf-8"), known, *(part.read_text("utf-8") for part in parts)]
    return ";\n".join(texts)


def on_finish(app, exception) -> None:
    if app.builder.format != "html":
        return
    source = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    for file in (file for part in ASKED_FOR for file in source.glob(part)):
        copy = target / file.relative_to(source)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    (target / Path(SCRIPT).name).write_text(script(source), encoding="utf-8")


def choose(app, config) -> None:
    config.mathjax_path = SCRIPT
    config.mathjax_options = {"async": "async"}  # figures need not wait for it


def setup(app):
    app.setup_extension("sphinx.ext.mathjax")
    app.connect("config-inited", choose)
    app.connect("build-finished", on_finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
