"""What a row of the ledger says."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from vitbook.typed import FileName

Positive = Annotated[float, Meta(gt=0)]


class LedgerError(ValueError):
    """A row that does not say what a row must say."""


@dataclass(frozen=True)
class Result:
    """One training run.

    Attributes:
        accuracy: top-1 on the held-out data, 0 to 1; if the recipe has an objective, of that: of
            the colours of corrupted patches, of next pixels, of nearest other images.
        curve: a row an epoch: epoch, loss and learning_rate in six digits, accuracy.
        probes: what was seen in the model after some epochs; empty if nobody looked.
        data_passes: times that an image was shown, on average.
        wall_time_s: of training, evaluation and probes, on ``device``.
        images_per_second: in training alone, over all ``processes``.
        peak_memory_mb: on a GPU by torch's allocator, else of the whole process, data included.
        precision: of the forward pass in training.
        device: the processor's or GPU's own name.
        commit: of the code, with "+" if files had changed; "unknown" outside a checkout.
        provenance: of the data.
        share: of each class's training images, 0 to 1.
        share_seed: that drew them.
        start: name of the weights that it started from; empty if they were fresh.
        teacher: name of the model whose answers it learned as well; empty if none.
        experiment: of ``data/experiments.toml`` that the run answers; empty if none.
        definition: digest of all that decides the run, if it answers an experiment.
    """

    model: FileName
    parameters: Annotated[int, Meta(gt=0)]
    dataset: FileName
    recipe: dict[str, str | int | float | bool | None]
    seed: int
    accuracy: Annotated[float, Meta(ge=0, le=1)]
    curve: list[dict]
    probes: list[dict]
    data_passes: Positive
    wall_time_s: Positive
    images_per_second: Positive
    peak_memory_mb: int
    precision: str
    processes: int
    device: str
    versions: dict[str, str]
    commit: str
    command: str
    provenance: dict
    share: Annotated[float, Meta(gt=0, le=1)] | Annotated[int, Meta(ge=1, le=1)] = 1.0
    share_seed: int = 0
    start: str = ""
    teacher: str = ""
    experiment: FileName = ""
    definition: FileName = ""

    def __post_init__(self):
        for name in ("recipe", "provenance"):
            if not isinstance(getattr(self, name).get("name"), str):
                raise LedgerError(f"{name} without a name: expected one, by which it is known")

    @property
    def name(self) -> str:
        if self.experiment:
            return experiment_run_name(self.experiment, self.model, self.seed, self.definition)
        return run_name(self.dataset, self.model, self.recipe["name"], self.seed)


@dataclass(frozen=True)
class Measurement:
    """What was measured of models that stand: their speed, how right their explanations are.

    Attributes:
        kind: what the rows mean, and who wrote them: "bench", "explanations".
        subject: what was measured: a model, or a checkpoint by name.
        settings: how: images, batch, precision, and what else the kind needs to be repeated.
        rows: a line each, all with the same keys.
        device: the processor's or GPU's own name.
        commit: as in :class:`Result`.
    """

    kind: FileName
    subject: FileName
    settings: dict
    rows: list[dict]
    device: str
    versions: dict[str, str]
    commit: str
    command: str

    def __post_init__(self):
        if not self.rows or any(row.keys() != self.rows[0].keys() for row in self.rows):
            raise LedgerError(
                f"{self.kind} of {self.subject}: {len(self.rows)} rows: expected at least one, "
                "all with the same keys"
            )

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.subject}"


def run_name(dataset: str, model: str, recipe: str, seed: int) -> str:
    """What the files of a run are called."""
    return f"{dataset}-{model}-{recipe}-seed{seed}"


def experiment_run_name(experiment: str, model: str, seed: int, definition: str) -> str:
    """What the files of a run are called that answers an experiment."""
    return f"{experiment}-{model}-seed{seed}-{definition}"
