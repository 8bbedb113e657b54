"""Change every image of a batch in its own way, on the device where it lies."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from vitbook.datasets import normalize
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.batch_random import BatchRandom
from vitbook.training.engine.policies import apply_policy

ERASED_AREA = (0.02, 0.4)  # share of the image, and the sides' ratio: Zhong et al. 2017
ERASED_RATIO = 0.3


def augment(
    images: UInt8[Tensor, "batch channels height width"], recipe: Recipe, rng: BatchRandom
) -> Float[Tensor, "batch channels height width"]:
    """All that a recipe does to single images; what it does to pairs is in ``mixing``."""
    if recipe.crop_padding or recipe.flip:
        images = crop_and_flip(images, recipe, rng)
    if recipe.policy:
        images = apply_policy(images, recipe, rng)
    images = normalize(images)
    if recipe.shift or recipe.rotation or recipe.zoom or recipe.crop_area < 1:
        images = move(images, recipe, rng)
    if recipe.erasing:
        images = erase(images, recipe.erasing, rng)
    return images


def crop_and_flip(
    images: UInt8[Tensor, "batch channels height width"], recipe: Recipe, rng: BatchRandom
) -> UInt8[Tensor, "batch channels height width"]:
    """Pad with black, crop anywhere, mirror by chance: one gather for the whole batch."""
    (height, width), device = images.shape[2:], images.device
    padding = recipe.crop_padding
    padded = F.pad(images, (padding,) * 4)
    places = 2 * padding + 1

    def first() -> Tensor:
        return rng.uniform(0, places).long().clamp(max=places - 1)[:, None]

    rows, columns = first() + torch.arange(height), torch.arange(width).repeat(len(images), 1)
    if recipe.flip:
        mirrored = rng.uniform() < 0.5
        columns[mirrored] = columns[mirrored].flip(1)
    rows, columns = rows.to(device), (columns + first()).to(device)
    pixels = rows[:, :, None] * padded.shape[3] + columns[:, None, :]
    pixels = pixels.flatten(1)[:, None].expand(-1, images.shape[1], -1)
    return padded.flatten(2).gather(2, pixels).view_as(images)


def move(
    images: Float[Tensor, "batch channels height width"], recipe: Recipe, rng: BatchRandom
) -> Float[Tensor, "batch channels height width"]:
    """Shift, rotate, zoom and crop each image; what comes in from outside is -1, black.

    One bilinear sampling does all of it.
    """
    height, width = images.shape[2:]

    def around(largest: float) -> Tensor:
        return rng.uniform(-largest, largest)

    angle, scale = torch.deg2rad(around(recipe.rotation)), 1 / (1 + around(recipe.zoom))
    # affine_grid counts from -1 to 1 across the image, whatever its shape.
    right, down = around(recipe.shift) * 2 / width, around(recipe.shift) * 2 / height
    wide, high = scale, scale
    if recipe.crop_area < 1:
        area = rng.uniform(recipe.crop_area, 1)
        ratio = rng.uniform(math.log(3 / 4), math.log(4 / 3)).exp()
        share_wide, share_high = (
            (area * ratio).sqrt().clamp(max=1),
            (area / ratio).sqrt().clamp(max=1),
        )
        wide, high = scale * share_wide, scale * share_high
        right = right + rng.uniform(-1, 1) * (1 - share_wide)
        down = down + rng.uniform(-1, 1) * (1 - share_high)
    rows = [
        torch.stack([angle.cos() * wide, -angle.sin() * high * height / width, right], dim=-1),
        torch.stack([angle.sin() * wide * width / height, angle.cos() * high, down], dim=-1),
    ]
    affine = torch.stack(rows, dim=1).to(images.device)
    grid = F.affine_grid(affine, list(images.shape), align_corners=False)
    return F.grid_sample(images + 1, grid, align_corners=False) - 1


def erase(
    images: Float[Tensor, "batch channels height width"], probability: float, rng: BatchRandom
) -> Float[Tensor, "batch channels height width"]:
    """Random erasing (Zhong et al. 2017): a rectangle of the image turns grey.

    It covers 2 to 40 % of the image and is at most 3.3 times as long as it is wide. A side
    longer than the image is cut, where the authors draw again.
    """
    height, width = images.shape[2:]
    chosen = rng.uniform() < probability
    area = rng.uniform(*ERASED_AREA) * height * width
    ratio = rng.uniform(math.log(ERASED_RATIO), -math.log(ERASED_RATIO)).exp()
    high = (area * ratio).sqrt().round().clamp(1, height)
    wide = (area / ratio).sqrt().round().clamp(1, width)
    rows = (_between(rng.uniform(), high, height) & chosen[:, None]).to(images.device)
    columns = _between(rng.uniform(), wide, width).to(images.device)
    return images.masked_fill(rows[:, None, :, None] & columns[:, None, None, :], 0.0)


def _between(place: Tensor, length: Tensor, whole: int) -> Tensor:
    """Which of ``whole`` pixels lie in a stretch of ``length``, ``place`` (0 to 1) of its way."""
    start = (place * (whole - length + 1)).floor()[:, None]
    pixels = torch.arange(whole)
    return (pixels >= start) & (pixels < start + length[:, None])
