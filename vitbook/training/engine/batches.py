"""The batches of a run, each a function of its step."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.datasets import Dataset
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.augment import augment
from vitbook.training.engine.batch_random import BatchRandom, seed_of
from vitbook.training.engine.mixing import mix

Targets = Float[Tensor, "own classes"] | Int64[Tensor, "own"]


class Batches:
    """Shuffled, augmented, mixed.

    The whole data set lies on the device as uint8 and is augmented there: no worker, no copy, no
    wait. ``batches[step]`` is the share of this process in the batch of that step.

    Raises:
        ValueError: a batch that is larger than an epoch, or that does not divide over the
            processes.
    """

    def __init__(
        self,
        dataset: Dataset,
        recipe: Recipe,
        seed: int,
        device: torch.device,
        rank: int = 0,
        processes: int = 1,
    ):
        self.images, self.labels = dataset.images.to(device), dataset.labels.to(device)
        self.num_classes, self.recipe, self.seed = dataset.num_classes, recipe, seed
        self.rank, self.processes = rank, processes
        shown = recipe.epoch_images or len(dataset) * recipe.repeats
        if recipe.batch_size > shown:
            raise ValueError(
                f"batch_size {recipe.batch_size} is more than the {shown} images of an epoch: "
                f"use at most {shown}"
            )
        unit = processes * (2 if recipe.mixes else 1)
        if recipe.batch_size % unit:
            why = ", and is mixed in pairs" if recipe.mixes else ""
            raise ValueError(
                f"batch_size {recipe.batch_size} does not divide over {processes} processes{why}: "
                f"use a multiple of {unit}, for example "
                f"{max(recipe.batch_size // unit, 1) * unit}"
            )
        self.steps_an_epoch = shown // recipe.batch_size
        self._pass, self._order = -1, torch.empty(0)

    def __getitem__(
        self, step: int
    ) -> tuple[
        Float[Tensor, "own channels height width"],
        Float[Tensor, "own classes"] | Int64[Tensor, "own"],
    ]:
        batch, rng = self.own(step), self._chance(self.seed, step)
        images, labels = augment(self.images[batch], self.recipe, rng), self.labels[batch]
        if not self.recipe.mixes:
            return images, labels
        return mix(images, labels, self.num_classes, self.recipe, rng)

    def second_view(self, step: int) -> Float[Tensor, "own channels height width"]:
        """The images of a step, changed by another chance."""
        rng = self._chance(seed_of(self.seed, "second view"), step)
        return augment(self.images[self.own(step)], self.recipe, rng)

    def own(self, step: int) -> Int64[Tensor, "own"]:
        """Which images this process shows in a step."""
        return self.shown_at(step)[self.rank :: self.processes].to(self.images.device)

    def _chance(self, seed: int, step: int) -> BatchRandom:
        size = self.recipe.batch_size
        return BatchRandom(size, seed, step, rank=self.rank, processes=self.processes)

    def shown_at(self, step: int) -> Int64[Tensor, "batch"]:
        """Which images the whole batch of a step shows."""
        size = self.recipe.batch_size
        if not self.recipe.epoch_images:
            epoch, place = divmod(step, self.steps_an_epoch)
            return self.order(epoch)[place * size : (place + 1) * size]
        in_a_pass = len(self.images) * self.recipe.repeats
        first, start = divmod(step * size, in_a_pass)
        passes = -(-(start + size) // in_a_pass)
        stream = torch.cat([self.order(first + number) for number in range(passes)])
        return stream[start : start + size]

    def order(self, number: int) -> Int64[Tensor, "shown"]:
        """Which images a pass over the data shows, in turn."""
        if number != self._pass:
            generator = torch.Generator().manual_seed(seed_of(self.seed, "order", number))
            shuffled = torch.randperm(len(self.images), generator=generator)
            self._pass, self._order = number, shuffled.repeat_interleave(self.recipe.repeats)
        return self._order
