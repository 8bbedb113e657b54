"""When the page says a name: the same rule here and in its script, and how often it is wrong."""

import re

import pytest
import torch

from vitbook.models.weights.efficientnet_lite import class_kinds, class_names
from vitbook.studies import photograph
from vitbook.studies.photograph import error_rates, said_name

NAMES, KINDS = ("tabby", "Egyptian cat", "espresso"), ("cat", "cat", "")


@pytest.mark.parametrize(
    ("chances", "said"),
    [
        ([0.2, 0.1, 0.7], "espresso"),
        ([0.45, 0.35, 0.2], "cat"),  # two cats share what one would need
        ([0.3, 0.15, 0.55], "espresso"),
        ([0.3, 0.25, 0.45], None),  # the likeliest stands alone, and the cats are not the likeliest
        ([0.5, 0.3, 0.2], "tabby"),
    ],
)
def test_a_name_then_a_kind_then_nothing(chances, said):
    assert said_name(torch.tensor(chances), NAMES, KINDS) == said


def test_without_kinds_there_is_a_name_or_nothing():
    assert said_name(torch.tensor([0.45, 0.35, 0.2]), NAMES) is None
    assert said_name(torch.tensor([0.45, 0.35, 0.2]), NAMES, least=0.4) == "tabby"


def test_the_page_says_a_name_where_the_measured_rule_does(js):
    names, kinds = class_names(), class_kinds()
    generator = torch.Generator().manual_seed(0)
    cats = torch.tensor([kind == "cat" for kind in kinds])
    heard = set()
    for sharp in (0.5, 1, 2, 3):
        for place in (torch.zeros(1000, dtype=torch.bool), cats):
            logits = sharp * torch.randn(1000, generator=generator) + 9.0 * place
            chances = logits.double().softmax(0)
            said = js("photo_looks", "saidName(c, (i) => n[i], { kinds: k, least: 0.5 })",
                      c=chances, n=names, k=kinds)  # fmt: skip
            wanted = said_name(chances, names, kinds)
            assert (said["name"] if said["known"] else None) == wanted
            heard.add(wanted if wanted in ("cat", None) else "a name")
    assert heard >= {"cat", None}


def test_kinds_are_of_two_classes_at_least():
    names, kinds = class_names(), class_kinds()
    cats = [name for name, kind in zip(names, kinds, strict=True) if kind == "cat"]
    assert {"tabby", "Egyptian cat", "tiger cat", "Persian cat"} < set(cats)
    assert kinds[names.index("espresso")] == ""
    assert all(kinds.count(kind) > 1 for kind in set(kinds) - {""})


def test_the_rates_are_those_that_were_measured(monkeypatch):
    (row,) = photograph.runs.measurements(kind="said_names")
    wrong, named = (f"{row.rows[i][key][0]:.0%}" for i, key in ((0, "wrong"), (1, "named")))
    assert re.findall(r"\d+%", error_rates()) == [wrong, named]
    assert row.settings["least"] == photograph.LEAST
    monkeypatch.setattr(photograph.runs, "measurements", lambda **which: [])
    with pytest.raises(ValueError, match="no row of names on tf_flowers: `vitbook measure said"):
        error_rates()
