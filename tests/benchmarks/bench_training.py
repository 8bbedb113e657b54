"""Our training engine against the loop that everyone writes first: `make bench`.

Both train the same body on the same pictures with the same recipe: AdamW, crop, flip, AutoAugment,
erasing. The plain loop decodes nothing either (its pictures are PIL images in memory), draws its
augmentation picture by picture with torchvision, and reads through a DataLoader. A round is five
batches of 64; rounds alternate. The loader's workers rest between rounds.
"""

import itertools
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.transforms import v2

import vitbook
from vitbook.datasets import Dataset
from vitbook.measure import compare_speed
from vitbook.runs import get_recipe
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.loop import fit
from vitbook.training.engine.optimization import make_optimizer

PICTURES, BATCH = 320, 64
AUGMENTED = get_recipe("sl_vit", batch_size=BATCH, repeats=1, mix_probability=0.0, drop_path=0.0)
PLAIN = get_recipe(
    "sl_vit", batch_size=BATCH, repeats=1, mix_probability=0.0, drop_path=0.0,
    crop_padding=0, flip=False, policy=None, erasing=0.0,
)  # fmt: skip


def pictures():
    generator = torch.Generator().manual_seed(0)
    blocks = torch.randint(0, 256, (PICTURES, 3, 8, 8), generator=generator).float()
    images = F.interpolate(blocks, size=32, mode="bilinear").to(torch.uint8)
    labels = torch.randint(0, 10, (PICTURES,), generator=generator)
    return Dataset(images, labels, tuple("0123456789"), {"name": "noise"})


def ours(model_name, recipe, data):
    model = vitbook.create_model(model_name)
    batches, optimizer = (
        Batches(data, recipe, 0, torch.device("cpu")),
        make_optimizer(model, recipe),
    )
    rounds = itertools.count()

    def train_a_round():
        first = next(rounds) * batches.steps_an_epoch
        steps = range(first, first + batches.steps_an_epoch)
        fit(model, None, optimizer, batches, recipe, steps, nullcontext(), lambda *_: None)

    return train_a_round


def plain(model_name, data, workers):
    transform = v2.Compose(
        [
            v2.RandomCrop(32, padding=4),
            v2.RandomHorizontalFlip(),
            v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.5] * 3),
            v2.RandomErasing(0.25, scale=(0.02, 0.4)),
        ]
    )
    samples = [
        (Image.fromarray(image.permute(1, 2, 0).numpy()), label)
        for image, label in zip(data.images, data.labels.tolist(), strict=True)
    ]

    def collate(few):
        return torch.stack([transform(x) for x, _ in few]), torch.tensor([y for _, y in few])

    loader = DataLoader(
        samples, BATCH, shuffle=True, drop_last=True, collate_fn=collate,
        num_workers=workers, persistent_workers=workers > 0,
    )  # fmt: skip
    model = vitbook.create_model(model_name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)

    def train_a_round():
        model.train()
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return train_a_round


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("model", ["vit_mini_patch4_32", "vit_tiny_patch4_32"])
def test_against_a_plain_loop(model, workers):
    ratio = compare_speed(
        ours(model, AUGMENTED, pictures()), plain(model, pictures(), workers), pairs=20, warmup=1
    )
    print(f"\n{model}, {workers} workers, {torch.get_num_threads()} threads: {ratio} as fast")


def test_augmentation_costs_little():
    name = "vit_mini_patch4_32"
    ratio = compare_speed(
        ours(name, AUGMENTED, pictures()), ours(name, PLAIN, pictures()), pairs=20, warmup=1
    )
    print(f"\n{name}, augmented over plain: {ratio}")
