"""The root of the site is the front page itself, with its addresses made those of the root."""

import re
from pathlib import Path
from urllib.parse import urljoin

ADDRESS = re.compile(
    r'(?P<name>\b(?:href|src|action|data-src)="|\bcontent="(?=\.\./))(?P<to>[^"#][^"]*)'
)


def at_root(html: str, page: str) -> str:
    """The HTML of `page`, as it reads at the root of the site; it names `page` as its source."""
    html = ADDRESS.sub(lambda found: found["name"] + urljoin(page, found["to"]), html)
    html = re.sub(r'data-content_root="[^"]*"', 'data-content_root="./"', html, count=1)
    if 'rel="canonical"' in html:
        return html
    return html.replace("</head>", f'  <link rel="canonical" href="{page}" />\n</head>', 1)


def on_finish(app, exception) -> None:
    name = f"{app.config.root_doc}.html"
    page = Path(app.outdir, name)
    if app.builder.format == "html" and page.exists():
        html = at_root(page.read_text(encoding="utf-8"), name)
        Path(app.outdir, "index.html").write_text(html, encoding="utf-8")


def setup(app):
    # Behind those who change pages when all are written.
    app.connect("build-finished", on_finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
