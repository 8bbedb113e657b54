"""What the chapter on distillation claims, and a teacher that is asked once."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from vitbook import create_model, datasets, runs
from vitbook.datasets import Dataset
from vitbook.datasets.share import rows_of_share
from vitbook.studies import distillation as study
from vitbook.studies.distillation.answers import answer, pooled

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found():
    return study.evidence()


def test_the_chapter_links_claims_that_the_page_has_first(found):
    linked = re.findall(r"\{evidence\}`([^`]+)`", (ROOT / "book/distillation.ipynb").read_text())
    assert linked[:3] == ["Soft answers", "Answers of the image", "Smoother labels"]
    assert [claim.name for claim in found.claims][: len(linked)] == linked


def test_what_the_chapter_says_stands_the_correction(found):
    assert found.verdict("Soft answers") == found.verdict("Answers of the image") == "open"
    assert found.verdict("Smoother labels") == "a lead for"
    assert found["Smoother labels"].comparison.steps == (440, 440)
    assert found.verdict("Flowers without labels") == "a lead for"
    assert found.verdict("What ImageNet taught") == "agrees"


def test_teachers_of_flowers_differ_in_what_they_knew():
    """The runs name these answers, and both heads saw the same labels."""
    kept = study.teachers()
    fresh, knows = (kept[name].about.provenance for name in study.SIDES[1:3])
    told = ("dataset", "share", "share_seed", "labels", "image_size")
    assert [fresh[key] for key in told] == [knows[key] for key in told]
    assert knows["accuracy_held_out"] > 0.8 > 0.5 > fresh["accuracy_held_out"]
    asked = runs.get_experiment("teacher")
    files = {path.stem for path in (ROOT / "data" / "answers").glob("*.safetensors")}
    assert {run.teacher for run in asked.runs} - {""} == files


def test_a_head_learns_from_its_share_alone():
    labels = torch.arange(3).repeat_interleave(40)
    seen = nn.functional.one_hot(labels, 3).float() + 0.05 * torch.randn(120, 3)
    data = Dataset(
        torch.zeros(120, 1, 2, 2, dtype=torch.uint8), labels, ("a", "b", "c"),
        {"name": "x", "digest": "y"},
    )  # fmt: skip
    kept = answer(data, data, seen, seen, "x", 0.5, {"teacher": "z"})
    about = kept.about.provenance
    assert about["labels"] == 60 and about["accuracy_unlabelled"] == 1
    assert kept.answers.argmax(1).equal(labels)
    # Images outside the share do not change what it answers to those inside.
    given = torch.zeros(120, dtype=bool).index_fill(0, rows_of_share(data, 0.5), True)
    wrong = seen.clone()
    wrong[~given] = seen[~given].roll(1, dims=1)  # they look like another class
    again = answer(data, data, wrong, seen, "x", 0.5, {})
    assert again.about.provenance["accuracy_unlabelled"] == 0
    assert torch.equal(again.answers[given], kept.answers[given])


def test_features_are_the_mean_of_the_last_map():
    class Net(nn.Module):
        def forward_features(self, images):
            return images * 2

        def forward_head(self, maps, pre_logits):
            assert pre_logits
            return maps.mean((2, 3))

    images = torch.randint(256, (5, 3, 4, 4), dtype=torch.uint8)
    expected = 2 * datasets.normalize(images).mean((2, 3))
    assert torch.allclose(pooled(Net(), images, batch_size=2), expected, atol=1e-6)


def test_cosines_of_the_two_tokens_block_by_block():
    student = create_model(study.DEIT).eval()
    images = torch.rand(3, 1, 8, 8)
    found = study.token_cosines(student, images)
    assert len(found) == 1 + len(student.encoder.blocks)
    with torch.no_grad():
        tokens = student.embed(images)
        tokens = student.encoder.blocks[0](tokens)
    by_hand = [nn.functional.cosine_similarity(t[0], t[1], dim=0).item() for t in tokens]
    assert found[1].item() == pytest.approx(sum(by_hand) / 3, abs=1e-5)
