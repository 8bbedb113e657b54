import pytest
import torch
import torch.nn.functional as F
from small_runs import few_digits, micro

from vitbook.studies.moving_labels import LEARNERS, StoppedLabels, TokensApart
from vitbook.studies.moving_labels.baseline import answered, by_place, heard
from vitbook.studies.moving_labels.measured import OF_OBJECTIVE, WAYS, beside_places


def some_labels():
    generator = torch.Generator().manual_seed(0)
    places = torch.stack([torch.randperm(16, generator=generator)[:8] for _ in range(20)])
    return F.normalize(torch.randn(20, 8, 16, generator=generator) + 0.5, dim=-1), places


def test_the_best_answer_of_a_place_is_its_mean_label():
    labels, places = some_labels()
    lengths = [labels[places == place].mean(0).norm() for place in range(16)]
    counts = [(places == place).sum() for place in range(16)]
    expected = 1 - sum(n * c for n, c in zip(lengths, counts, strict=True)) / 160
    found = by_place(StoppedLabels(micro()), labels, places)
    assert found.loss == pytest.approx(expected.item(), abs=1e-3)
    assert 0 <= found.found <= 16 / 160  # one token of each place at most


def test_the_search_is_better_than_the_mean_where_the_loss_is_another():
    labels, places = some_labels()
    learner = TokensApart(micro())
    means = torch.stack([labels[places == place].mean(0) for place in range(16)])
    given = F.normalize(means, dim=1)[places.flatten()]
    assert by_place(learner, labels, places).loss < learner.loss(given, labels.flatten(0, 1))


@pytest.mark.parametrize("kind", WAYS.values(), ids=WAYS.keys())
def test_what_is_told_of_a_learner(kind):
    torch.manual_seed(0)
    learner, digits = kind(micro()), few_digits("test", 64)
    told = beside_places(learner, digits)
    seen, _ = heard(learner, digits)
    assert told["loss"] == pytest.approx(answered(learner, seen).loss, abs=1e-3)
    assert told["place_found"] <= 16 / 512 and told["place_loss"] < told["loss"]


def test_objectives_are_named_as_recipes_name_them():
    assert {name: LEARNERS[name] for name in OF_OBJECTIVE} == {
        name: WAYS[way] for name, way in OF_OBJECTIVE.items()
    }
