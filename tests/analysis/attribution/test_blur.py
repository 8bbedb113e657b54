import pytest
import torch
from torchvision.transforms import functional

from vitbook.analysis.attribution.blur import gaussian_blur


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("size", "deviation"), [((11, 11), (5.0, 5.0)), ((3, 7), (0.8, 4.0))])
def test_it_is_torchvisions(size, deviation, dtype):
    images = torch.rand(2, 3, 9, 13, dtype=dtype)
    theirs = functional.gaussian_blur(images, list(size[::-1]), list(deviation[::-1]))
    assert torch.allclose(gaussian_blur(images, size, deviation), theirs, atol=1e-6)


def test_one_pixel_is_its_own_mirror():
    assert gaussian_blur(torch.ones(1, 1, 1, 1), (1, 1), (5.0, 5.0)).item() == pytest.approx(1)
