"""Kept answers teach what the model that gave them would, and are refused for other images."""

from dataclasses import replace

import pytest
import torch

from tests.training.small_runs import bits, few_digits, micro, same
from vitbook import datasets
from vitbook.model_utilities import weights_digest
from vitbook.runs import get_recipe
from vitbook.training import TeacherError, load_teacher, run, train
from vitbook.training.objectives.kept_answers import (
    About,
    KeptAnswers,
    keep_answers,
)
from vitbook.training.objectives.teachers import teacher_name

TEACHER = "digits-resnet8_digits-digits-seed0"
# Images as they are: what a model answers in a run is then what it answered once.
STILL = get_recipe(
    "digits", epochs=2, warmup_epochs=1.0, shift=0.0, rotation=0.0, zoom=0.0, distillation="hard",
    distillation_share=1.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    return few_digits()


def kept_of(dataset, answers=None):
    if answers is None:
        with torch.no_grad():
            model = load_teacher(TEACHER, dataset, "digits")
            answers = model(datasets.normalize(dataset.images))
    about = About(
        dataset.provenance["name"],
        dataset.provenance.get("digest", ""),
        list(dataset.class_names),
        {"teacher": TEACHER},
    )
    return KeptAnswers(answers, about)


def trained(dataset, teacher, recipe=STILL):
    student = micro()
    train(student, dataset, recipe, teacher=teacher, device="cpu", progress=False)
    return bits(student)


def test_answers_kept_teach_what_their_model_does(digits, tmp_path):
    """With labels of their own the answers would be missed: all labels are wrong."""
    wrong = replace(digits, labels=(digits.labels + 1) % 10)
    path = keep_answers(tmp_path, "digits-resnet8", kept_of(digits))
    looked_up = load_teacher(path, wrong, "digits")
    asked = load_teacher(TEACHER, wrong, "digits")
    assert same(trained(wrong, looked_up), trained(wrong, asked))
    soft = replace(STILL, distillation="soft", temperature=3.0, shuffled_teacher=True)
    others = kept_of(digits, looked_up.answers.flip(0).float())
    assert not same(trained(wrong, looked_up, soft), trained(wrong, others, soft))


def test_a_file_is_called_after_what_it_holds(digits, tmp_path):
    kept = kept_of(digits)
    first = keep_answers(tmp_path, "digits-resnet8", kept)
    other = keep_answers(tmp_path, "digits-resnet8", kept_of(digits, kept.answers + 1))
    assert first.stem.startswith("digits-resnet8-") and first != other
    back, again = (load_teacher(first, digits, "digits") for _ in range(2))
    assert torch.equal(back.answers, kept.answers.half()) and back.about == kept.about
    assert weights_digest(back) == weights_digest(again)
    assert teacher_name(first).startswith(f"{first.stem}@")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images": slice(100), "labels": slice(100)}, "to the 128 images of .*, the run has 100"),
        ({"provenance": {"name": "mine", "digest": "sha256:0"}}, "has 128 of mine .sha256:0"),
        ({"class_names": tuple("abcdefghij")}, "class 0 is '0' in the one and 'a' in the other"),
    ],
)
def test_other_images_than_were_answered(changes, words, digits):
    there = {
        key: getattr(digits, key)[value] if isinstance(value, slice) else value
        for key, value in changes.items()
    }
    with pytest.raises(TeacherError, match=words):
        trained(replace(digits, **there), kept_of(digits))


def test_a_share_or_mixed_images_have_no_answers(digits, tmp_path):
    few = datasets.take_share(digits, 0.5)
    with pytest.raises(TeacherError, match="the run takes a share of them .0.5 of each class"):
        trained(few, kept_of(digits))
    with pytest.raises(TeacherError, match="mixes two images into one, to which there is no answe"):
        trained(digits, kept_of(digits), replace(STILL, mixup=0.8))
    path = keep_answers(tmp_path, "digits-resnet8", kept_of(digits))
    with pytest.raises(TeacherError, match="to the 128 images of .*, the run has 1,442"):
        run("vit_micro_patch2_8", "digits", STILL, folder=tmp_path, teacher=path, progress=False)


def test_answers_that_cannot_be_kept_or_read(digits, tmp_path):
    with pytest.raises(TeacherError, match="NaN or infinity as float16: not written"):
        keep_answers(tmp_path, "digits-resnet8", kept_of(digits, torch.full((128, 10), 1e5)))
    assert not list(tmp_path.iterdir())
    path = keep_answers(tmp_path, "digits-resnet8", kept_of(digits))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(TeacherError, match="are damaged .its bytes are not those that were writte"):
        load_teacher(path, digits, "digits")
