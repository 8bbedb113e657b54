import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook import datasets
from vitbook.studies.self_supervision.patch_colors import color_classes, mean_colors, to_bytes


def noise(*shape, seed=0):
    chance = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=chance)


@settings(deadline=None, max_examples=25)
@given(
    rows=st.integers(1, 3), columns=st.integers(1, 3), height=st.integers(1, 4),
    width=st.integers(1, 4), channels=st.integers(1, 3),
)  # fmt: skip
def test_a_mean_colour_is_that_of_its_pixels(rows, columns, height, width, channels):
    images = noise(2, channels, rows * height, columns * width)
    colors = mean_colors(images, (height, width))
    assert colors.shape == (2, rows * columns, channels)
    for row in range(rows):
        for column in range(columns):
            patch = images[
                :, :, row * height : (row + 1) * height, column * width : (column + 1) * width
            ]
            expected = patch.double().mean(dim=(2, 3))
            torch.testing.assert_close(colors[:, row * columns + column].double(), expected)


def test_colours_by_hand():
    image = torch.tensor([[[[0, 64, 255, 255], [32, 32, 255, 254]]]], dtype=torch.uint8)
    colors = mean_colors(image, 2)
    assert colors.tolist() == [[[32.0], [254.75]]]
    assert color_classes(colors).tolist() == [[1, 7]]
    # red 7, green 3, blue 0
    assert color_classes(torch.tensor([255.0, 100.0, 31.9])).item() == 7 * 64 + 3 * 8


def test_a_mean_on_the_edge_of_two_classes_belongs_to_the_upper_one():
    """Also where thirds and sevenths are no numbers of a computer."""
    for side in (3, 7, 14, 16):
        for level in range(1, 8):
            image = torch.full((1, 1, side, side), 32 * level, dtype=torch.uint8)
            assert color_classes(mean_colors(image, side)).item() == level
            image[0, 0, 0, 0] -= 1
            assert color_classes(mean_colors(image, side)).item() == level - 1


def test_normalised_images_have_the_colours_of_their_bytes():
    images = noise(4, 3, 8, 8)
    images.view(-1)[:256] = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(to_bytes(datasets.normalize(images)), images)
    assert torch.equal(to_bytes(datasets.normalize(images).half()), images)
