"""How well a linear head marks flowers, by what it reads and by how its map is enlarged."""

from collections.abc import Callable, Iterator
from statistics import mean, stdev

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn
from tqdm import tqdm

from vitbook.analysis import feature_maps
from vitbook.analysis.capture.outputs import outputs_of
from vitbook.blocks import list_blocks
from vitbook.datasets.resizing import resize
from vitbook.models.catalog import fresh_twin
from vitbook.models.weights.pretrained import Pretrained, load_pretrained
from vitbook.models.weights.saliency import load_saliency_decoder
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.dense.heads import (
    DRAWS,
    MASKS,
    drawn,
    enlarged,
    fit_head,
    guided,
    iou,
    patch_labels,
    scores,
)
from vitbook.studies.dense.masks import flower_masks, masked_photos

VIT, CNN, SIDE = "vit_small_patch14_focus", "efficientnet_lite0", 224
# The CNN's maps at a sixteenth of the side: as many positions as the ViT has patches.
CNN_SIDE, CNN_LAYERS = 256, ("blocks.2", "blocks.4", "bn2")
BEST, BATCH = 10, 5
HALF = 0.5  # of a saliency from 0 to 1
Tokens = Float[Tensor, "n patches width"]


def block_tokens(
    model: nn.Module, normalized: Float[Tensor, "n c h w"], blocks: tuple[int, ...] | None = None
) -> dict[str, Tokens]:
    """Patch tokens behind blocks, counted from 1, each token at mean 0 and variance 1.

    Raises:
        ValueError: a block that the model has not, or one that gives no tokens.
    """
    paths = list_blocks(model)
    if missing := [n for n in blocks or () if not 1 <= n <= len(paths)]:
        raise ValueError(f"block {missing[0]}: expected 1 to {len(paths)}")
    asked = {paths[n - 1]: f"block {n}" for n in blocks or range(1, len(paths) + 1)}
    found: dict[str, list[Tensor]] = {name: [] for name in asked.values()}

    def read(path: str, tokens: Tensor) -> Tensor:
        if tokens.ndim != 3:
            raise ValueError(
                f"{path} of a {type(model).__name__} gives {tuple(tokens.shape)}: expected tokens, "
                "(n, tokens, width); of a convolutional network read vitbook.analysis.feature_maps"
            )
        patches = tokens[:, model.num_prefix_tokens :]
        return F.layer_norm(patches, patches.shape[-1:])

    for batch in normalized.split(BATCH):
        for path, each in outputs_of(model, batch, tuple(asked), read).items():
            found[asked[path]].append(each.float().cpu())
    return {name: torch.cat(each) for name, each in found.items()}


def colours(
    photographs: UInt8[Tensor, "n c h w"], grid_size: tuple[int, int]
) -> Float[Tensor, "n patches 9"]:
    """Of each patch its mean red, green and blue, their squares and products."""
    means = F.adaptive_avg_pool2d(photographs.float() / 255, grid_size)
    r, g, b = (rgb := rearrange(means, "n c r k -> n (r k) c")).unbind(-1)
    return torch.cat([rgb, rgb**2, torch.stack([r * g, g * b, b * r], -1)], -1)


def shifted_tokens(
    vit: Pretrained, photographs: UInt8[Tensor, "n c 224 224"], block: int
) -> Tokens:
    """Tokens of four views that lie half a patch apart, interleaved to twice the grid."""
    patch = vit.model.patch_size
    near = patch // 4 + 1  # 4 of 14 pixels, and 3 on the other side: half a patch apart
    wide = F.pad(photographs.float(), (near, patch // 2 - near) * 2, mode="reflect").to(torch.uint8)
    side, views = photographs.shape[-1], []
    for down in (0, patch // 2):
        for right in (0, patch // 2):
            view = wide[..., down : down + side, right : right + side]
            (tokens,) = block_tokens(vit.model, vit.normalize(view), (block,)).values()
            views.append(tokens)
    rows, columns = vit.model.grid_size
    return rearrange(
        torch.stack(views), "(a b) n (r k) d -> n (r a k b) d", a=2, b=2, r=rows, k=columns
    )


class _Score:
    """Scores a head on the same draws, whatever it reads; an IoU for each photograph."""

    def __init__(self, masks: Bool[Tensor, "n side side"], fitted: int = MASKS):
        self.masks, self.draws = masks, drawn(len(masks), fitted)

    def of(self, tokens: Tokens, grid: tuple[int, int], up: Callable[..., Tensor]) -> list[float]:
        labels, total = patch_labels(self.masks, grid), torch.zeros(len(self.masks))
        counts = torch.zeros(len(self.masks))
        for fitted, scored in self.draws:
            maps = scores(fit_head(tokens[fitted], labels[fitted]), tokens[scored], grid)
            total[scored] += iou(up(maps, scored) > 0, self.masks[scored])
            counts[scored] += 1
        return [round(each, 4) for each in (total / counts).tolist()]

    def ceiling(self, grid: tuple[int, int], mode: str) -> list[float]:
        """Of a map that knows for every patch exactly how much of it shows the object."""
        shares = F.adaptive_avg_pool2d(self.masks[:, None].float(), grid)[:, 0]
        found = iou(enlarged(shares, self.masks.shape[-1], mode) > 0.5, self.masks)
        return [round(each, 4) for each in found.tolist()]


def told(each: list[float], less: list[float] | None = None) -> list[float]:
    """The mean over photographs and its 95 % interval; with ``less``, of the differences."""
    values = each if less is None else [a - b for a, b in zip(each, less, strict=True)]
    middle, reach = mean(values), 1.96 * stdev(values) / len(values) ** 0.5
    return [round(value, 4) for value in (middle, middle - reach, middle + reach)]


def _read(device: torch.device, photographs: UInt8[Tensor, "n c h w"]) -> Iterator[tuple]:
    """What a head may read: (model, what, grid, tokens)."""
    vit = load_pretrained(VIT, image_size=SIDE)
    seen, grid = resize(photographs, SIDE), vit.model.grid_size
    ready = vit.normalize(seen).to(device)
    for name, tokens in block_tokens(vit.model.to(device), ready).items():
        yield "ViT-S/14", name, grid, tokens
    for name, tokens in block_tokens(fresh_twin(vit.model).to(device), ready, (BEST,)).items():
        yield "random weights", name, grid, tokens
    cnn = load_pretrained(CNN)
    ready = cnn.normalize(resize(photographs, CNN_SIDE)).to(device)
    maps = [feature_maps(cnn.model.to(device), batch, CNN_LAYERS) for batch in ready.split(BATCH)]
    for layer in CNN_LAYERS:
        found = torch.cat([each[layer].cpu() for each in maps])
        yield "EfficientNet-Lite0", layer, tuple(found.shape[2:]), rearrange(
            found, "n c r k -> n (r k) c")  # fmt: skip
    yield "no model", "mean colours", grid, colours(seen, grid)
    place = torch.eye(grid[0] * grid[1])[None].expand(len(seen), -1, -1)
    yield "no model", "position alone", grid, place


@measurement(
    segmentation={"model": "{model}", "reads": "{reads}", "grid": "{grid}", "iou": "{iou:.1%}"},
    enlarging={"tokens": "{tokens}", "enlarged": "{enlarged}", "iou": "{iou:.1%}"},
)  # fmt: skip
def segmentation(sheet: Sheet) -> None:
    """Mark flowers by a linear head on patch tokens that was fitted to three masks."""
    sheet.expect(VIT)
    photographs, masks = flower_masks()
    side, score = masks.shape[-1], _Score(masks)

    def plain(maps: Tensor, _: Tensor) -> Tensor:
        return enlarged(maps, side)

    def heads() -> list[dict]:
        return [
            {"model": model, "reads": what, "grid": f"{grid[0]} x {grid[1]}",
             "each": score.of(tokens, grid, plain)}
            for model, what, grid, tokens in tqdm(_read(sheet.device, photographs), desc="heads")
        ]  # fmt: skip

    def maps() -> list[dict]:
        found, vit = [], load_pretrained(VIT, image_size=SIDE)
        seen, grid = resize(photographs, SIDE), vit.model.grid_size
        twice = (2 * grid[0], 2 * grid[1])
        large = load_pretrained(VIT, image_size=2 * SIDE)
        for each in (vit, large):
            each.model.to(sheet.device)

        def tokens_of(it: Pretrained, size: int) -> Tensor:
            ready = it.normalize(resize(photographs, size)).to(sheet.device)
            return block_tokens(it.model, ready, (BEST,))[f"block {BEST}"]

        light = photographs.float() / 255
        ways = {
            "nearest": lambda maps, _: enlarged(maps, side, "nearest"),
            "bilinear": plain,
            "guided filter": lambda maps, which: guided(enlarged(maps, side), light[which]),
        }
        once = tokens_of(vit, SIDE)
        for name, up in tqdm(ways.items(), desc="ways to enlarge"):
            found.append(("224 pixels", grid, name, score.of(once, grid, up)))
        shifted = shifted_tokens(vit, seen, BEST)
        found.append(("four views, half a patch apart", twice, "bilinear",
                      score.of(shifted, twice, plain)))  # fmt: skip
        found.append(("448 pixels", twice, "bilinear",
                      score.of(tokens_of(large, 2 * SIDE), twice, plain)))  # fmt: skip
        found += [("the masks themselves", cut, mode, score.ceiling(cut, mode))
                  for cut in ((7, 7), grid, twice) for mode in ("nearest", "bilinear")]  # fmt: skip
        return [{"tokens": tokens, "grid": f"{cut[0]} x {cut[1]}", "enlarged": mode, "each": each}
                for tokens, cut, mode, each in found]  # fmt: skip

    rows, others = sheet.once("heads", heads), sheet.once("maps", maps)
    for row in rows:
        row["iou"] = told(row["each"])
        row["less_colours"] = told(row["each"], rows[-2]["each"])
    for row in others:
        row["iou"] = told(row["each"])
        row["less_bilinear"] = told(row["each"], others[1]["each"])
    settings = {
        "dataset": "TF-Flowers, held-out photographs that have a mask", "photographs": len(masks),
        "mask_size": side, "image_size": SIDE, "fitted_masks": MASKS, "draws": DRAWS, "seed": 0,
        "vit": VIT, "cnn": f"{CNN} at {CNN_SIDE} pixels", "fresh": "seed 0",
        "head": "ridge regression of each patch to +1 or -1, penalty chosen on the fitted "
        "photographs, each left out once; the map enlarged bilinearly and cut at 0",
        "each": "of each photograph the mean IoU over the draws in which it did not fit the head",
        "interval": "95 %, of the mean over photographs; differences are of the same photographs",
    }  # fmt: skip
    sheet.write(VIT, settings, rows)
    sheet.write(VIT, settings | {"block": BEST}, others, kind="enlarging")


@measurement(unpainted={"images": "{images}", "marks": "{marks}", "iou": "{iou:.1%}"})
def unpainted(sheet: Sheet) -> None:
    """Mark objects without any mask: by what the ViT was trained to answer, or everywhere."""
    sheet.expect(VIT)
    vit = load_pretrained(VIT, image_size=SIDE)
    decoder = load_saliency_decoder(vit.model).to(sheet.device)
    vit.model.to(sheet.device)
    rows = []
    for name, (photographs, masks) in {
        "photographs": masked_photos(),
        "flowers": flower_masks(),
    }.items():
        ready = vit.normalize(resize(photographs, SIDE)).to(sheet.device)
        with torch.no_grad():
            maps = torch.cat([decoder(vit.model.features(each)) for each in ready.split(BATCH)])
        own = enlarged(maps.cpu(), masks.shape[-1]) > HALF
        for marks, found in {
            "its own saliency": own,
            "every pixel": torch.ones_like(masks),
        }.items():
            each = [round(value, 4) for value in iou(found, masks).tolist()]
            rows.append({"images": name, "marks": marks, "iou": told(each), "each": each})
    settings = {
        "model": VIT, "image_size": SIDE, "cut": f"where the saliency is above {HALF}",
        "flowers": "TF-Flowers, held-out photographs that have a mask",
        "photographs": "the six that have a mask", "interval": "95 %, of the mean over photographs",
    }  # fmt: skip
    sheet.write(VIT, settings, rows)
