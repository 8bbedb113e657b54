"""Teachers by name: weights that have learned, or a fresh model as a null."""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.colors import OURS, recoloring, say_colors
from vitbook.datasets import Dataset, normalize
from vitbook.datasets.dataset import first_difference
from vitbook.errors import UnknownNameError
from vitbook.model_utilities import evaluating
from vitbook.models import create_model, list_models
from vitbook.models.weights.linear_heads import shipped_heads
from vitbook.models.weights.pretrained import PRETRAINED, load_pretrained
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.batch_random import seed_of
from vitbook.training.engine.checkpoints import load_checkpoint
from vitbook.training.engine.memory import is_out_of_memory
from vitbook.training.objectives.kept_answers import (
    KeptAnswers,
    TeacherError,
    answers_file,
    read_answers,
)
from vitbook.training.transfer.start import check_weights, is_checkpoint, start_name

FRESH = "fresh:"


def load_teacher(
    teacher: str | Path, dataset: Dataset, dataset_name: str, *, seed: int = 0
) -> nn.Module:
    """A model that knows the classes of a data set, for :func:`vitbook.training.train`.

    A checkpoint answers as it was trained. Weights of `vitbook weights list` answer through the
    linear head that the book fitted on their frozen body for this data set, with positions resized
    to its images. A model of the catalogue with fresh weights, "fresh:resnet8_digits", knows
    nothing: what it teaches is what any teacher would. Kept answers need no model: a teacher that
    is large or of another library gave them once.

    Args:
        teacher: one of the book's own checkpoints, the file of a checkpoint, a name of `vitbook
            weights list`, one of timm's, "fresh:" and a name of the catalogue, or answers that
            :func:`.keep_answers` wrote, by their name in ``data/answers`` or by their file.
        dataset: that the student learns from, in the size of its images.
        dataset_name: by which the book's heads are known.
        seed: of fresh weights.

    Returns:
        The teacher in evaluation mode, on the CPU. It takes images as
        :func:`vitbook.datasets.normalize` gives them; kept answers take the images' numbers.

    Raises:
        UnknownNameError: no such weights, or no such model; names the nearest.
        TeacherError: a path without a file, weights that learned other classes, or a body without a
            head for these.
        CheckpointError: the file is damaged or no checkpoint.

    Example:
        >>> from vitbook.datasets import load
        >>> from vitbook.training import evaluate, load_teacher
        >>> name = "digits-resnet8_digits-digits-seed0"
        >>> teacher = load_teacher(name, load("digits", "train"), "digits")
        >>> evaluate(teacher, load("digits", "test")) > 0.95
        True
    """
    check_teacher_name(teacher)
    if (path := answers_file(teacher)) is not None:
        return read_answers(path)
    channels, size = dataset.images.shape[1], tuple(dataset.images.shape[2:])
    if (model := fresh_model(teacher)) is not None:
        # Beside the student, whose first weights are then those of a run without a teacher.
        with torch.random.fork_rng([]):
            torch.manual_seed(seed_of(seed, "teacher"))
            return create_model(
                model, image_size=size, num_classes=dataset.num_classes, channels=channels
            ).eval()
    if is_checkpoint(teacher):
        checkpoint = load_checkpoint(teacher)
        if checkpoint.provenance.get("recipe", {}).get("objective"):
            raise TeacherError(
                f"teacher {teacher} has learned no classes, its recipe has an objective without "
                "labels: train it on labels first (vitbook train --from)"
            )
        if checkpoint.class_names not in ((), dataset.class_names):
            raise TeacherError(
                f"teacher {teacher} has learned {_classes(checkpoint.class_names)}, {dataset_name} "
                f"has {_classes(dataset.class_names)}: "
                f"{first_difference(checkpoint.class_names, dataset.class_names)}; take a "
                "teacher of the same classes"
            )
        return checkpoint.model
    head = None
    if str(teacher) in PRETRAINED:
        if dataset_name not in (heads := shipped_heads(str(teacher))):
            raise TeacherError(
                f"teacher {teacher} has no head for {dataset_name}: its heads are for "
                f"{', '.join(sorted(heads)) or 'nothing here'}"
            )
        head = dataset_name
    loaded = load_pretrained(str(teacher), head=head, image_size=size)
    return OwnColors(loaded.model, loaded.mean, loaded.std).eval()


class OwnColors(nn.Module):
    """A model that takes images as ours do, and gives them the mean and deviation of its own.

    Args:
        model: of the catalogue; it expects each channel less ``mean``, over ``std``.
        mean: of each channel, between 0 and 1.
        std: likewise.
    """

    def __init__(self, model: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]):
        super().__init__()
        self.model, self.spec = model, model.spec
        say_colors(self, OURS.mean, OURS.std)
        for name, each in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(each)[:, None, None])

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch classes"]:
        return self.model(((images + 1) / 2 - self.mean) / self.std)


def check_teacher(
    teacher: nn.Module,
    student: nn.Module,
    dataset: Dataset,
    recipe: Recipe,
    num_classes: int,
    device: torch.device,
) -> None:
    """Refuse a teacher that cannot teach, before the first step.

    Args:
        dataset: that the student learns from.
        num_classes: outputs of the student.
        device: to which the teacher is moved.

    Raises:
        TeacherError: the teacher is no module, shares weights with the student, is made for images
            of another size or other channels, does not answer with one finite logit for each
            class, or is answers to other images.
    """
    if not isinstance(teacher, nn.Module):
        raise TeacherError(f"the teacher is a {type(teacher).__name__}: expected a torch.nn.Module")
    teacher.to(device)
    if isinstance(teacher, KeptAnswers):
        teacher.check(dataset, recipe)
    images = normalize(dataset.images[:2].to(device))
    learning = {_place(weight) for weight in student.parameters()}
    if any(_place(weight) in learning for weight in teacher.parameters() if weight.numel()):
        raise TeacherError(
            "the teacher shares weights with the student: give a copy, copy.deepcopy(model)"
        )
    answers = _first_answers(teacher, images)
    if not isinstance(answers, Tensor) or answers.ndim != 2 or len(answers) != len(images):
        came = tuple(answers.shape) if isinstance(answers, Tensor) else type(answers).__name__
        raise TeacherError(
            f"the teacher answers {len(images)} images with {came}: expected logits, "
            "(images, classes)"
        )
    if not answers.is_floating_point():
        raise TeacherError(
            f"the teacher answers with {str(answers.dtype).removeprefix('torch.')}: expected "
            "floating-point logits"
        )
    if answers.shape[1] != num_classes:
        raise TeacherError(
            f"the teacher has {answers.shape[1]} classes and the student {num_classes}: take a "
            "teacher of the same classes"
        )
    if not answers.isfinite().all():
        raise TeacherError("the teacher answers NaN or infinity: look for it in its weights")


def _place(weight: Tensor) -> int:
    """Where a weight lies in memory: two names may share it."""
    return weight.untyped_storage().data_ptr()


def fresh_model(teacher: str | Path) -> str | None:
    """The model of the catalogue that a name asks for with fresh weights; None if it does not."""
    name = str(teacher)
    return name.removeprefix(FRESH) if name.startswith(FRESH) else None


def check_teacher_name(teacher: str | Path) -> None:
    """Refuse a teacher that is not there, before data are loaded.

    Raises:
        UnknownNameError: no such weights, or no such model; names the nearest.
        TeacherError: a path without a file.
    """
    if answers_file(teacher) is not None:
        return
    if (model := fresh_model(teacher)) is None:
        check_weights(teacher, "to learn from", TeacherError)
    elif model not in list_models():
        raise UnknownNameError("model", model, list_models())


def teacher_name(teacher: str | Path) -> str:
    """What the ledger calls a teacher: a file by its name and a digest of its bytes."""
    return str(teacher) if fresh_model(teacher) is not None else start_name(teacher)


def _classes(names: tuple[str, ...]) -> str:
    return f"{len(names)} classes, {', '.join(names[:3])}{', ...' * (len(names) > 3)}"


def _first_answers(teacher: nn.Module, images: Tensor) -> object:
    if isinstance(teacher, KeptAnswers):
        return teacher(torch.arange(len(images), device=images.device))
    shape = "{1} channels and {2} x {3} pixels".format(*images.shape)
    if (spec := getattr(teacher, "spec", None)) is not None:
        size = spec.image_size
        own = (spec.channels, *((size, size) if isinstance(size, int) else size))
        if own != tuple(images.shape[1:]):
            raise TeacherError(
                f"the teacher {spec.name} is made for images of {own[0]} channels and {own[1]} x "
                f"{own[2]} pixels, the student's have {shape}: take one that is made for these"
            )
    try:
        with torch.no_grad(), evaluating(teacher):
            return teacher(recoloring(teacher)(images))
    except Exception as error:  # a foreign one says as it likes that these are not its images
        if is_out_of_memory(error):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TeacherError(
            f"the teacher, {type(teacher).__name__}, fails on images of {shape} ({reason}): take "
            "one that is made for these"
        ) from error
