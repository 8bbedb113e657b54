"""Answers that a teacher gave once for each image of a data set: kept, and looked up in a run."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from jaxtyping import Float, Int64
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from vitbook.datasets import Dataset
from vitbook.datasets.dataset import first_difference
from vitbook.files import data_folder, write_atomically
from vitbook.model_utilities import digest
from vitbook.runs.recipe import Recipe
from vitbook.typed import typed

WORDS = "kept_answers"


class TeacherError(ValueError):
    """A teacher that cannot answer the images of a run, or has other classes."""


@dataclass(frozen=True)
class About:
    """What the answers are to.

    Attributes:
        dataset: by its name.
        pictures: digest of the data set's pictures and labels.
        class_names: what each logit means.
        provenance: who answered, what it had learned, how often it is right.
    """

    dataset: str
    pictures: str
    class_names: list[str]
    provenance: dict


class KeptAnswers(nn.Module):
    """A teacher that is not there any more: one answer for each training image, as it is.

    Where a model would see how an image was augmented, these stay the same (the "fixed" teacher of
    Beyer et al. 2022).

    Args:
        answers: logits, in the order of the data set.
        about: the data set and the teacher.
    """

    def __init__(self, answers: Float[Tensor, "images classes"], about: About):
        super().__init__()
        self.register_buffer("answers", answers)
        self.about = about

    def forward(self, shown: Int64[Tensor, "batch"]) -> Float[Tensor, "batch classes"]:
        """The answers to some images, by their numbers in the data set."""
        return self.answers[shown].float()

    def check(self, dataset: Dataset, recipe: Recipe) -> None:
        """
        Raises:
            TeacherError: a share of the data set, other images or classes, or a recipe that mixes
                images.
        """
        about, came, images = self.about, dataset.provenance, len(self.answers)
        asked = f"the teacher's kept answers are to the {images:,} images of {about.dataset}"
        if "share" in came:
            raise TeacherError(
                f"{asked}, the run takes a share of them ({came['share']}): leave the share out; "
                "the labels of the others are not used where distillation_share is 1"
            )
        if images != len(dataset) or about.pictures != came.get("digest", ""):
            raise TeacherError(
                f"{asked} ({about.pictures[:14]}...), the run has {len(dataset):,} of "
                f"{came['name']} ({str(came.get('digest', 'no digest'))[:14]}...): keep answers to "
                "these"
            )
        if difference := first_difference(about.class_names, dataset.class_names):
            raise TeacherError(f"{asked}, and {difference}: keep answers to these classes")
        if recipe.mixes:
            raise TeacherError(
                f"{asked}, and recipe {recipe.name} mixes two images into one, to which there is "
                "no answer: set mixup and cutmix to 0, or take a teacher that is a model"
            )


def keep_answers(folder: str | Path, name: str, kept: KeptAnswers) -> Path:
    """Write answers in float16, under a name that ends with a digest of them.

    Raises:
        TeacherError: answers that are NaN or infinite, maybe only in float16.
        OSError: the file could not be written.
    """
    state = {"answers": kept.answers.half().contiguous()}
    if not state["answers"].isfinite().all():
        raise TeacherError(f"the answers of {name} hold NaN or infinity as float16: not written")
    words = {WORDS: json.dumps(asdict(kept.about))}
    whole = digest(state, words)
    path = Path(folder) / f"{name}-{whole[:8]}.safetensors"
    return write_atomically(path, save(state, metadata=words | {"digest": whole}))


def answers_file(teacher: str | Path) -> Path | None:
    """The file of kept answers that a teacher's name or path means; None if it means none."""
    own = data_folder() / "answers" / f"{teacher}.safetensors"
    path = own if own.is_file() else Path(teacher)
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            return path if WORDS in (file.metadata() or {}) else None
    except (SafetensorError, OSError):
        return None


def read_answers(path: Path) -> KeptAnswers:
    """Answers that :func:`keep_answers` wrote.

    Raises:
        TeacherError: the file is damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            words, answers = file.metadata(), file.get_tensor("answers")
        if words["digest"] != digest({"answers": answers}, {WORDS: words[WORDS]}):
            raise ValueError("its bytes are not those that were written")
        about = typed(json.loads(words[WORDS]), About)
        if answers.ndim != 2 or answers.shape[1] != len(about.class_names):
            raise ValueError("it has not one answer for each class")
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise TeacherError(f"kept answers {path} are damaged ({error}): copy them again") from error
    return KeptAnswers(answers, about).eval()
