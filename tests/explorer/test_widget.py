"""Sliders with a kernel, the page's own figure without one."""

import sys

import pytest
import torch

from vitbook.explorer import Figure, attention_widget


@pytest.mark.parametrize("why", ["the book is built", "no ipywidgets"])
def test_without_a_kernel_it_is_the_figure(monkeypatch, model, images, why):
    if why == "the book is built":
        monkeypatch.setenv("VITBOOK_STATIC", "1")
    else:
        monkeypatch.setitem(sys.modules, "ipywidgets", None)
    figure = attention_widget(model, images, title="A title")
    assert isinstance(figure, Figure) and figure.title == "A title"
    assert figure.data["shape"] == [4, 3, 4, 17, 17]


def test_with_a_kernel_every_slider_changes_the_view(monkeypatch, model, images):
    pytest.importorskip("ipywidgets")
    monkeypatch.delenv("VITBOOK_STATIC", raising=False)
    *sliders, view = attention_widget({"ours": model, "<null>": model}, images).children
    assert [(s.description, s.max) for s in sliders] == [
        ("image", 2), ("layer", 3), ("head", 3), ("query", 16)
    ]  # fmt: skip
    assert "&lt;null&gt;" in view.value and "prefix token 0" in view.value
    for slider in sliders:
        before = view.value
        slider.value = slider.max - 1
        assert view.value != before
    assert "mean distance" in view.value


def test_the_model_is_left_as_it_was(monkeypatch, model, images):
    monkeypatch.setenv("VITBOOK_STATIC", "1")
    model.train()
    attention_widget(model, images)
    assert model.training


def test_a_model_that_does_not_say_its_grid_is_asked_for_it(images):
    with pytest.raises(ValueError, match="Linear does not say its grid_size: pass grid_size="):
        attention_widget(torch.nn.Linear(2, 2), images)
