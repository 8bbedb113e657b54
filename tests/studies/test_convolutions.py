from math import log

import pytest

from vitbook.studies.convolutions import (
    SHARES,
    digits_read,
    evidence,
    hybrid_leads,
    nearest_neighbour,
    photographs,
)
from vitbook.training import at_scale


@pytest.fixture(scope="module")
def found():
    return evidence()


def test_the_two_figures_show_what_the_claims_say(found):
    apart, photos = digits_read(), photographs(at_scale("photograph_counts"))
    in_order, shuffled, scattered = apart["shared kernels"]
    assert found["Shuffle, digits that move"].comparison.gap == pytest.approx(in_order - shuffled)
    assert found["Sharing"].comparison.gap == pytest.approx(in_order - apart["own kernels"][0])
    assert found["Nearness"].comparison.gap == pytest.approx(
        apart["own kernels"][0] - apart["own kernels"][1]
    )
    assert found["Pixels shuffled, ResNet"].comparison.gap == pytest.approx(shuffled - scattered)
    for n, images in enumerate(SHARES):
        gap = photos["hybrid"][n] - photos["Vision Transformer"][n]
        claim = found[f"Hybrid, {images:,} photographs"]
        assert claim.comparison.gap == pytest.approx(gap)
        assert claim.comparison.steps == (1950, 1950)


def test_what_the_chapter_says_holds(found):
    assert found.verdict("Shuffle, digits that move") == "agrees"
    stay = found["Shuffle, digits that stay"].comparison
    assert min(stay.ours.mean, stay.theirs.mean) > 98
    assert found["Sharing"].comparison.low > 0 and found["Nearness"].comparison.low > 0
    assert found.verdict("Sharing against nearness") == "agrees"
    assert found["Pixels shuffled, Vision Transformer"].comparison.low > 10
    tuned = [found[f"Fine-tuned on {data}"].comparison for data in ("TF-Flowers", "Tiny-ImageNet")]
    assert max(each.high for each in tuned) < 0
    stem = found["Stem, digits that move"].comparison
    assert stem.low > 10 and 97.5 < stem.ours.mean < 98.5
    ends = [found[f"Hybrid, {images:,} photographs"].comparison.gap for images in SHARES]
    assert min(ends[:2]) > 5 > 2 > max(map(abs, ends[2:]))
    resnet = [found[f"ResNet-20, {images:,} photographs"].comparison.gap for images in SHARES]
    assert resnet[0] == min(resnet) and resnet[-1] == max(resnet)


def test_no_shuffle_changes_the_nearest_neighbour():
    assert nearest_neighbour() == nearest_neighbour("moved_digits_shuffled")


def test_a_hybrid_stands_beside_a_vit_of_equal_compute():
    leads = hybrid_leads()
    share = (log(274) - log(196)) / (log(783) - log(196))  # between ViT-L/32 and ViT-L/16
    assert leads[274] == pytest.approx(85.58 - (84.37 + share * (86.30 - 84.37)))
    assert list(leads) == sorted(leads) and list(leads.values()) == sorted(leads.values())[::-1]
