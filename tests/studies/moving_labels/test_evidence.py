import pytest
import torch

from vitbook import datasets
from vitbook.studies.moving_labels import evidence as kept
from vitbook.studies.moving_labels.measured import TRACED, WAYS, fresh, told, trace, worth


def test_the_page_stands_on_rows_that_are_there():
    page = kept.evidence()
    ways = kept.learned("token_labels")
    assert list(ways) == list(WAYS) and all(len(rows) == 3 for rows in ways.values())
    steps = {row.curve[-1]["epoch"] for rows in ways.values() for row in rows}
    assert steps == {30}
    assert {claim.name for claim in page.claims} >= {"A slow copy", "All other tokens"}
    assert "pixels" in kept.worth() and "fresh weights" in kept.worth()


def test_the_figure_begins_with_the_same_labels_and_ends_as_the_traces_say():
    cloud = kept.clouds()
    first, *others = cloud["labels"].values()
    assert all((first[0] == each[0]).all() for each in others)
    assert cloud["steps"] == list(TRACED) and len(cloud["groups"]) == first.shape[1]
    norms = torch.from_numpy(first.copy()).float().norm(dim=-1) / 127
    assert norms.numpy() == pytest.approx(1, abs=0.02)


def test_a_trace_begins_as_the_kept_one(monkeypatch):
    monkeypatch.setattr("vitbook.studies.moving_labels.measured.TRACED", (0, 1))
    digits, held_out = (datasets.load("digits", split) for split in ("train", "test"))
    found = trace("a copy that stays", 0, digits, held_out)
    assert found["loss"][0] == pytest.approx(kept.traces("loss")["nothing"][0][1], abs=1e-3)
    assert found["spread"][0] == found["spread"][1] > 0.4  # it does not move


def test_what_is_above_fresh_weights_is_the_difference_of_the_means():
    seen = kept.worth_over_fresh("nearest")
    assert list(seen) == list(WAYS)
    means = {name: 100 * sum(row["nearest"] for row in rows) / 3
             for name, rows in kept.worth().items() if name != "pixels"}  # fmt: skip
    gap = means["nothing"] - means["fresh weights"]
    assert seen["nothing"].mean == pytest.approx(gap) and seen["nothing"].low < gap
    assert all(row["place_found"] <= 16 / 512 for row in kept.beyond_place().values())


def test_worth_of_what_knows_the_labels_and_of_noise():
    digits, held_out = (datasets.load("digits", split) for split in ("train", "test"))
    known = [torch.eye(10)[each.labels] for each in (digits, held_out)]
    assert told(*known, digits, held_out) == {"ridge": 1.0, "nearest": 1.0}
    generator = torch.Generator().manual_seed(0)
    noise = [torch.randn(len(each), 16, generator=generator) for each in (digits, held_out)]
    assert max(told(*noise, digits, held_out).values()) < 0.2
    found = worth(fresh(0), digits, held_out)
    (row,) = [row for row in kept.worth()["fresh weights"] if row["seed"] == 0]
    assert found["nearest_flat"] == pytest.approx(row["nearest_flat"], abs=0.01)
