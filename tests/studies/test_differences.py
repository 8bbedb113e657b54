import re
from pathlib import Path

import pytest

from vitbook.studies import differences

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found():
    return differences.evidence()


def test_the_chapter_links_the_claims_that_the_page_has_first(found):
    text = (ROOT / "book/differences.ipynb").read_text()
    linked = re.findall(r"\{evidence\}`([^`]+)`", text)
    assert linked == [claim.name for claim in found.claims[:3]]


def test_at_equal_steps_the_gain_needs_no_few_digits(found):
    few, long, short, larger = found.claims
    assert few.comparison.steps == short.comparison.steps != long.comparison.steps
    assert [found.verdict(each.name) for each in (few, long, short)] == [
        "agrees", "at the ceiling", "agrees",
    ]  # fmt: skip
    assert found.verdict(larger.name) == "open"


def test_seeds_of_one_model_lie_farther_apart_than_two_models():
    plain, turned = map(differences.of_seeds, ("vit", "rot_vit"))
    assert len(plain) == len(turned) == 8
    assert max(plain) - min(plain) > 2 * abs(sum(turned) - sum(plain)) / 8


def test_printed_percentages_tell_the_numbers_of_test_images():
    def smallest(names):
        shares = [differences.printed(name, "TF-Flowers") for name in names]
        return next(
            n for n in range(1, 10_000)
            if sum(any(round(k / n, 4) == share for k in (int(share * n), int(share * n) + 1))
                   for share in shares) >= 4
        )  # fmt: skip

    assert smallest(differences.MODELS) == differences.TESTED["TF-Flowers"]
    assert smallest(differences.TUNED) == differences.FLOWERS_TUNED
