import re
from pathlib import Path

import pytest

from vitbook.studies.scale import claims, printed

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def found():
    return claims.evidence()


def test_the_page_has_first_what_the_chapter_links(found):
    linked = re.findall(r"\{evidence\}`([^`]+)`", (ROOT / "book/scale.ipynb").read_text())
    assert len(linked) <= 5
    assert sorted(linked) == sorted(claim.name for claim in found.claims[: len(linked)])


def test_the_chapter_says_what_the_claims_say(found):
    told = {
        "A quarter of the cost": "agrees", "Large patches, 60 epochs": "at the ceiling",
        "Depth or width": "open", "Depth or width, a quarter": "open",
    }  # fmt: skip
    assert {name: found.verdict(name) for name in told} == told
    coarse, *_ = claims.SHAPES["patch side"]
    narrow = claims.digits(claims.SHAPES["width"][0])[0].parameters
    assert 3.5 < claims.digits(coarse)[0].parameters / narrow < 4.5


def test_on_all_tasks_is_five_of_seven():
    gaps = printed.lead_over_bit()
    assert len(gaps) == 7 and sum(gap > 0 for gap in gaps.values()) == 5
    assert gaps["ImageNet ReaL"] == 0 > gaps["VTAB"]


def test_at_equal_epochs_too_the_larger_model_leads_on_jft():
    seven = {model: row["value"] for model, _, row in printed._table_6() if row["epochs"] == 7}
    assert 0.021 < seven["ViT-L/16"] - seven["ViT-B/16"] < 0.022
    (_, base), (_, large) = printed.by_images()["patches of 16 px"].items()
    assert base[-1][1] == 100 * seven["ViT-B/16"]  # 7 epochs in table 5
    assert large[-1][1] > 100 * seven["ViT-L/16"] + 0.5  # 14
    (_, base), (_, large) = printed.by_images()["patches of 32 px"].items()
    assert (base[-1][1], large[-1][1]) == (100 * seven["ViT-B/32"], 100 * seven["ViT-L/32"])


def test_computation_is_read_between_two_models():
    assert printed.compute_for(84.37, "ViT") == pytest.approx(196)
    assert printed.compute_for((84.37 + 86.30) / 2, "ViT") == pytest.approx((196 * 783) ** 0.5)
    assert printed.compute_for(80, "hybrid") is None and printed.compute_for(90, "ViT") is None
    # 224 exaFLOPs bought less than 196 did: it is on no line.
    assert [low for low, *_ in printed.a_doubling("ViT")] == [55, 196, 783, 1567]


@pytest.mark.parametrize("dataset", claims.FEW)
def test_fewer_images_are_read_better_from_an_earlier_block(dataset):
    last, ninth = claims.few_shots(dataset)
    assert (claims.block_read(last), claims.block_read(ninth)) == ("the last block", "block 9")
    all_shots = {1, 2, 5, 10, 20, 50, 100}
    for reader, better in (("ridge", all_shots - {50, 100}), ("neighbours", all_shots)):
        own, other = (claims.frozen(few, "pretrained", 1, reader) for few in (ninth, last))
        assert {a[0] for a, b in zip(own, other, strict=True) if a[1] > b[1]} == better
