"""A page loads the scripts and styles that it uses, and no script holds up its first paint.

Extensions of Sphinx put their files on every page. Here they stay where the page has what they work
on. Scripts of the head wait until the page is read, in their order, and MathJax for its turn.
"""

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

# Of a file that not every page uses: what the page then has.
WORKS_ON = {
    "clipboard.min.js": r'class="highlight',
    "copybutton.css": r'class="highlight',
    "copybutton.js": r'class="highlight',
    "design-tabs.js": r'class="sd-tab-set',
    "predictions.js": r'class="[^"]*vb-predict[ "]',
    "pygments.css": r'class="highlight',
    "reference.css": r'class="(sig |py |[^"]*vb-)',
    "sphinx-design.min.css": r'class="([^"]* )?sd-',
    "mathjax.js": r'class="math|\\[(\[]',
    "togglebutton.css": r'class="([^"]* )?(toggle|admonition [^"]*dropdown)[ "]',
    "togglebutton.js": r'class="([^"]* )?(toggle|admonition [^"]*dropdown)[ "]',
}
# A script that only prepares another one goes with it.
PREPARES = {"toggle": "togglebutton.js", "window.MathJax": "mathjax.js"}
NEVER = {"fontawesome.js"}  # see vitbook_icons
FILE = re.compile(
    r'[ \t]*<link (?P<link>[^>]*href="(?P<href>[^"]+)"[^>]*)>[ \t]*\n?'
    r"|[ \t]*<script(?P<script>[^>]*)>(?P<body>.*?)</script>[ \t]*\n?",
    re.DOTALL,
)
PREPARED = re.compile(r"\s*(?:let |var )?(toggle|window\.MathJax)")


def lighten(html: str) -> str:
    """A page without the files that it does not use, and with its scripts deferred."""
    head, end, body = html.partition("</head>")
    seen = set()

    def keep(part: re.Match) -> str:
        text = part[0]
        if part["link"]:
            return style(part) if is_used(name_of(part["href"]), body) else ""
        source = re.search(r'src="([^"]+)"', part["script"])
        if not source:
            prepares = PREPARED.match(part["body"])
            if (prepares and not is_used(PREPARES[prepares[1]], body)) or part["body"] in seen:
                return ""
            seen.add(part["body"])
            # `documentation_options.js`, which this one adds to, is deferred too.
            late = part["body"].startswith("DOCUMENTATION_OPTIONS")
            return text.replace("<script>", '<script type="module">') if late else text
        if not is_used(name_of(source[1]), body):
            return ""
        waits = re.search(r"\b(async|defer|module)\b", part["script"])
        return text if waits else text.replace("<script ", "<script defer ", 1)

    return FILE.sub(keep, head) + end + body


def style(link: re.Match) -> str:
    if 'rel="preload"' in link["link"]:
        return ""  # of scripts for the page's end, ahead of the style that it is painted with
    # All that it holds is an import, and a file to wait for before the next.
    return re.sub(r"styles/theme\.css\?[^\"]*", "basic.css", link[0])


def hasten(html: str) -> str:
    """Ask at once for the data of a figure that stands above the first heading, so in sight."""
    opening = html.partition("<article")[2].partition("<h2")[0]
    data = re.search(r'class="vb-data"[^>]* data-src="([^"]+)"', opening)
    if not data:
        return html
    link = f'<link rel="preload" as="script" fetchpriority="low" href="{data[1]}" />'
    return html.replace("</head>", f"  {link}\n  </head>", 1)


def name_of(address: str) -> str:
    return PurePosixPath(urlsplit(address).path).name


def is_used(name: str, body: str) -> bool:
    return name not in NEVER and (name not in WORKS_ON or bool(re.search(WORKS_ON[name], body)))


def on_rendered(app, page) -> None:
    page.html = hasten(lighten(page.html))


def setup(app):
    app.setup_extension("vitbook_rendered")
    app.connect("page-rendered", on_rendered)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
