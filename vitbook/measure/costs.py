"""What a model costs those who train it first, those who adapt it, and those who run it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """How many images a model is shown, and what each takes.

    Attributes:
        images: in the data.
        passes: over them.
        macs: multiply-adds for one image: of a training step, or of a forward pass.
        images_per_second: measured; None where it was not.
    """

    images: int
    passes: float | int
    macs: int
    images_per_second: float | int | None = None

    def __post_init__(self):
        rate = self.images_per_second
        if min(self.images, self.passes, self.macs) <= 0 or (rate is not None and rate <= 0):
            raise ValueError(f"{self}: expected numbers above 0")

    @property
    def total_macs(self) -> float | int:
        return self.images * self.passes * self.macs

    @property
    def hours(self) -> float | None:
        """On the device on which the rate was measured: carried on from a few batches."""
        if self.images_per_second is None:
            return None
        return self.images * self.passes / self.images_per_second / 3600


@dataclass(frozen=True)
class Costs:
    """The three costs of a model.

    Named as on a project poster, "Rotated Patch Tokenization": *pre-training*, once, by whoever
    publishes the weights; *practitioner*, fine-tuning on one's own data; *deployment*, the answers
    that the finished model gives.
    """

    pre_training: Run
    practitioner: Run
    deployment: Run
