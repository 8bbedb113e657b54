"""What the chapter on pyramids says of its rows, whatever these are, and what it counts."""

from dataclasses import asdict, replace

import pytest
import torch

from vitbook import create_model, runs
from vitbook.measure import count_macs, count_parameters
from vitbook.studies import pyramids as study

EXPERIMENT = runs.get_experiment("pyramids")
(SOME,) = (
    row for row in runs.read_all()
    if row.experiment == "designs" and row.model == "vit_se_mini_patch4_32"
)  # fmt: skip


@pytest.fixture
def ledger(monkeypatch):
    """A ledger whose rows of the experiment are made: role -> accuracies by seed, in percent."""

    def fill(asked_by="pyramids", **by_role):
        made = [
            replace(
                SOME, model=run.model, seed=run.seed, recipe=asdict(run.recipe),
                experiment=asked_by, accuracy=accuracy / 100,
            )
            for role, accuracies in by_role["rows"].items()
            for run, accuracy in zip(EXPERIMENT.roles[role], accuracies, strict=False)
        ]  # fmt: skip
        monkeypatch.setattr(runs, "read_all", lambda: made)
        monkeypatch.setattr("vitbook.runs.plan.read_all", lambda: made)

    return fill


def around(middle, seeds=3, spread=0.2):
    return [middle + spread * (seed - 1) for seed in range(seeds)]


def test_the_roles_are_those_of_the_experiment():
    assert list(study.ROLES) == list(EXPERIMENT.roles)
    assert all(len(planned) == 3 for planned in EXPERIMENT.roles.values())


def test_without_rows_nothing_is_said(ledger):
    ledger(rows={})
    found = study.learned()
    assert found.seeds == found.top1("Swin") == found.against_plain("Swin") == "not run"
    assert "No two models" in found.finding and "not been run" in found.of_ways
    kept = study.evidence()
    assert not kept.claims and len(kept.tables) == 2 and len(kept.not_run) == 6


def test_one_run_shows_and_neither_agrees_nor_contradicts(ledger):
    ledger(rows={"plain": [50.0], "Swin": [56.0], "pyramid, mean": [44.0], "plain, as deep": [50.5],
                 "pyramid, linear": [43.9], "pyramid, convolution": [50.0]})  # fmt: skip
    found = study.learned()
    assert found.seeds == "1 seed of each"
    assert found.top1("Swin") == "56.0, one run" and found.against_plain("Swin") == "+6.0, ±1.4"
    assert found.against_plain("pyramid, mean").startswith("−6.0, ±")
    told = found.finding
    assert "In one run each, above plain: Swin." in told
    assert (
        "In one run each, below plain: the pyramid by a linear layer; the pyramid by a mean."
        in told
    )
    assert "could bring it: the plain model as deep; the pyramid by a convolution." in told
    assert "the convolution lies in one run above the linear layer, +6.1, ±1.4" in found.of_ways
    assert "the mean lies in one run near the linear layer, +0.1, ±1.4" in found.of_ways
    kept = study.evidence()
    assert {kept.verdict(claim.name) for claim in kept.claims} == {"shows"}
    assert len(kept.not_run) == 6 and not kept.chances


def test_three_seeds_decide_and_holm_corrects_five(ledger):
    ledger(rows={"plain": around(50), "Swin": around(56), "pyramid, mean": around(44),
                 "plain, as deep": around(50.1), "pyramid, linear": around(44.02),
                 "pyramid, convolution": around(50.55)})  # fmt: skip
    found = study.learned()
    assert found.seeds == "3 seeds of each" and found.top1("Swin") == "56.0 ± 0.2, 3 seeds"
    assert found.against_plain("Swin").startswith("+6.0 (+5.")
    assert found.finding == (
        "Above plain: Swin. Above plain, but only a lead among five comparisons: the pyramid by a "
        "convolution. Not told apart from plain: the plain model as deep. Below plain: "
        "the pyramid by a linear layer; the pyramid by a mean."
    )
    assert "the convolution is above the linear layer, +6.5 (" in found.of_ways
    assert "the linear layer is not told apart from the mean, +0.0 (" in found.of_ways
    kept = study.evidence()
    assert len(kept.chances) == 5 and not kept.not_run and len(kept.tables) == 3


def test_a_ledger_that_fills_is_told_as_it_stands(ledger):
    ledger(rows={"plain": around(50), "Swin": [56.0], "pyramid, mean": around(44, 2)})
    found = study.learned()
    assert found.seeds == "0 to 3 seeds of each"
    assert found.top1("Swin") == "56.0, one run" and found.top1("pyramid, linear") == "not run"
    assert (
        "Below plain: the pyramid by a mean. In one run each, above plain: Swin." in found.finding
    )
    assert found.of_ways == "The ways of shrinking have not been run."
    left = study.evidence().not_run
    assert sum(len(line["seeds"].split(", ")) for line in left) == 12


def test_a_row_that_another_experiment_asked_for_counts(ledger):
    ledger(asked_by="modern", rows={"plain": [50.0]})
    found = study.learned()
    assert study.with_class_token() == "not run"  # it is another model
    assert found.top1("plain") == "50.0, one run"
    assert [line["accuracy, %"] for line in found.table] == ["50.0, one run"] + 5 * ["not run"]


def test_other_rows_than_the_ledgers_are_told_alike(ledger):
    ledger(rows={role: around(50 + at) for at, role in enumerate(study.ROLES)})
    rows = study.learned().rows
    ledger(rows={})
    found = study.learned(rows.__getitem__)
    assert found.rows == rows and found.table[0]["points above plain"] == ""
    assert found.table[5]["points above plain"].startswith("+5.0 (+4.")


def test_the_same_cost_and_seven_times_the_parameters():
    models = [planned[0].model for planned in EXPERIMENT.roles.values()]
    counted = study.small_models(models)
    parameters, macs = zip(*counted.values(), strict=True)
    assert max(macs) < 1.03 * min(macs)
    assert max(parameters[:2]) < 470_000 and 3_100_000 < min(parameters[2:]) < 3_450_000
    model = create_model(models[-1]).eval()  # and not on the meta device
    assert count_macs(model, torch.zeros(1, 3, 32, 32)) == macs[-1]


def test_a_fine_map_costs_a_plain_model_the_square_of_its_tokens():
    costs = {name: dict(line) for name, line in study.costs_by_size(iter((224, 448))).items()}
    coarse, fine, _, swin, pvt = (costs[name] for name in costs)
    assert coarse[224] == pytest.approx(4.6, abs=0.05) and swin[224] == pytest.approx(4.5, abs=0.05)
    assert pvt[224] == pytest.approx(4.0, abs=0.05)
    # By hand, of 12 blocks 384 wide on 3,136 tokens; patches and head beside.
    tokens, width = 56**2, 384
    blocks = 12 * ((tokens + 1) * 12 * width**2 + 2 * (tokens + 1) ** 2 * width)
    assert fine[224] * 1e9 == pytest.approx(blocks + tokens * 48 * width + 1000 * width, rel=1e-3)
    assert swin[448] / swin[224] == pytest.approx(4, abs=0.01)  # linear in tokens
    assert fine[448] / fine[224] > 10


def test_windows_and_narrow_tokens_are_the_two_parts_of_what_swin_saves():
    costs = {name: line[0][1] * 1e9 for name, line in study.costs_by_size((224,)).items()}
    _, fine, windows, swin, _ = costs.values()
    # By hand: 3,136 tokens, 12 blocks, windows of 49 tokens; patches and head beside.
    by_hand = {
        width: 3136 * (12 * (12 * width**2 + 2 * 49 * width) + 48 * width) + 1000 * width
        for width in (384, 96)
    }
    parameters, narrow = study.narrow_in_windows()
    assert windows == by_hand[384] and narrow * 1e9 == by_hand[96]
    assert fine / windows == pytest.approx(2.31, abs=0.01)
    assert windows / swin == pytest.approx(384**2 / 96**2, rel=0.06)
    assert narrow * 1e9 == pytest.approx(swin, rel=0.01)  # stages are for nothing
    staged = create_model("swin_tiny_patch4_window7_224")
    assert 19 * parameters < count_parameters(staged) < 20 * parameters


def test_colours_are_the_same_for_the_same_numbers():
    torch.manual_seed(0)
    few = torch.randn(5, 3)
    which = torch.randint(0, 5, (1, 6, 8))
    colors = study.as_colors(few[which].permute(0, 3, 1, 2))
    assert colors.shape == (1, 3, 6, 8) and colors.dtype == torch.uint8
    for number in range(5):
        assert len(colors[0].permute(1, 2, 0)[which[0] == number].unique(dim=0)) == 1


def test_a_picture_says_its_size():
    maps = {"CNN": torch.randn(1, 5, 3, 4), "ViT": torch.randn(1, 7, 2, 2)}
    shown = study.pictures(maps)
    assert list(shown) == ["CNN, 5 × 3 × 4", "ViT, 7 × 2 × 2"]
    assert torch.equal(shown["ViT, 7 × 2 × 2"], study.as_colors(maps["ViT"])[0])
