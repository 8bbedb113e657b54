"""Code in a sentence leads to the reference, where it says exactly one public name.

So do references in docstrings that Sphinx does not find by itself. A word that a chapter may well
use for its own variable (`train`, `table`) is a name only with its package: `training.train`.
"""

import re
from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode
from vitbook_names import defined_names, public_names, rooms

WORD = re.compile(r"(?:vitbook\.)?(?P<name>[A-Za-z_][\w.]*)(?:\(.*\))?", re.DOTALL)
TELLING = re.compile(r"[A-Z_.]")
COMMAND = re.compile(r"vitbook(?: [a-z-]+)+")
MEMBERS = ("method", "attribute", "property", "classmethod", "staticmethod")
NO_LINK = (nodes.reference, nodes.title, addnodes.desc_signature)


class Entry(NamedTuple):
    page: str
    anchor: str


@lru_cache(maxsize=1)  # of a build, whose pages are all read before the first is written
def index(env) -> dict[str, set[Entry]]:
    """What a sentence may call each entry: its path without as many packages as one likes."""
    called = defaultdict(set)
    objects = env.get_domain("py").objects
    paths = {path: path for path in objects}
    paths |= {one.path: one.entry for room in rooms() for one in public_names(room)}
    for path, target in paths.items():
        if target not in objects:
            continue
        found = objects[target]
        parts = path.removeprefix("vitbook.").split(".")
        fewest = 2 if found.objtype in MEMBERS else 1
        for first in range(len(parts) - fewest + 1):
            called[".".join(parts[first:])].add(Entry(found.docname, found.node_id))
    return called


def entry_of(text: str, called: dict[str, set[Entry]]) -> Entry | None:
    """The one entry that a piece of code names, if it names one and nothing else."""
    said = WORD.fullmatch(text)
    if not said or not TELLING.search(text.partition("(")[0]):
        return None
    entries = called.get(said["name"], ())
    return next(iter(entries)) if len(entries) == 1 else None


def command_of(text: str, env) -> Entry | None:
    """The help of the longest command that a line of the shell begins with."""
    said = COMMAND.match(text)
    labels = env.get_domain("std").anonlabels
    words = said[0].split() if said else []
    for last in range(len(words), 1, -1):
        if found := labels.get("-".join(words[:last])):
            return Entry(*found)
    return None


class CodeLinks(SphinxPostTransform):
    default_priority = 400  # behind the references that are written out
    formats = ("html",)

    def run(self) -> None:
        called = index(self.env)
        for code in list(self.document.findall(nodes.literal)):
            entry = entry_of(code.astext(), called) or command_of(code.astext(), self.env)
            if entry and not self.is_within(code, entry):
                link = make_refnode(self.app.builder, self.env.docname, *entry, code.deepcopy())
                link["classes"].append("vb-entry")
                code.replace_self(link)

    def is_within(self, code: nodes.literal, entry: Entry) -> bool:
        """Whether it has a link, or can have none, or stands in the very entry."""
        node = code.parent
        while node:
            if isinstance(node, NO_LINK):
                return True
            if isinstance(node, addnodes.desc) and entry.anchor in node[0].get("ids", ()):
                return self.env.docname == entry.page
            node = node.parent
        return False


def on_missing_reference(app, env, node, contnode):
    """A name of another file: ``:func:`~.capture.capture_attention```."""
    if node.get("refdomain") != "py":
        return None
    entries = index(env).get(node["reftarget"].split(".")[-1], ())
    if len(entries) != 1:
        return None
    return make_refnode(app.builder, node["refdoc"], *next(iter(entries)), contnode)


def on_warning(app, domain, node) -> bool | None:
    """What the library has but does not show stays code without a link; the rest is a mistake."""
    last = node["reftarget"].split(".")[-1]
    return True if domain and domain.name == "py" and last in defined_names() else None


def setup(app):
    app.add_post_transform(CodeLinks)
    app.connect("missing-reference", on_missing_reference)
    app.connect("warn-missing-reference", on_warning)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
