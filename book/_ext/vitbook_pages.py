"""What the book asks of Sphinx beyond its extensions: light pages that leave no host.

The data of a live figure moves from the page to a script that is loaded when the figure comes
near, and each of its pieces to one that is loaded when the figure asks for it. MathJax is served by
the book, and the build's record of the chapters is kept as JSON.
"""

import json
import re
from importlib.util import find_spec
from pathlib import Path

from myst_nb.sphinx_ import NbMetadataCollector

INLINE_BYTES = 32_000
DATA = re.compile(
    r'<script type="application/json" class="(?P<kind>vb-data|vb-piece)" '
    r'data-key="(?P<key>[\w-]+)">'
    r"(?P<json>.*?)</script>",
    re.DOTALL,
)


def move_data(body: str, folder: Path, href: str) -> str:
    """Write each large data block of `body` to `folder`; the page keeps its address at `href`."""

    def move(block: re.Match) -> str:
        key, text = block["key"], block["json"]
        if len(text.encode()) <= INLINE_BYTES:
            return block[0]
        folder.mkdir(parents=True, exist_ok=True)
        # A classic script, since a page opened from a file may fetch neither JSON nor modules.
        script = f"(window.vitbookData ??= {{}})[{json.dumps(key)}] = {text};\n"
        (folder / f"{key}.js").write_text(script, encoding="utf-8")
        return (
            f'<script type="application/json" class="{block["kind"]}" '
            f'data-key="{key}" data-src="{href}/{key}.js"></script>'
        )

    return DATA.sub(move, body)


def on_page(app, pagename, templatename, context, doctree):
    if "body" in context:
        href = context["pathto"]("_figures", resource=True)
        body = move_data(context["body"], Path(app.outdir) / "_figures", href)
        # docutils puts entries of a deprecated role into a list, which then has no items.
        context["body"] = body.replace('role="doc-biblioentry"', 'role="listitem"')


def on_buttons(app, pagename, templatename, context, doctree):
    """Only a notebook can be launched; text with code cells is none to Colab and Binder."""
    if pagename in app.env.all_docs and not app.env.doc2path(pagename).endswith(".ipynb"):
        buttons = context.get("header_buttons", [])
        buttons[:] = [button for button in buttons if button.get("label") != "launch-buttons"]


DOOR = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<link rel="icon" href="_static/favicon.svg">
<meta http-equiv="refresh" content="0; url={first}">
<a href="{first}">{title}</a>
"""


def drop_unused_data(outdir: Path) -> None:
    pages = [page.read_text(encoding="utf-8") for page in outdir.rglob("*.html")]
    used = {name for page in pages for name in re.findall(r"_figures/([\w-]+\.js)", page)}
    for script in outdir.glob("_figures/*.js"):
        if script.name not in used:
            script.unlink()


def copy_mathjax(outdir: Path) -> None:
    source = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    target = outdir / "_static" / "mathjax"
    parts = ("tex-chtml.js", "output/chtml/fonts/woff-v2/*", "input/tex/extensions/*")
    for file in (file for part in parts for file in source.glob(part)):
        copy = target / file.relative_to(source)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())


def record_chapters(app) -> dict[str, dict]:
    """Page -> what its execution reported: `runtime`, `mtime`, `succeeded`."""
    records = {page: NbMetadataCollector.get_exec_data(app.env, page) for page in app.env.all_docs}
    return {page: dict(record) for page, record in records.items() if record}


def on_finish(app, exception):
    if app.builder.format != "html":
        return
    outdir = Path(app.outdir)
    chapters = json.dumps(record_chapters(app), indent=1)
    (outdir.parent / "chapters.json").write_text(chapters, encoding="utf-8")
    door = DOOR.format(title=app.config.html_title, first=f"{app.config.root_doc}.html")
    (outdir / "index.html").write_text(door, encoding="utf-8")
    drop_unused_data(outdir)
    copy_mathjax(outdir)


def setup(app):
    # Jupyter Book sets it also where its extension for comments is not loaded.
    app.add_config_value("comments_config", {}, "html")
    app.connect("html-page-context", on_page)
    app.connect("html-page-context", on_buttons, priority=900)
    app.connect("build-finished", on_finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
