"""What the chapter on rotated patches may claim, and what it may not."""

import re
from pathlib import Path

import pytest

from vitbook import runs
from vitbook.studies import rotated_patches

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found():
    return rotated_patches.evidence()


def test_the_chapter_links_five_claims_that_the_page_has_first(found):
    linked = re.findall(r"\{evidence\}`([^`]+)`", (ROOT / "book/rotated_patches.ipynb").read_text())
    photographs = ["500 photographs", "50,000 photographs"]  # two numbers of one claim
    assert linked == ["Sixty epochs", "The LayerNorm", "143 digits", "1,442 digits", *photographs]
    assert [claim.name for claim in found.claims][: len(linked)] == linked


def test_what_stands_the_correction(found):
    verdicts = {claim.name: found.verdict(claim.name) for claim in found.claims}
    stands = {name: told for name, told in verdicts.items() if told in ("agrees", "contradicts")}
    assert stands == {"The LayerNorm": "agrees", "1,442 digits": "agrees",
                      "Fewer digits, larger gain": "contradicts"}  # fmt: skip
    assert verdicts["Sixty epochs"] == "at the ceiling" and verdicts["143 digits"] == "a lead for"
    assert verdicts["143 digits, 1,320 steps"] == "a lead against"
    assert {told for name, told in verdicts.items() if "photographs" in name} == {"shows"}


def test_all_seeds_of_the_ledger_count_at_equal_steps(found):
    assert all(len(set(claim.comparison.steps)) == 1 for claim in found.claims)
    assert found["143 digits"].comparison.ours.seeds == 8
    assert found["143 digits"].comparison.steps == found["1,442 digits"].comparison.steps


def test_an_overhead_is_one_over_the_measured_speed():
    bench = [each for each in runs.measurements("bench") if "rot_vit" in each.subject]
    (speed,) = [
        row["speed_over_first"] for each in bench for row in each.rows
        if (row["model"], row["pass"]) == ("rot_vit_tiny_patch4_32", "forward")
    ]  # fmt: skip
    middle, low, high = rotated_patches.overheads()[32]
    assert middle == pytest.approx(1 / speed[0]) and low <= middle <= high
