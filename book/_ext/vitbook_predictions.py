"""A box that asks for a prediction, and the paragraphs that answer it, find one another.

The reader's script (``predictions.js``) makes the options of the box choosable and folds the answer
until one is chosen. Without it the page is as it was written.

The answer to a box is the first paragraph after it that names an option ("Answer 2", "(answer 3)"),
and those right after that do too. A box whose answer comes after the next box's, as the puzzle at a
chapter's head may, takes what is left.
"""

import re

from docutils import nodes

TITLE = "Predict"
NAMES_AN_OPTION = re.compile(r"\b[Aa]nswers?\s+\d\b")


def is_box(node: nodes.Node) -> bool:
    return (
        isinstance(node, nodes.admonition)
        and isinstance(node.children[0], nodes.title)
        and node.children[0].astext() == TITLE
        and next(iter(node.findall(nodes.enumerated_list)), None) is not None
    )


def is_aside(node: nodes.Node) -> bool:
    """Within a box, a table, a list or a folded solution nothing is answered."""
    while node := node.parent:
        if isinstance(node, nodes.admonition | nodes.table | nodes.list_item | nodes.caption):
            return True
        if node.tagname in {"legend", "details", "container"} and "toggle" in node["classes"]:
            return True
    return False


def pairs(doctree: nodes.document) -> list[tuple[nodes.admonition, list[nodes.paragraph]]]:
    """Boxes with their answers, in the order of the boxes."""
    waiting, found = [], []
    for node in doctree.findall():
        if is_box(node):
            waiting.append(node)
        elif (
            waiting
            and isinstance(node, nodes.paragraph)
            and NAMES_AN_OPTION.search(node.astext())
            and not is_aside(node)
            and not any(node in answer for _, answer in found)
        ):
            found.append((waiting.pop(), following(node)))
    order = {id(node): place for place, node in enumerate(doctree.findall(nodes.admonition))}
    return sorted(found, key=lambda pair: order[id(pair[0])])


def following(first: nodes.paragraph) -> list[nodes.paragraph]:
    """The paragraph and those right after it that name an option as well."""
    answer, siblings = [first], first.parent.children
    for node in siblings[siblings.index(first) + 1 :]:
        if not (isinstance(node, nodes.paragraph) and NAMES_AN_OPTION.search(node.astext())):
            break
        answer.append(node)
    return answer


def mark(app, doctree: nodes.document) -> None:
    """Give box and answer one number."""
    for number, (box, answer) in enumerate(pairs(doctree), 1):
        box["classes"] += ["vb-predict", f"vb-predict-{number}"]
        for paragraph in answer:
            paragraph["classes"] += ["vb-answered", f"vb-answers-{number}"]


def setup(app):
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
