"""A chapter built without the pretrained weights says so, and its numbers read "not run"."""

from docutils import nodes
from myst_nb.ext.glue.roles import PasteTextRole
from myst_nb.sphinx_ import NbMetadataCollector

from vitbook.chapters import LEFT_OUT

NOT_RUN = "not run"
NOTE = (
    "This page was built without the pretrained weights: the cells that need them are left out, "
    f'and their numbers in the text read "{NOT_RUN}". Fetch the weights with '
    "`vitbook weights fetch` and build again."
)


class TextOrNotRun(PasteTextRole):
    """`{glue:text}`, but of a key that a left-out cell would have glued."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        key = self.text.rsplit(":", 1)[0]
        if is_lost(key, glued(self.document)):
            return [nodes.inline(NOT_RUN, NOT_RUN, classes=["pasted-text"])], []
        return super().run()


def is_lost(key: str, known: dict) -> bool:
    """Where nothing was left out a key that is not there is a mistake, and warned of.

    What `page::key` takes from another page is not known here.
    """
    return LEFT_OUT in known and "::" not in key and key not in known


def glued(document: nodes.document) -> dict:
    renderer = document.get("nb_renderer")
    return {} if renderer is None else renderer.renderer.nb_client.glue_data


def say_so(app, doctree: nodes.document) -> None:
    """Put the note below the title of a page of which something was left out."""
    if LEFT_OUT not in NbMetadataCollector.get_doc_data(app.env)[app.env.docname].get("glue", ()):
        return
    title = next(iter(doctree.findall(nodes.title)), None)
    if title is not None:
        start, command, end = NOTE.split("`")
        words = [nodes.Text(start), nodes.literal(command, command), nodes.Text(end)]
        place = title.parent.index(title) + 1
        title.parent.insert(place, nodes.note("", nodes.paragraph("", "", *words)))


def setup(app):
    app.setup_extension("myst_nb")  # has the role that this one replaces
    app.add_role_to_domain("glue", "text", TextOrNotRun(), override=True)
    app.connect("doctree-read", say_so)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
