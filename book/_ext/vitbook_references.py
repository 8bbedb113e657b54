"""The list of references under the labels that the text cites: Vaswani et al., 2017."""

import pybtex.plugin
from pybtex.style.formatting.unsrt import Style as Unsorted
from pybtex.style.labels import BaseLabelStyle

NAME = "vitbook_author_year"
MOST_NAMED = 2


class AuthorYear(BaseLabelStyle):
    """Labels as the citations in the text are; two of one label have a letter behind their year."""

    def format_labels(self, sorted_entries):
        for entry in sorted_entries:
            names = [" ".join(map(str, each.rich_last_names)) for each in entry.persons["author"]]
            told = " and ".join(names) if len(names) <= MOST_NAMED else f"{names[0]} et al."
            yield f"{told}, {entry.fields['year']}"


class Style(Unsorted):
    """Sorted by author, since a reader looks for a name."""

    default_label_style = NAME
    default_sorting_style = "author_year_title"


def setup(app):
    pybtex.plugin.register_plugin("pybtex.style.labels", NAME, AuthorYear)
    pybtex.plugin.register_plugin("pybtex.style.formatting", NAME, Style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
