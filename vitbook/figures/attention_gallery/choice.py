"""The gallery where a kernel runs: Python reads what is chosen in the page."""

import json
import os
from importlib.util import find_spec

from vitbook.figures.parts.figure import Figure


def kernel_has_widgets() -> bool:
    """Whether ipywidgets are here, and this is no page being built (``VITBOOK_STATIC=1``)."""
    return os.environ.get("VITBOOK_STATIC") != "1" and find_spec("ipywidgets") is not None


def with_choice(figure: Figure):
    """The figure in a widget whose ``choice`` says what the reader has chosen.

    While the book is built (`VITBOOK_STATIC=1`), or without ipywidgets, it is the figure itself.
    """
    if not kernel_has_widgets():
        return figure
    from ipywidgets import Layout, Output, Text, VBox

    class Chosen(VBox):
        """The figure, and what is chosen in it."""

        @property
        def choice(self) -> dict:
            """``photo`` and ``name``, ``token`` (a name, or row and column), ``layer``, ``head``.

            All numbers from 0. Of a fused map ``head`` is None and ``fusion`` says which.
            ``nearest`` and ``alike`` say whether these buttons are pressed.
            """
            return _named(figure.data, json.loads(heard.value))

        @property
        def figure(self) -> Figure:
            return figure

    heard = Text(json.dumps(figure.data["start"]), layout=Layout(display="none"))
    shown = {"text/html": figure._repr_html_(), "text/plain": repr(figure)}
    output = {"output_type": "display_data", "data": shown, "metadata": {}}
    made = Chosen([Output(outputs=(output,)), heard])
    made.add_class("vitbook-choice")
    return made


def _named(data: dict, state: dict) -> dict:
    """A state of the page in the words of the caller."""
    query, prefix = state["query"], data["prefix"]
    token = prefix[query] if query < len(prefix) else divmod(query - len(prefix), data["grid"][1])
    fused = state["head"] >= data["heads"]
    return {
        "photo": state["photo"], "name": data["names"][state["photo"]], "token": token,
        "layer": state["layer"], "head": None if fused else state["head"],
        "fusion": data["fused"][state["head"] - data["heads"]] if fused else None,
        "nearest": state["nearest"], "alike": state["alike"],
    }  # fmt: skip
