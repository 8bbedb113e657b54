"""Our training loop against a plain one, with the recipes whole, on one core and on two.

The plain loop is of the kind that the SL-ViT code has: PIL pictures in memory, torchvision's
transforms one picture at a time in two workers that persist, mixup or cutmix on the batch, AdamW.
Both train the same body with the same operations. A round is STEPS batches of 128; rounds
alternate, and the workers rest while ours runs. So on two cores the plain loop waits for the first
batch of each round, about a hundredth of it. On one core the workers share it with the training.

The share of data is that of `Batches` alone, in the same rounds; utilisation is against the
square matrix product there. No time is demanded, but ours may not be slower. The interval has to
stay above 0.97: where the arithmetic takes nearly all of a step the two are equal but for chance.

    STEPS=2 python -m pytest -o addopts= tests/benchmarks/bench_plain_loop.py -s -k mini
"""

import itertools
import os
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader
from torchvision.transforms import v2

import vitbook
from vitbook.datasets import Dataset, load
from vitbook.measure import Matmul, count_step_macs
from vitbook.measure.timing import interleaved_seconds, ratio_of
from vitbook.models import set_stochastic_depth
from vitbook.runs import get_recipe
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.loop import fit
from vitbook.training.engine.optimization import make_optimizer, moving_average

STEPS = int(os.environ.get("STEPS", 5))
BATCH, ROUNDS, PRODUCTS = 128, 12, 10


@pytest.fixture(scope="module")
def pictures(request):
    """Of CIFAR-10 where a machine has it, else noise: the speed is the same."""
    try:
        data = load("cifar10", "test", request.getfixturevalue("real_data"))
    except (pytest.skip.Exception, pytest.FixtureLookupError):
        noise = np.random.default_rng(0).integers(0, 256, (STEPS * BATCH, 3, 32, 32), np.uint8)
        labels = torch.arange(STEPS * BATCH) % 10
        return Dataset(torch.from_numpy(noise), labels, tuple("0123456789"), {"name": "noise"})
    few = slice(STEPS * BATCH)
    return Dataset(data.images[few], data.labels[few], data.class_names, data.provenance)


@contextmanager
def on_cores(count):
    """This process, its threads and its workers on the first ``count`` cores that it may use."""
    allowed, threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, sorted(allowed)[:count])
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        os.sched_setaffinity(0, allowed)


def body(name, recipe):
    model = vitbook.create_model(name)
    set_stochastic_depth(model, recipe.drop_path, recipe.drop_path_grows)
    return model


def ours(name, recipe, data):
    """A round of training, and a round of its batches alone."""
    model, batches = body(name, recipe), Batches(data, recipe, 0, torch.device("cpu"))
    optimizer, mean = make_optimizer(model, recipe), moving_average(model, recipe)
    steps = (range(first, first + STEPS) for first in itertools.count(0, STEPS))

    def train():
        fit(model, mean, optimizer, batches, recipe, next(steps), nullcontext(), lambda *_: None)

    return train, lambda: [batches[step] for step in next(steps)]


def plain(name, recipe, data):
    transform = v2.Compose(
        [v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()]
        + [v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10)] * bool(recipe.policy)
        + [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
        + [v2.Normalize([0.5] * 3, [0.5] * 3)]
        + [v2.RandomErasing(recipe.erasing, scale=(0.02, 0.4))] * bool(recipe.erasing)
    )
    samples = [
        (Image.fromarray(image.permute(1, 2, 0).numpy()), label)
        for image, label in zip(data.images, data.labels.tolist(), strict=True)
    ]

    def collate(few):
        return torch.stack([transform(x) for x, _ in few]), torch.tensor([y for _, y in few])

    loader = DataLoader(
        samples, BATCH, shuffle=True, collate_fn=collate, num_workers=2, persistent_workers=True
    )
    both = v2.RandomChoice([v2.MixUp(num_classes=10), v2.CutMix(num_classes=10)])
    mix = v2.RandomApply([both], recipe.mix_probability) if recipe.mixes else lambda *batch: batch
    model = body(name, recipe)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=recipe.weight_decay)
    average = get_ema_multi_avg_fn(recipe.ema or 0.99)
    mean = AveragedModel(model, multi_avg_fn=average) if recipe.ema else None

    def train():
        model.train()
        for images, labels in loader:
            images, targets = mix(images, labels)
            smooth = recipe.label_smoothing
            loss = F.cross_entropy(model(images), targets, label_smoothing=smooth)
            optimizer.zero_grad()
            loss.backward()
            if recipe.gradient_clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.gradient_clip)
            optimizer.step()
            if mean is not None:
                mean.update_parameters(model)

    return train


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # two, on one core
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("recipe", ["quick", "sl_vit"])
@pytest.mark.parametrize("name", ["vit_mini_patch4_32", "vit_tiny_patch4_32"])
def test_against_a_plain_loop(name, recipe, cores, pictures):
    if len(os.sched_getaffinity(0)) < cores:
        pytest.skip(f"needs {cores} cores")
    whole = get_recipe(recipe, batch_size=BATCH, repeats=1)
    with on_cores(cores):
        matmul, theirs = Matmul("cpu"), plain(name, whole, pictures)
        train, read = ours(name, whole, pictures)
        macs = count_step_macs(train)
        runs = [lambda: [matmul() for _ in range(PRODUCTS)], train, theirs, read]
        peak, mine, other, data = interleaved_seconds(runs, ROUNDS, warmup=1)
    ratio, rates = ratio_of(other, mine), [STEPS * BATCH / np.median(s) for s in (mine, other)]
    used = ratio_of(peak, mine) * (macs / (PRODUCTS * matmul.macs))
    print(f"\n{name}, {recipe}, {cores} cores: {rates[0]:.0f} images/s, plain {rates[1]:.0f}")
    print(f"  {ratio} as fast; data {ratio_of(data, mine).median:.1%} of the step; use {used}")
    assert ratio.low >= 0.97, f"{name}, {recipe}, {cores} cores: seen as slower as well, {ratio}"
