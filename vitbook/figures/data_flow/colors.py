"""Tokens of all layers as colours that go over into each other."""

import numpy as np
import torch

from vitbook.analysis import principal_tokens

_QUANTILES = (0.02, 0.98)  # as `vitbook.analysis.token_colors`
# Oklab (Ottosson 2020): to the roots of the cones' answers, from their cubes to linear RGB.
_LAB_TO_CONES = np.array(
    [
        [1, 0.3963377774, 0.2158037573],
        [1, -0.1055613458, -0.0638541728],
        [1, -0.0894841775, -1.2914855480],
    ]
)
_CONES_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)
# Lightness, from green to red, from blue to yellow: hardly any of these leaves RGB.
_LOWEST, _HIGHEST = np.array([0.42, -0.12, -0.13]), np.array([0.86, 0.14, 0.13])


def layer_colors(tokens: torch.Tensor, prefix: int) -> np.ndarray:
    """Colours of "layers tokens width": uint8 "layers tokens 3", a basis for each layer.

    Tokens are compared after a LayerNorm without weights, as a block takes them.
    A principal component has no sign, and two of one size no order: so from the last layer
    backwards each layer's coordinates are turned towards those of the next one.
    """
    patches = torch.ones(1, tokens.shape[1], dtype=torch.bool)
    patches[:, :prefix] = False
    colors, after = [], None
    for layer in reversed(tokens):
        unit = torch.nn.functional.layer_norm(layer, layer.shape[-1:])
        found = principal_tokens(unit[None], 3, patches)[0][0].double()
        inside = found[prefix:]
        if after is not None:
            left, _, right = torch.linalg.svd(inside.T @ after)
            found = found @ (left @ right)
            inside = found[prefix:]
        after = inside
        low, high = (inside.quantile(share, dim=0) for share in _QUANTILES)
        shown = ((found - low) / (high - low).clamp_min(1e-12)).clamp(0, 1)
        colors.append(_calm(shown.numpy()))
    return np.stack(colors[::-1])


def _calm(places: np.ndarray) -> np.ndarray:
    """Places "... 3", each 0 to 1, as lightness and two hues of Oklab: uint8 "... 3".

    Steps of one size look alike there, and no colour is as loud as the corners of red, green, blue.
    """
    lab = _LOWEST + places * (_HIGHEST - _LOWEST)
    linear = (lab @ _LAB_TO_CONES.T) ** 3 @ _CONES_TO_RGB.T
    linear = linear.clip(0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.rint(255 * srgb).astype(np.uint8)
