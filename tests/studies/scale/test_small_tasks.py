"""What a task asks is what the images show."""

import pytest
import torch

from vitbook.datasets import answer_masks, load
from vitbook.studies.scale.small_tasks import CELLS, make_task, turned_squares


def test_a_digit_begins_in_the_cell_that_its_label_names():
    task = make_task("digit_place", 300)
    assert task.images.shape == (300, 3, 32, 32) and task.num_classes == CELLS**2
    assert "drawn" in task.provenance["rule"] and task.provenance["name"] == "digit_place"
    whole = load("cluttered_digits", "train")
    rows = torch.randperm(len(whole), generator=torch.Generator().manual_seed(0))[:300]
    masks = answer_masks("cluttered_digits", "train", len(whole))
    for row, image, label in zip(rows[:50], task.images[:50], task.labels[:50], strict=True):
        assert torch.equal(image, whole.images[row].expand(3, -1, -1))
        top, left = masks[row].nonzero()[0].tolist()
        assert int(label) == top * 4 // 25 * 4 + left * 4 // 25
    counts = torch.bincount(task.labels, minlength=16)
    assert counts.min() >= 8 and counts.max() <= 36  # 300 / 16 is 19
    with pytest.raises(ValueError, match="1,000,000 images of digit_place: .* ask for fewer"):
        make_task("digit_place", 10**6)


@pytest.mark.parametrize(("angle", "where"), [(0, (0, 0)), (90, (1, 0)), (180, (1, 1))])
def test_right_angles_move_a_corner_as_they_must(angle, where):
    image = torch.zeros(1, 1, 64, 64, dtype=torch.uint8)
    image[..., :32, :32] = 255
    turned = turned_squares(image, torch.tensor([float(angle)]))[0, 0]
    assert turned.shape == (45, 45)
    corners = {(r, c): turned[-r, -c].item() for r in (0, 1) for c in (0, 1)}
    assert corners[where] == 255 and sum(corners.values()) == 255


def test_no_angle_reaches_beyond_the_image():
    image = torch.full((16, 1, 50, 50), 255, dtype=torch.uint8)
    image[..., 0, :] = image[..., -1, :] = image[..., :, 0] = image[..., :, -1] = 0
    angles = torch.arange(16) * 22.5
    turned = turned_squares(image, angles)
    assert (turned[..., 5:-5, 5:-5] == 255).all()
    inner = turned_squares(torch.full_like(image, 255), angles)
    assert (inner == 255).all()


def test_every_angle_is_blurred_alike():
    noise = torch.randint(0, 256, (1, 1, 90, 90), dtype=torch.uint8).expand(8, -1, -1, -1)
    angles = (torch.arange(8) + 0.5) * 45
    spread = turned_squares(noise, angles).float().flatten(1).std(dim=1)
    assert spread.max() / spread.min() < 1.1
    right = turned_squares(noise[:1], torch.zeros(1)).float().std()
    assert abs(right / spread.mean() - 1) > 0.2  # a right angle would be known by its blur
