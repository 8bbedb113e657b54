import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from small_runs import bits, few_digits, micro, same
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.datasets import Dataset
from vitbook.model_utilities import digest
from vitbook.runs import Recipe
from vitbook.training import (
    BatchTooLargeError,
    RunStoppedError,
    TeacherError,
    UnfinishedRunError,
    distillation_loss,
    hard_loss,
    soft_loss,
    train,
)
from vitbook.training.engine.batches import Batches
from vitbook.training.objectives.distillation import Teacher

RECIPE = Recipe(
    name="taught", epochs=2, batch_size=32, learning_rate=1e-3, ema=0.9, drop_path=0.2, shift=0.5,
    mixup=0.5, cutmix=0.5, erasing=0.5, policy="trivialaugment", distillation="hard",
)  # fmt: skip
PLAIN = Recipe(name="plain", epochs=1, batch_size=32, learning_rate=1e-3, distillation="hard")


EVEN = torch.zeros(1, 2)  # shares 1/2, 1/2
SURE = torch.tensor([[math.log(3), 0.0]])  # shares 3/4, 1/4
FAR = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)  # of the first from the second


def student(name="deit_micro_distilled_patch2_8"):
    return micro(name)


def resnet(seed=0):
    return vitbook.load_checkpoint(f"digits-resnet8_digits-digits-seed{seed}").model


def logits(images=5, classes=7, seed=0):
    chance = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(images, classes, generator=chance, dtype=torch.float64)


def naive(ours, theirs, temperature):
    """The sum over images and classes, number by number."""
    total = 0.0
    for one, other in zip(ours.tolist(), theirs.tolist(), strict=True):
        p = [math.exp(z / temperature) for z in one]
        q = [math.exp(z / temperature) for z in other]
        for a, b in zip(p, q, strict=True):
            a, b = a / sum(p), b / sum(q)
            total += b * math.log(b / a)
    return total


def test_soft_by_hand():
    assert soft_loss(EVEN, SURE).item() == pytest.approx(FAR)
    back = 0.5 * math.log(2 / 3) + 0.5 * math.log(2)  # the teacher's shares are the weights
    assert soft_loss(SURE, EVEN).item() == pytest.approx(back)
    # At temperature 1/2 the logits double: shares 9/10, 1/10.
    sharp = (0.9 * math.log(1.8) + 0.1 * math.log(0.2)) / 4
    assert soft_loss(EVEN, SURE, 0.5).item() == pytest.approx(sharp)


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_soft_against_a_loop_and_the_authors_line(temperature):
    ours, theirs = logits(seed=0), logits(seed=1)
    found = soft_loss(ours, theirs, temperature).item()
    expected = temperature**2 * naive(ours, theirs, temperature) / 5
    assert found == pytest.approx(expected, rel=1e-9)
    # As it stands in losses.py, whose mean is over the classes, too.
    line = F.kl_div(
        F.log_softmax(ours / temperature, dim=1), F.log_softmax(theirs / temperature, dim=1),
        reduction="sum", log_target=True,
    ) * (temperature * temperature) / ours.numel()  # fmt: skip
    assert found / 7 == pytest.approx(line.item())


def test_at_a_high_temperature_centred_logits_are_matched():
    """Hinton et al. 2015, section 2.1; what is left falls with the temperature."""
    ours, theirs = logits(seed=0), logits(seed=1)
    apart = [each - each.mean(dim=1, keepdim=True) for each in (ours, theirs)]
    matched = (apart[0] - apart[1]).square().mean().item() / 2
    left = [
        abs(soft_loss(ours.float(), theirs.float(), tau).item() - matched)
        for tau in (1e2, 1e4, 1e6)
    ]
    assert left[2] < 1e-5 * matched
    assert left[0] / left[1] == pytest.approx(100, rel=0.2)


def test_no_gradient_reaches_the_answers():
    for loss in (soft_loss, hard_loss):
        ours, theirs = (logits(seed=seed).requires_grad_() for seed in (0, 1))
        loss(ours, theirs).backward()
        assert theirs.grad is None and ours.grad.abs().min() > 0


def test_half_precision_does_not_reach_the_loss():
    ours, theirs = (logits(seed=seed).bfloat16() for seed in (0, 1))
    found = soft_loss(ours, theirs, 3.0)
    assert found.dtype == torch.float32
    exact = soft_loss(ours.double(), theirs.double(), 3.0).item()
    assert found.item() == pytest.approx(exact, rel=1e-5)


def test_hard_by_hand():
    """The teacher's class is the first, whatever its share."""
    sure = torch.tensor([[5.0, 0.0]])
    for answers in (SURE, sure):
        assert hard_loss(EVEN, answers).item() == pytest.approx(math.log(2))
        assert hard_loss(SURE, answers).item() == pytest.approx(math.log(4 / 3))
    assert hard_loss(EVEN, torch.tensor([[math.nan, 0.0]])).isnan()  # no number is no class


def test_each_head_learns_from_its_own_source():
    """Equations 2 and 3, with numbers: the label is the second class."""
    label, hard = torch.tensor([1]), replace(PLAIN, distillation_share=0.25)
    of_label, of_teacher = math.log(4), math.log(2)  # class head SURE, distillation head EVEN
    found = distillation_loss((SURE, EVEN), label, SURE, hard).item()
    assert found == pytest.approx(0.75 * of_label + 0.25 * of_teacher)
    one_head = distillation_loss(SURE, label, SURE, hard).item()
    assert one_head == pytest.approx(0.75 * of_label + 0.25 * math.log(4 / 3))
    smooth = 0.95 * math.log(4 / 3) + 0.05 * math.log(4)  # of the labels, never of the answers
    smoothing = replace(hard, label_smoothing=0.1)
    found = distillation_loss((SURE, SURE), torch.tensor([0]), SURE, smoothing).item()
    assert found == pytest.approx(0.75 * smooth + 0.25 * math.log(4 / 3))
    soft = replace(hard, distillation="soft", distillation_share=0.1)
    found = distillation_loss((SURE, EVEN), label, SURE, soft).item()
    assert found == pytest.approx(0.9 * of_label + 0.1 * FAR)
    assert distillation_loss(SURE, label, SURE, soft).item() == pytest.approx(0.9 * of_label)


def test_answers_and_temperatures_that_cannot_be(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch
        from vitbook.training import hard_loss, soft_loss
        for temperature in ("3", None, True, 0, float("nan")):
            with pytest.raises(ValueError, match=f"{temperature!r}: expected more than 0"):
                soft_loss(torch.eye(2), torch.eye(2), temperature)
        with pytest.raises(ValueError, match="expected more than 0, up to 1e.06"):
            soft_loss(torch.eye(2), torch.eye(2), 1e7)
        for loss in (soft_loss, hard_loss):
            for shape in ((1, 4), (3, 5)):
                with pytest.raises(ValueError, match="with .3, 4. and the teacher with .[13],"):
                    loss(torch.zeros(3, 4), torch.zeros(shape))
        """
    )


def test_a_shuffled_teacher_answers_for_another_image_of_the_label():
    data, recipe = few_digits(), replace(PLAIN, shuffled_teacher=True)
    batches = Batches(data, recipe, 3, torch.device("cpu"))
    images, labels = batches[2]
    model = resnet()
    found = Teacher(model, batches, 3)(images, 2)
    asked = Teacher(model, Batches(data, PLAIN, 3, torch.device("cpu")), 3)(images, 2)
    assert torch.equal(asked, model(images))
    came = (found[:, None] == asked[None]).all(dim=2)  # which image each answer was for
    assert came.sum(dim=1).tolist() == [1] * 32
    origin = came.int().argmax(dim=1)
    assert torch.equal(labels[origin], labels)
    alone = (labels[:, None] == labels[None]).sum(dim=1) == 1
    assert torch.equal(origin == torch.arange(32), alone)
    assert torch.equal(found, Teacher(model, batches, 3)(images, 2))
    assert not torch.equal(found, Teacher(model, batches, 4)(images, 2))


def watched(model, kept, learning):
    """Keep what a model is asked, and how, while the run learns."""

    def note(module, inputs, answers):
        if learning and not module.training:
            return  # the student is measured
        first = answers[0] if isinstance(answers, tuple) else answers
        how = (module.training, torch.is_grad_enabled(), first.dtype)
        kept.append((digest({"images": inputs[0].detach().contiguous()}), how))

    model.register_forward_hook(note)
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_teacher_sees_what_the_student_sees(dtype, monkeypatch):
    """The same bits, mixed and augmented, in the same precision, as it is, without a gradient."""
    monkeypatch.setattr("vitbook.training.engine.loop.training_dtype", lambda device: dtype)
    asked, answered = [], []
    model, teacher = watched(student(), asked, True), watched(resnet(), answered, False)
    train(model, few_digits(), RECIPE, teacher=teacher.train(), device="cpu", progress=False)
    (first, _), *answered = answered  # before the run: can it answer at all?
    assert [image for image, _ in asked] == [image for image, _ in answered]
    assert len({image for image, _ in asked}) == len(asked) == 8 and first not in dict(asked)
    assert {how for _, how in asked} == {(True, True, dtype)}
    assert {how for _, how in answered} == {(False, False, dtype)}


def test_the_teacher_is_left_as_it_came(tmp_path):
    """Weights, statistics, what may learn, and the mode of each part."""
    teacher = resnet().train()
    list(teacher.children())[-1].eval()
    modes, before = [part.training for part in teacher.modules()], bits(teacher)
    assert len(set(modes)) == 2
    model = student()
    start, options = bits(model), dict(state=tmp_path / "x", save_every_s=0, progress=False)
    train(model, few_digits(), RECIPE, teacher=teacher, device="cpu", **options)
    assert [part.training for part in teacher.modules()] == modes
    assert same(bits(teacher), before)
    assert all(w.grad is None and w.requires_grad for w in teacher.parameters())
    assert not any(torch.equal(start[n], w) for n, w in bits(model).items() if "head" in n)
    with safe_open(tmp_path / "x", framework="pt") as file:
        kept = {name.split(".", 1)[1] for name in file.keys() if name.startswith("model.")}
    assert kept == set(model.state_dict())  # of the teacher nothing is written


def test_each_head_s_gradient_comes_from_its_own_source():
    """With the whole share the labels teach nothing: any others leave the same model."""
    data, recipe = few_digits(), replace(PLAIN, distillation_share=1.0)
    other = Dataset(data.images, data.labels.flip(0), data.class_names, data.provenance)
    ours, theirs, labelled = student(), student(), student()
    for model, learned, how in (
        (ours, data, recipe), (theirs, other, recipe), (labelled, other, PLAIN),
    ):  # fmt: skip
        train(model, learned, how, teacher=resnet(), device="cpu", progress=False)
    assert same(bits(ours), bits(theirs)) and not same(bits(ours), bits(labelled))
    before, after = student().head, ours.head
    for head, moved in (("classifier", False), ("distillation", True)):
        weights = [getattr(each, head).weight for each in (before, after)]
        alike = F.cosine_similarity(*weights)  # decay alone makes them shorter
        assert bool((alike < 0.999).any()) == moved, alike


@pytest.mark.parametrize(
    ("name", "kind"), [("vit_micro_patch2_8", "soft"), ("deit_micro_distilled_patch2_8", "hard")]
)
def test_a_student_comes_to_agree_with_its_teacher(name, kind):
    """The teacher calls every digit by the next one's name, and the labels are not heard."""

    class Next(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, images):
            return self.model(images).roll(1, dims=1)

    whole, teacher = few_digits(n=640), Next(resnet())
    chosen = whole.labels < 2
    data = replace(whole, images=whole.images[chosen], labels=whole.labels[chosen])
    recipe = Recipe(
        name="r", epochs=4, batch_size=16, learning_rate=1e-3, warmup_epochs=1.0,
        distillation=kind, distillation_share=1.0,
    )  # fmt: skip
    model = student(name)
    train(model, data, recipe, teacher=teacher, device="cpu", progress=False)
    images = datasets.normalize(data.images)
    with torch.no_grad():
        tokens = model.eval().features(images)
        head = model.head.distillation if "deit" in name else model.head.classifier
        found = head(tokens[:, 1 if "deit" in name else 0]).argmax(1)
        assert (found == teacher.eval()(images).argmax(1)).float().mean() > 0.5
        assert (found == data.labels).float().mean() < 0.2


def test_another_teacher_is_another_run(tmp_path):
    options = dict(state=tmp_path / "x", device="cpu", progress=False)
    with pytest.raises(RunStoppedError):
        train(student(), few_digits(), RECIPE, teacher=resnet(0), stop=lambda: True, **options)
    with pytest.raises(UnfinishedRunError, match="is of another run: its teacher is '"):
        train(student(), few_digits(), RECIPE, teacher=resnet(1), **options)
    train(student(), few_digits(), RECIPE, teacher=resnet(0), **options)


class Foreign(nn.Module):
    """Not ours: it says nothing of itself."""

    def __init__(self, answer, channels=1):
        super().__init__()
        self.convolution, self.answer = nn.Conv2d(channels, 10, 8), answer

    def forward(self, images):
        return self.answer(self.convolution(images).flatten(1))


def test_a_teacher_without_a_recipe_for_it_and_the_reverse():
    given = dict(device="cpu", progress=False)
    with pytest.raises(ValueError, match="recipe plain has distillation 'hard' and the run no tea"):
        train(student(), few_digits(), PLAIN, **given)
    untaught = replace(PLAIN, distillation="")
    with pytest.raises(ValueError, match="the run has a teacher and recipe plain no distillation"):
        train(student(), few_digits(), untaught, teacher=micro(), **given)


@pytest.mark.parametrize(
    ("teacher", "words"),
    [
        (lambda: vitbook.create_model("resnet8_digits", num_classes=5), "has 5 classes and the s"),
        (
            lambda: vitbook.create_model("vit_micro_patch2_8", image_size=12),
            "made for images of 1 channels and 12 x 12 pixels, the student's have 1 channels and 8",
        ),
        (lambda: Foreign(nn.Identity(), 3), r"Foreign, fails on images of 1 channels .*\(Given g"),
        (lambda: Foreign(lambda x: (x, x)), "answers 2 images with tuple: expected logits"),
        (lambda: Foreign(lambda x: x[:1]), r"answers 2 images with \(1, 10\): expected logits"),
        (lambda: Foreign(lambda x: x > 0), "answers with bool: expected floating-point logits"),
        (lambda: Foreign(lambda x: x / 0), "answers NaN or infinity"),
        (lambda: Foreign(lambda x: {}["logits"]), r"pixels .'logits'.: take one that is made for"),
    ],
)
def test_a_teacher_that_cannot_teach(teacher, words):
    with pytest.raises(TeacherError, match=words) as refused:
        train(student(), few_digits(), PLAIN, teacher=teacher(), device="cpu", progress=False)
    assert "\n" not in str(refused.value)


def test_a_student_does_not_teach_itself():
    learner, teacher = student(), student()
    teacher.load_state_dict(learner.state_dict(), assign=True)  # their weights lie in one place
    with pytest.raises(TeacherError, match="shares weights with the student: give a copy"):
        train(learner, few_digits(), PLAIN, teacher=teacher, device="cpu", progress=False)


def test_a_batch_that_is_too_large_for_the_teacher():
    """What is tried instead is tried beside it, for a student with two heads."""

    def at_most_eight(answers):
        if len(answers) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return answers

    with pytest.raises(BatchTooLargeError, match="batch_size 32 does not fit .*; 8 does .tried.:"):
        train(
            student(), few_digits(), PLAIN, teacher=Foreign(at_most_eight), device="cpu",
            progress=False,
        )  # fmt: skip
