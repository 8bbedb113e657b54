"""What the book asks of Sphinx beyond its extensions: light pages that leave no host.

The data of a live figure moves from the page to a script that is loaded when the figure comes
near, and each of its pieces to one that is loaded when the figure asks for it. The build's record
of the chapters is kept as JSON.
"""

import json
import re
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


def on_rendered(app, page) -> None:
    """Without scripts a page is light: of "auto", styles would make some of it dark, some not."""
    page.html = page.html.replace('data-theme="auto"', 'data-theme="light"', 1)


def drop_unused_data(outdir: Path) -> None:
    pages = [page.read_text(encoding="utf-8") for page in outdir.rglob("*.html")]
    used = {name for page in pages for name in re.findall(r"_figures/([\w-]+\.\w+)", page)}
    for script in outdir.glob("_figures/*.*"):
        if script.name not in used:
            script.unlink()


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
    drop_unused_data(outdir)


def setup(app):
    app.setup_extension("vitbook_rendered")
    # Jupyter Book sets it also where its extension for comments is not loaded.
    app.add_config_value("comments_config", {}, "html")
    app.connect("html-page-context", on_page)
    app.connect("html-page-context", on_buttons, priority=900)
    app.connect("page-rendered", on_rendered)
    app.connect("build-finished", on_finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
