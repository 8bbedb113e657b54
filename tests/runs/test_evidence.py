"""What a page of evidence asks of the ledger and of the plan."""

from dataclasses import replace

import pytest

from vitbook import runs
from vitbook.runs import evidence


@pytest.fixture(scope="module")
def rows():
    return runs.read_all()


def test_rows_are_chosen_by_their_fields(rows):
    few = runs.select(rows, experiment="few_digits", share=0.1, model="vit_micro_patch2_8")
    assert sorted(row.seed for row in few) == list(range(8))
    assert runs.select(rows, experiment="none such") == []


def test_what_others_print_stands_beside_its_difference():
    told = runs.reported("Rot-ViT (poster)", "ViT-Ti (poster)", "CIFAR-10")
    assert told == "81.96 % against 81.56 % (+0.40)"
    with pytest.raises(runs.LedgerError, match="no accuracy of Rot-ViT .poster. on MNIST"):
        runs.reported("Rot-ViT (poster)", "ViT-Ti (poster)", "MNIST")


def test_from_scratch_comes_before_fine_tuned(monkeypatch):
    assert runs.printed("SL-ViT (poster)", "SVHN") is None
    assert runs.printed("ViT-B/16s (poster)", "TF-Flowers") == 0.9473
    assert runs.printed("ViT-Ti (poster)", None, "images per second") == 1600
    twice = [{"dataset": "A", "source": "", "value": value} for value in (0.1, 0.2)]
    monkeypatch.setattr(evidence, "published", lambda **_: twice)
    with pytest.raises(runs.LedgerError, match="2 values of accuracy of x on A: expected 1"):
        runs.printed("x", "A")


def test_what_was_not_run_has_its_price(rows, monkeypatch):
    plan = runs.get_experiment("few_digits")
    monkeypatch.setattr("vitbook.runs.plan.read_experiments", lambda: (plan,))
    model = "vit_micro_patch2_8"
    assert runs.not_run(["few_digits"], rows, [model]) == []
    kept = [row for row in rows if row.experiment != "few_digits" or row.model != model]
    kept = [replace(row, images_per_second=1000.0) for row in kept]
    (line,) = runs.not_run(["few_digits"], kept, [model])
    assert line["seeds"] == "0, 1, 2, 3, 4, 5, 6, 7"
    assert line["hours"] == f"{8 * 28_160 / 1000 / 3600:.1f}"
    (line,) = runs.not_run(["few_digits"], [], [model])
    assert line["hours"] == "not known"


def test_a_claim_says_when_its_runs_were_planned(rows):
    few = runs.select(rows, experiment="few_digits", share=0.1)
    sides = (runs.select(few, model=f"{kind}_micro_patch2_8") for kind in ("spt_vit", "vit"))
    claim = runs.Claim("SPT", "SPT helps.", ("SPT", "plain"), *sides)
    assert claim.planned == {"few_digits": "2026-11-25"}
