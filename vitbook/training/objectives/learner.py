"""What learns without labels: a body, and what is trained with it and then thrown away."""

from typing import ClassVar

from torch import Tensor, nn

from vitbook.datasets import Dataset
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.tied_weights import unique_state


class Learner(nn.Module):
    """A body with a task that images set; those that a recipe may name stand in a study.

    The forward pass takes images and what :meth:`inputs` gives; what it returns has a ``loss``.

    Attributes:
        model: the body, from images to logits; its head does not learn.
        one_process: whether a batch cannot be shared, since its images are compared.
        followers: how the names of the tensors begin that follow the body step by step, without a
            gradient. They do not travel: they begin again.
    """

    model: nn.Module
    one_process: ClassVar[bool] = False
    followers: ClassVar[tuple[str, ...]] = ()

    def inputs(self, batches: Batches, step: int) -> tuple:
        """What the forward pass takes after the images of a step, a function of seed and step."""
        return ()

    def trial_inputs(self, images: Tensor) -> tuple:
        """The same for any images, to see whether so many fit into memory."""
        return ()

    def score(self, dataset: Dataset) -> dict[str, float]:
        """What a row of the curve says of held-out images: ``accuracy``, and more."""
        raise NotImplementedError

    def begin_again(self) -> None:
        """Take the body as it is now, after its layers have changed or weights were loaded."""

    def own_parts(self) -> dict[str, Tensor]:
        """What travels in a checkpoint beside the body."""
        others = ("model.", *self.followers)
        state = unique_state(self)
        return {name: tensor for name, tensor in state.items() if not name.startswith(others)}
