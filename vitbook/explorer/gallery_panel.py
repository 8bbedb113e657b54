"""The photograph explorer where a kernel runs: Python reads what is chosen."""

import json
import os

from vitbook.explorer.figure import Figure


def panel(figure: Figure):
    """The figure in a widget whose `choice` says what the reader has chosen.

    While the book is built (`VITBOOK_STATIC=1`), or without ipywidgets, it is the figure itself.
    """
    try:
        from ipywidgets import Layout, Output, Text, VBox
    except ImportError:
        return figure
    if os.environ.get("VITBOOK_STATIC") == "1":
        return figure

    class Panel(VBox):
        """The figure, and what is chosen in it."""

        @property
        def choice(self) -> dict:
            """``photo`` and ``name``, ``token`` (a name, or row and column), ``layer``, ``head``.

            All numbers from 0. ``nearest`` and ``alike`` say whether these buttons are pressed.
            """
            return _named(figure.data, json.loads(heard.value))

        @property
        def figure(self) -> Figure:
            return figure

    heard = Text(json.dumps(figure.data["start"]), layout=Layout(display="none"))
    shown = {"text/html": figure._repr_html_(), "text/plain": repr(figure)}
    output = {"output_type": "display_data", "data": shown, "metadata": {}}
    made = Panel([Output(outputs=(output,)), heard])
    made.add_class("vitbook-choice")
    return made


def _named(data: dict, state: dict) -> dict:
    """A state of the page in the words of the caller."""
    query, prefix = state["query"], data["prefix"]
    token = prefix[query] if query < len(prefix) else divmod(query - len(prefix), data["grid"][1])
    return {
        "photo": state["photo"], "name": data["names"][state["photo"]], "token": token,
        "layer": state["layer"], "head": state["head"],
        "nearest": state["nearest"], "alike": state["alike"],
    }  # fmt: skip
