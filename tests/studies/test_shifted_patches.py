import re
from pathlib import Path

import pytest
import torch

from vitbook import create_model
from vitbook.studies.shifted_patches import evidence, others_in_use, temperatures

ROOT = Path(__file__).resolve().parents[2]


def test_known_maps():
    even = torch.full((2, 1, 5, 5), 1 / 5)
    one = torch.eye(5).roll(1, 1).expand(2, 1, 5, 5)
    two = (one + torch.eye(5).roll(2, 1)) / 2
    maps = torch.cat([even, one, two], dim=1)
    assert others_in_use(maps).tolist() == pytest.approx([1, 1 / 4, 2 / 4])


def test_the_weight_on_oneself_does_not_count():
    weights = torch.rand(2, 3, 6, 6).softmax(-1)
    own = torch.eye(6, dtype=torch.bool)
    masked = weights.masked_fill(own, 0)
    masked = masked / masked.sum(-1, keepdim=True)
    mostly = 0.9 * torch.eye(6) + 0.1 * weights
    assert torch.allclose(others_in_use(masked), others_in_use(weights))
    assert torch.allclose(others_in_use(mostly), others_in_use(weights))


def test_sharper_is_less():
    scores = torch.randn(2, 3, 6, 6)
    used = [others_in_use((sharp * scores).softmax(-1)) for sharp in (0.5, 1, 2)]
    assert (used[0] > used[1]).all() and (used[1] > used[2]).all()


@pytest.mark.parametrize("name", ["lsa_vit_micro_patch2_8", "lsa_vit_tiny_patch4_32"])
def test_a_temperature_starts_at_one(name):
    model = create_model(name)
    assert torch.allclose(temperatures(model), torch.ones(()))
    model.encoder.blocks[1].attention.temperature.data.mul_(3)
    assert torch.allclose(temperatures(model).mean(1)[:3], torch.tensor([1.0, 3, 1]))


@pytest.fixture(scope="module")
def found():
    return evidence()


def test_the_chapter_links_five_claims_that_the_page_has_first(found):
    linked = re.findall(r"\{evidence\}`([^`]+)`", (ROOT / "book/shifted_patches.ipynb").read_text())
    photographs = ["500 photographs", "50,000 photographs"]  # two numbers of one claim
    short = ["143 digits", "1,442 digits", "SPT alone, 143 digits"]
    assert linked == ["Sixty epochs", *short, *photographs]
    assert [claim.name for claim in found.claims][: len(linked)] == linked


def test_what_the_chapter_says_stands_the_correction(found):
    verdicts = {claim.name: found.verdict(claim.name) for claim in found.claims}
    agree = ("143 digits", "1,442 digits", "SPT alone, 143 digits")
    assert {verdicts[name] for name in agree} == {"agrees"}
    assert verdicts["LSA alone, 143 digits"] == verdicts["Fewer digits, larger gain"] == "open"
    assert verdicts["Sixty epochs"] == "at the ceiling"
    assert verdicts["143 digits, 1,320 steps"] == "open"
    assert found["143 digits, 1,320 steps"].comparison.high < 4
    assert {told for name, told in verdicts.items() if "photographs" in name} == {"shows"}


def test_all_steps_are_equal(found):
    assert all(len(set(claim.comparison.steps)) == 1 for claim in found.claims)
    assert found["143 digits"].comparison.steps == found["1,442 digits"].comparison.steps
