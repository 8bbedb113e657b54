"""The data of a flow as a page computes it for a photograph of its reader, against Python."""

import numpy as np
import torch

from vitbook.figures.data_flow import strongest
from vitbook.figures.data_flow.colors import layer_colors


def test_the_nearest_rotation_is_that_of_the_singular_vectors(js):
    for seed in range(4):
        matrix = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed)).double()
        left, _, right = torch.linalg.svd(matrix)
        given = js("look", "nearestRotation(m)", m=matrix)
        np.testing.assert_allclose(given, left @ right, atol=1e-9)
    assert js("look", "nearestRotation([[0, 0, 0], [0, 0, 0], [0, 0, 0]])") == np.eye(3).tolist()


def test_the_colours_are_those_of_python(js):
    generator = torch.Generator().manual_seed(0)
    spread = torch.tensor([9.0, 5.0, 2.5])
    tokens = torch.stack([
        (torch.randn(37, 3, generator=generator) * spread) @ torch.randn(3, 16, generator=generator)
        for _ in range(4)
    ])  # fmt: skip
    wanted = layer_colors(tokens, 1)
    given = js("look", "[...layerColors(t.map((l) => Float32Array.from(l)), 16, 1)]",
        t=tokens.flatten(1),
    )  # fmt: skip
    apart = np.abs(np.reshape(given, wanted.shape)[:, 1:].astype(int) - wanted[:, 1:])
    assert (apart <= 2).mean() > 0.99, "power iteration and a decomposition find the same"


def test_the_lines_are_those_of_python(js):
    maps = torch.rand(2, 3, 10, 10, generator=torch.Generator().manual_seed(0))
    seen, weights = strongest(maps.mean(1)[:, 1:].numpy(), 4)
    given = js(
        "look",
        "(({ seen, weights }) => ({ seen: [...seen], weights }))"
        "(strongest(maps.map((m) => ({ dims: [1, 3, 10, 10], data: m.flat(2) })), 1, 4))",
        maps=maps,
    )
    assert given["seen"] == seen.ravel().tolist()
    np.testing.assert_allclose(given["weights"], weights.ravel(), rtol=1e-6)
