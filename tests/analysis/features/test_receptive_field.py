import math

import pytest
import torch
from torch import nn

from vitbook.analysis import pixels_seen, window
from vitbook.layers import OverlappingPatches, PatchEmbedding, RotatedPatches, ShiftedPatches


class SoftSplit(nn.Module):
    """A bare soft split of T2T-ViT: overlapping patches, each flattened and mapped to 4 numbers."""

    def __init__(self, *kernels_and_strides):
        super().__init__()
        widths = [1, *(4 for _ in kernels_and_strides)]
        self.splits = nn.Sequential(
            *(
                nn.Conv2d(widths[i], 4, kernel, stride, padding=kernel // 2)
                for i, (kernel, stride) in enumerate(kernels_and_strides)
            )
        )

    def forward(self, images):
        return self.splits(images).flatten(2).mT


@pytest.mark.parametrize(
    ("layers", "pixels"), [([(16, 16)], 16), ([(7, 4), (3, 2), (3, 2)], 31), ([(3, 1)] * 4, 9)]
)
def test_the_window_is_the_gradients_support(layers, pixels):
    assert window(layers) == pixels
    if len(layers) == 1:
        tokenizer = PatchEmbedding(64, 16, 1, 8)
        tokens = 16
    else:
        tokenizer = SoftSplit(*layers)
        tokens = tokenizer(torch.zeros(1, 1, 64, 64)).shape[1]
    side = math.isqrt(tokens)
    middle = side // 2 * side + side // 2
    (seen,) = pixels_seen(tokenizer, (64, 64), channels=1, tokens=[middle])
    rows, columns = seen.any(1).sum(), seen.any(0).sum()
    assert (rows, columns) == (pixels, pixels) and seen.sum() == pixels**2


def test_a_plain_token_sees_its_patch_and_all_see_the_image_once():
    seen = pixels_seen(PatchEmbedding((12, 8), (3, 4), 3, 8), (12, 8))
    assert seen.shape == (8, 12, 8) and (seen.sum(0) == 1).all()
    assert seen[3].nonzero().min(0).values.tolist() == [3, 4]


def test_a_shifted_token_sees_twice_its_patch_cut_at_the_border():
    seen = pixels_seen(ShiftedPatches(32, 4, 3, 8), (32, 32)).sum((1, 2)).reshape(8, 8)
    assert seen[3, 3] == 64 and seen[0, 3] == 48 and seen[0, 0] == 36


def test_an_overlapping_token_sees_the_pixels_around_its_patch():
    overlap = 2  # half a patch
    seen = pixels_seen(OverlappingPatches(32, 4, 3, 8), (32, 32))
    side = window([(4 + 2 * overlap, 4)])
    assert side == 4 + 2 * overlap and seen[3 * 8 + 3].sum() == side**2
    for token, view in enumerate(seen):  # at the border the window is cut
        y, x = token // 8 * 4, token % 8 * 4
        expected = torch.zeros(32, 32, dtype=torch.bool)
        expected[max(y - overlap, 0) : y + 4 + overlap, max(x - overlap, 0) : x + 4 + overlap] = 1
        assert torch.equal(view, expected)


def test_by_default_overlap_and_shift_see_the_same():
    overlapping, shifted = (
        pixels_seen(kind(32, 4, 3, 8), (32, 32)) for kind in (OverlappingPatches, ShiftedPatches)
    )
    assert torch.equal(overlapping, shifted)


def test_a_rotated_token_sees_most_beside_the_corner():
    """The corner itself gains least: its rotated copies lie mostly outside the image."""
    tokenizer = RotatedPatches(32, 4, 3, 8, angles=(math.radians(12.9),) * 2)
    seen = pixels_seen(tokenizer, (32, 32)).sum((1, 2)).reshape(8, 8)
    assert seen[3, 3] == 34 and seen[0, 0] == 32 and seen[1, 1] == seen.max() == 60
    for turned in (seen.flip(0), seen.flip(1), seen.T):
        assert torch.equal(seen, turned)


def test_the_module_is_left_as_it_came():
    tokenizer = RotatedPatches(8, 4, 3, 8).bfloat16().train()
    before = {name: tensor.clone() for name, tensor in tokenizer.state_dict().items()}
    pixels_seen(tokenizer, (8, 8), tokens=[0])
    assert tokenizer.training and tokenizer.norm.training
    assert all(torch.equal(before[k], v) for k, v in tokenizer.state_dict().items())
    assert all(p.dtype == torch.bfloat16 and p.grad is None for p in tokenizer.parameters())


@pytest.mark.parametrize(
    ("module", "tokens", "words"),
    [
        (PatchEmbedding(8, 4, 3, 8), [4], "token 4: expected 0 to 3"),
        (PatchEmbedding(8, 4, 3, 8), [0, -1], "token -1: expected 0 to 3"),
        (nn.Conv2d(3, 4, 3), None, r"Conv2d gave \(1, 4, 6, 6\): expected tokens"),
    ],
)
def test_what_cannot_be(module, tokens, words):
    with pytest.raises(ValueError, match=words):
        pixels_seen(module, (8, 8), tokens=tokens)


@pytest.mark.parametrize("layer", [(0, 1), (3, 0)])
def test_a_window_that_cannot_be(layer):
    with pytest.raises(ValueError, match="expected at least 1"):
        window([(3, 1), layer])
