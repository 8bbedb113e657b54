"""What a page says of itself to search engines and to those who share it.

The description is the page's own (`html_meta: description:` at its head), or else its first
paragraph. A shared picture needs its whole address: set `html: baseurl:` in `_config.yml` where it
is known. Without it all addresses stay relative, and the pages work wherever they are put.
"""

from html import escape
from urllib.parse import urljoin

from docutils import nodes

PICTURE = "_static/social.jpg"  # drawn by `make pictures`
PICTURE_SIZE = (1200, 630)
PICTURE_ALT = "Photographs, and under each the tokens of a Vision Transformer as colours"
LONGEST = 200  # characters: search results show fewer


def description(doctree: nodes.document | None) -> str:
    """The first paragraph of a page that has words of its own, by sentences."""
    for said in doctree.findall(nodes.meta) if doctree else ():
        if said.get("name") == "description":
            return said["content"]
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        words = " ".join(paragraph.astext().split())
        if isinstance(paragraph.parent, nodes.section | nodes.document) and len(words.split()) > 3:
            return shortened(words)
    return ""


def shortened(words: str) -> str:
    """As many sentences as fit; of a first one that is too long, its first words."""
    if len(words) <= LONGEST:
        return words
    start = words[:LONGEST]
    end = max(start.rfind(mark) for mark in (". ", "? ", "! ")) + 1
    return start[:end] if end else f"{start.rpartition(' ')[0].rstrip(',;:')} …"


def tags(title: str, words: str, picture: str, site: str, address: str = "") -> str:
    said = {
        "og:type": "website",
        "og:site_name": site,
        "og:title": title,
        "og:description": words,
        "og:url": address,
        "og:image": picture,
        "og:image:width": str(PICTURE_SIZE[0]),
        "og:image:height": str(PICTURE_SIZE[1]),
        "og:image:alt": PICTURE_ALT,
    }
    named = {
        "description": words,
        "twitter:card": "summary_large_image",
        "twitter:title": title,
        "twitter:description": words,
        "twitter:image": picture,
        "twitter:image:alt": PICTURE_ALT,
    }
    lines = [("property", key, value) for key, value in said.items()]
    lines += [("name", key, value) for key, value in named.items()]
    return "\n".join(
        f'    <meta {kind}="{key}" content="{escape(value)}" />'
        for kind, key, value in lines
        if value
    )


def on_page(app, pagename, templatename, context, doctree):
    base = app.config.html_baseurl
    root = app.env.get_doctree(app.config.root_doc)
    words = description(doctree) or description(root)
    known = app.env.titles.get(pagename)
    title = known.astext() if known else pagename.capitalize()  # the page of the search
    picture = urljoin(base, PICTURE) if base else context["pathto"](PICTURE, resource=True)
    address = urljoin(base, f"{pagename}.html") if base else ""
    mine = tags(title, words, picture, app.config.html_title, address)
    if 'name="description"' in context.get("metatags", ""):  # Sphinx has written it
        mine = "\n".join(line for line in mine.splitlines() if 'name="description"' not in line)
    context["metatags"] = f"{context.get('metatags', '')}\n{mine}"


def setup(app):
    app.connect("html-page-context", on_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
