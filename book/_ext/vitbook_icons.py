"""Icons as drawings in the page, where the theme loads all of Font Awesome for a few.

They are GitHub's Octicons (MIT) and two of Google's Material icons (Apache 2.0), both as
sphinx-design ships them.
"""

import re
import shutil
from functools import cache
from pathlib import Path
from urllib.parse import quote

from sphinx_design.icons import get_material_icon, get_octicon

# The theme's name of an icon -> an octicon, or of Material with its prefix.
ICONS = {
    "fa-angle-left": "chevron-left",
    "fa-angle-right": "chevron-right",
    "fa-arrow-up": "arrow-up",
    "fa-bars": "three-bars",
    "fa-circle-half-stroke": "material:contrast",
    "fa-code": "code",
    "fa-download": "download",
    "fa-expand": "screen-full",
    "fa-file": "file",
    "fa-file-pdf": "material:picture_as_pdf",
    "fa-github": "mark-github",
    "fa-lightbulb": "light-bulb",
    "fa-list": "list-unordered",
    "fa-magnifying-glass": "search",
    "fa-moon": "moon",
    "fa-rocket": "rocket",
    "fa-sun": "sun",
    "fa-xmark": "x",
}
# The names that its style uses for what stands before and after words -> the same.
STYLED = {
    "angle-left": "chevron-left",
    "angle-right": "chevron-right",
    "check-circle": "check-circle",
    "download": "download",
    "exclamation-circle": "alert",
    "exclamation-triangle": "alert",
    "external-link": "link-external",
    "github": "mark-github",
    "info-circle": "info",
    "lightbulb": "light-bulb",
    "pencil": "pencil",
    "search-minus": "x",
    "share": "link-external",
    "times-circle": "x-circle",
}
OTHER = "info"
KINDS = {"fa", "fas", "far", "fab", "fa-solid", "fa-regular", "fa-brands"}
SIZES = {"fa-lg"}
ELEMENT = re.compile(
    r'<(?P<tag>i|span)(?P<before>[^>]*?) class="(?P<classes>[^"]*\bfa[^"]*)"(?P<after>[^>]*)>'
    r"</(?P=tag)>"
)
QUIET = " '/:=,.-"  # what a URL within quotes may hold as it is
MASKED = (
    'content:"";display:inline-block;width:1em;height:1em;background:currentColor;'
    "mask:var(--vb-icon) center/contain no-repeat"
)
RULES = """
.vb-icon { display: inline-block; height: 1em; vertical-align: -0.125em; fill: currentColor; }
.vb-icon.fa-lg { font-size: 1.25em; line-height: 0.05em; vertical-align: -0.2em; }
"""


@cache
def drawing(name: str) -> str:
    """An icon as SVG, in the colour of the text around it."""
    kind, _, material = name.rpartition(":")
    svg = get_material_icon("regular", material) if kind else get_octicon(name)
    return re.sub(r' (version|class|width|height)="[^"]*"', "", svg, count=4)


def draw_icons(html: str) -> str:
    """Put a drawing for each element that Font Awesome would make one of.

    It has the element's classes, as there, by which the theme places it.
    """

    def draw(element: re.Match) -> str:
        classes = element["classes"].split()
        if not KINDS & set(classes):
            return element[0]
        names = [each for each in classes if each.startswith("fa-")]
        name = next(each for each in names if each not in KINDS | SIZES)
        if name not in ICONS:
            raise ValueError(f"the icon {name} has no drawing: give it one in {__name__}.ICONS")
        its = re.sub(r' *title="[^"]*"', "", element["before"] + element["after"])
        its += f' class="{" ".join([*classes, "vb-icon"])}"'
        return drawing(ICONS[name]).replace("<svg", f"<svg{its}", 1)

    return ELEMENT.sub(draw, html)


def blocks(css: str) -> list[tuple[str, str]]:
    """The rules of a style sheet: what stands before the braces, and within them."""
    found, start, depth = [], 0, 0
    for brace in re.finditer(r"[{}]", css):
        depth += 1 if brace[0] == "{" else -1
        if depth == 1 and brace[0] == "{":
            opened = brace.start()
        elif depth == 0:
            found.append((css[start:opened], css[opened + 1 : brace.start()]))
            start = brace.end()
    return found


def is_font_awesome(head: str, body: str) -> bool:
    head = re.sub(r"/\*.*?\*/", "", head, flags=re.DOTALL).strip()
    if head.startswith("@font-face"):
        return bool(re.search(r"Font ?Awesome", body))
    if head.startswith("@media"):
        return all(is_font_awesome(*inner) for inner in blocks(body))
    if head.startswith("@"):
        return bool(re.match(r"@(-webkit-)?keyframes fa-", head))
    return all(re.match(r"\.(fa|fab|far|fas)\b(?!\w)", one.strip()) for one in head.split(","))


def without_font_awesome(css: str) -> str:
    """The theme's style, whose own icons are masks over the colour of the text."""
    kept = (rule for rule in blocks(css) if not is_font_awesome(*rule))
    css = "".join(f"{head}{{{body}}}" for head, body in kept)
    css = re.sub(r"/\*!\s*\* Font Awesome.*?\*/", "", css, flags=re.DOTALL)
    css = re.sub(r"--fa-[\w-]+:[^;}]*;?", "", css)
    css = re.sub(r'(--pst-icon-([\w-]+)):"[^"]*"', lambda icon: f"{icon[1]}:{mask(icon[2])}", css)
    css = re.sub(r"content:(var\(--pst-icon-[\w-]+\))", r"--vb-icon:\1", css)
    return re.sub(r"font:var\(--fa-font-(solid|brands)\)", MASKED, css) + RULES


def mask(name: str) -> str:
    svg = drawing(STYLED.get(name, OTHER)).replace('"', "'")
    svg = svg.replace("<svg", "<svg xmlns='http://www.w3.org/2000/svg'")
    return f'url("data:image/svg+xml,{quote(svg, safe=QUIET)}")'


def on_rendered(app, page) -> None:
    page.html = draw_icons(page.html)


def on_finish(app, exception) -> None:
    static = Path(app.outdir) / "_static"
    style = static / "styles" / "pydata-sphinx-theme.css"
    if app.builder.format != "html" or not style.exists():
        return
    css = style.read_text(encoding="utf-8")
    if RULES not in css:
        style.write_text(without_font_awesome(css), encoding="utf-8")
    shutil.rmtree(static / "vendor" / "fontawesome", ignore_errors=True)
    for script in static.glob("scripts/fontawesome.js*"):
        script.unlink()


def setup(app):
    app.setup_extension("vitbook_rendered")
    app.connect("page-rendered", on_rendered)
    app.connect("build-finished", on_finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
