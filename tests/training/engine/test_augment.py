import pytest
import torch
from torchvision.transforms import v2

from vitbook.datasets import normalize
from vitbook.runs import Recipe, get_recipe
from vitbook.training.engine.augment import augment, crop_and_flip, erase
from vitbook.training.engine.batch_random import BatchRandom, seed_of
from vitbook.training.engine.mixing import mix


def plain(**changes):
    return Recipe(name="r", epochs=1, batch_size=1, learning_rate=1.0, **changes)


def noise(n=64, channels=3, size=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, channels, size, size), generator=generator).to(torch.uint8)


def distinct(images):
    return len({tuple(image.flatten().tolist()) for image in images})


EVERYTHING = dict(
    crop_padding=2, flip=True, shift=1.0, rotation=5.0, zoom=0.1, crop_area=0.5, erasing=0.5,
    policy="autoaugment_cifar10", policy_group=4,
)  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"shift": 1.0}, {"crop_padding": 4}, {"erasing": 1.0}, {"crop_area": 0.3}, {"rotation": 20.0}],
)
def test_two_images_of_a_batch_are_changed_each_in_its_own_way(change):
    same = noise(1, size=16).expand(8, 3, 16, 16)
    out = augment(same, plain(**change), BatchRandom(8, 0))
    assert distinct(out) >= 7
    assert out.min() >= -1.001 and out.max() <= 1.001


def test_chance_is_a_function_of_its_place():
    images = noise(16, size=16)
    first, again, later = (
        augment(images, plain(**EVERYTHING), BatchRandom(16, 7, step)) for step in (3, 3, 4)
    )
    assert torch.equal(first, again) and not torch.equal(first, later)
    assert seed_of(1, "order", 2) != seed_of(1, "order", 3)


def test_a_crop_is_a_window_of_the_padded_image_or_its_mirror():
    images = noise(300, size=6)
    out = crop_and_flip(images, plain(crop_padding=2, flip=True), BatchRandom(300, 0))
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2))
    windows = padded.unfold(2, 6, 1).unfold(3, 6, 1)  # n c 5 5 6 6
    counts = torch.zeros(2, 5, 5)
    for mirrored in (0, 1):
        wanted = out.flip(3) if mirrored else out
        found = (windows == wanted[:, :, None, None]).all(dim=(1, 4, 5))
        counts[mirrored] += found.sum(0)
    assert counts.sum() == 300  # each is exactly one of the fifty
    assert 120 < counts[0].sum() < 180 and (counts.sum(0) > 0).all()


def test_a_whole_shift_moves_whole_pixels():
    image = torch.zeros(1, 1, 4, 6, dtype=torch.uint8)
    image[0, 0, 1, 2] = 255
    # Of many drawn shifts, each moves the mass by at most 2 pixels, and keeps it inside.
    out = augment(image.expand(500, 1, 4, 6), plain(shift=2.0), BatchRandom(500, 0)) + 1
    columns = (out.sum(2) * torch.arange(6)).sum(-1) / out.sum((2, 3))
    moved = columns[out.sum((1, 2, 3)) > 1.99].flatten() - 2
    assert moved.min() > -2.01 and moved.max() < 2.01
    assert moved.std() > 0.5


def test_a_rotation_keeps_the_shape_of_a_wide_image():
    image = torch.zeros(1, 1, 20, 40, dtype=torch.uint8)
    image[..., 8:12, 18:22] = 255  # a square in the middle keeps its area however it turns
    out = augment(image.expand(50, 1, 20, 40), plain(rotation=90.0), BatchRandom(50, 1)) + 1
    area = out.sum((1, 2, 3)) / 2
    assert area.min() > 15 and area.max() < 17


def test_a_resized_crop_looks_inside_the_image():
    ramp = torch.arange(64).repeat(64, 1).to(torch.uint8)[None, None].expand(200, 1, 64, 64) * 4
    out = augment(ramp, plain(crop_area=0.25), BatchRandom(200, 0))
    assert out.min() >= -1.001  # nothing black comes in from outside: the ramp starts at 0
    width = (out[:, 0, 32, -1] - out[:, 0, 32, 0]) / 2 * 255 / 252  # share of the ramp that it sees
    assert 0.4 < width.min() < 0.55 and 0.95 < width.max() < 1.01
    inner = out[:, 0, 32, 1:-1].diff(dim=1)
    assert (inner > 0).all()  # no border, no fold


def test_erasing_by_hand():
    images = torch.ones(400, 2, 10, 20)
    out = erase(images, 0.25, BatchRandom(400, 0))
    touched = (out == 0).flatten(1).any(1)
    assert 70 < touched.sum() < 130
    for image in out[touched]:
        assert torch.equal(image[0], image[1])  # every channel alike
        rows, columns = (image[0] == 0).any(1).nonzero(), (image[0] == 0).any(0).nonzero()
        high, wide = (int(x.max() - x.min() + 1) for x in (rows, columns))
        assert (image[0] == 0).sum() == high * wide  # one rectangle
        assert high * wide <= 0.4 * 200 + 20
    assert torch.equal(erase(images, 0.0, BatchRandom(400, 0)), images)


def test_a_policy_is_torchvisions_drawn_anew_for_each_group():
    images = noise(16, size=16)
    recipe = plain(policy="autoaugment_cifar10", policy_group=8)
    out = augment(images, recipe, BatchRandom(16, 7, 3))
    policy = v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10)
    for group in (0, 1):
        few = slice(8 * group, 8 * group + 8)
        with torch.random.fork_rng():
            torch.manual_seed(seed_of(7, 3, "policy", group))
            assert torch.equal(out[few], normalize(policy(images[few])))


@pytest.mark.parametrize("policy", ["autoaugment_imagenet", "randaugment", "trivialaugment"])
def test_every_policy_runs_on_one_channel_too(policy):
    for channels in (1, 3):
        out = augment(
            noise(8, channels, 16), plain(policy=policy, policy_group=1), BatchRandom(8, 0)
        )
        assert out.shape == (8, channels, 16, 16)


def pairs(n=8):
    images = torch.arange(n).float()[:, None, None, None].expand(n, 1, 10, 10)
    return images, torch.arange(n)


def test_mixup_by_hand():
    images, labels = pairs()
    rng = BatchRandom(8, 0)
    mixed, targets = mix(images, labels, 8, plain(mixup=1.0), rng)
    share = targets[0, 0]
    assert 0 < share < 1
    # Image 0 meets image 4, half a batch further: share x 0 + (1 - share) x 4.
    assert torch.allclose(mixed[0], (1 - share) * 4 * torch.ones(1, 10, 10))
    assert torch.allclose(mixed[6], share * 6 + (1 - share) * 2 * torch.ones(1, 10, 10))
    assert torch.allclose(targets[6], share * torch.eye(8)[6] + (1 - share) * torch.eye(8)[2])


def test_cutmix_by_hand():
    for step in range(20):
        images, labels = pairs()
        mixed, targets = mix(images, labels, 8, plain(cutmix=1.0), BatchRandom(8, 0, step))
        from_partner = mixed[1, 0] == 5
        assert ((mixed[1, 0] == 1) | from_partner).all()
        # The target follows the area that was really pasted.
        assert targets[1, 5] == pytest.approx(from_partner.float().mean().item(), abs=1e-6)
        assert torch.allclose(targets.sum(1), torch.ones(8))


def test_mixing_has_its_probability_and_takes_turns():
    recipe, kinds = get_recipe("sl_vit"), {"none": 0, "mixup": 0, "cutmix": 0}
    images, labels = pairs()
    for step in range(100):
        mixed, targets = mix(images, labels, 8, recipe, BatchRandom(8, 1, step))
        if torch.equal(mixed, images):
            kinds["none"] += 1
            continue
        whole = (mixed[1] == mixed[1, 0, 0, 0]).all() and targets[1, 5] not in (0, 1)
        kinds["mixup" if whole else "cutmix"] += 1
    assert kinds["none"] == pytest.approx(50, abs=20)
    assert kinds["mixup"] == pytest.approx(25, abs=18)
