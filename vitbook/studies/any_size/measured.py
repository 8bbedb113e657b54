"""``vitbook measure patch-sizes``: a pretrained ViT, given other patches than its own."""

from copy import deepcopy
from statistics import mean, stdev

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from tqdm import tqdm

from vitbook import datasets
from vitbook.datasets.resizing import resize
from vitbook.layers.tokenizers import pair
from vitbook.measure import count_macs
from vitbook.models import change_input
from vitbook.models.weights.pretrained import Pretrained, load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.transfer.linear_probe import share_interval

VIT, DATASET, PATCH, SIDE, BORN = "vit_small_patch14_focus", "tf_flowers", 14, 224, 518
PATCHES, SIZES = (8, 14, 16, 28), (7, 28)  # at 224 pixels; on a grid of 16 x 16
PHOTOGRAPHS, BATCH = 80, 5
SMALLER = (112, 196)  # with the old patches as many tokens as patches of 28 and of 16
KERNELS = ("pseudo-inverse", "as a picture", "as a picture, by area")
Images = UInt8[Tensor, "_ 3 _ _"]


def picture_kernel(
    kernel: Float[Tensor, "width channels rows columns"], size: int, by_area: bool = False
) -> Float[Tensor, "width channels {size} {size}"]:
    """The kernel resized as if it were a picture, the control of the pseudo-inverse.

    Args:
        by_area: divided by how many times as many pixels a patch has.
    """
    found = F.interpolate(kernel, (size, size), mode="bicubic", antialias=True)
    return found * (kernel[0, 0].numel() / size**2 if by_area else 1)


def carried(vit: Pretrained, image_size: int | tuple[int, int], patch: int = PATCH,
            kernel: str = KERNELS[0]) -> nn.Module:  # fmt: skip
    """A copy for another input, in evaluation mode."""
    model = deepcopy(vit.model)
    born = model.tokenizer.projection.weight.detach()
    change_input(model, image_size, patch, "bicubic")
    if kernel != KERNELS[0] and patch != PATCH:
        weight = picture_kernel(born, patch, kernel == KERNELS[2])
        model.tokenizer.projection.weight = nn.Parameter(weight)
    return model.eval()


@torch.no_grad()
def read(
    vit: Pretrained, model: nn.Module, images: Images, device: torch.device, name: str = ""
) -> Float[Tensor, "n features"]:
    """The class token beside the mean of the patch tokens; images as large as the model takes."""
    model, found = model.to(device), []
    for batch in tqdm(images.split(BATCH), desc=name, mininterval=20):
        tokens = model.features(vit.normalize(batch).to(device)).cpu()
        found.append(torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], 1))
    return torch.cat(found)


def told(values: list[float]) -> list[float]:
    """The mean over photographs and its 95 % interval."""
    middle, reach = mean(values), 1.96 * stdev(values) / len(values) ** 0.5
    return [round(each, 4) for each in (middle, middle - reach, middle + reach)]


def about(model: nn.Module) -> dict:
    rows, columns = model.grid_size
    image = torch.zeros(1, 3, *pair(model.tokenizer.image_size))
    device = next(model.parameters()).device
    return {"tokens": rows * columns, "grid": f"{rows} x {columns}",
            "macs": count_macs(model, image.to(device))}  # fmt: skip


def judged(model: nn.Module, features: Tensor, labels: Tensor) -> dict:
    right = model.head.classifier.cpu()(features).argmax(1) == labels
    shares = [round(each, 4) for each in share_interval(int(right.sum()), len(right))]
    return {"accuracy": shares, "right": "".join(map(str, right.int().tolist()))}


def less(row: dict, base: dict) -> list[float]:
    """By how much more photographs a row is right than another one, and the interval."""
    return told([float(a) - float(b) for a, b in zip(row["right"], base["right"], strict=True)])


@measurement(
    patch_sizes={"patch": "{patch}", "image": "{image_size}", "grid": "{grid}",
                 "kernel": "{kernel}", "right": "{accuracy:.1%}", "less 14": "{less:.1%}",
                 "cosine": "{cosine:.2f}", "token length": "{length:.2f}"},
)  # fmt: skip
@torch.no_grad()
def patch_sizes(sheet: Sheet) -> None:
    """Give a pretrained ViT other patches than its own, by the pseudo-inverse and its controls."""
    sheet.expect(VIT)
    vit = load_pretrained(VIT, image_size=BORN, head=DATASET)
    test = datasets.load(DATASET, "test", image_size=160)
    images, labels = test.images[:PHOTOGRAPHS], test.labels[:PHOTOGRAPHS]
    base = read(vit, carried(vit, SIDE), resize(images, SIDE), sheet.device, "as it was")
    first = carried(vit, SIDE).tokenizer(vit.normalize(resize(images[:20], SIDE))).norm(dim=-1)

    def row(patch: int, size: int, kernel: str) -> dict:
        name = f"patch {patch}, {size} px, {kernel}"
        model, seen = carried(vit, size, patch, kernel), resize(images, size)
        as_born = (patch, size) == (PATCH, SIDE)
        found = base if as_born else read(vit, model, seen, sheet.device, name)
        tokens = model.cpu().tokenizer(vit.normalize(seen[:20]))
        alike = F.cosine_similarity(found[:, :384], base[:, :384], dim=1)
        return {"patch": patch, "image_size": size, "kernel": kernel, **about(model),
               **judged(model, found, labels), "cosine": told(alike.tolist()),
               "length": round((tokens.norm(dim=-1).mean() / first.mean()).item(), 4)}  # fmt: skip

    asked = [(patch, SIDE, KERNELS[0]) for patch in PATCHES]
    asked += [(patch, 16 * patch, KERNELS[0]) for patch in SIZES]
    asked += [(patch, 16 * patch, KERNELS[1]) for patch in SIZES]
    asked += [(patch, SIDE, kernel) for kernel in KERNELS[1:] for patch in PATCHES if patch > PATCH]
    asked += [(PATCH, size, KERNELS[0]) for size in SMALLER]
    rows = [sheet.once(str(each), row, *each) for each in asked]
    born = next(each for each in rows if (each["patch"], each["image_size"]) == (PATCH, SIDE))
    for each in rows:
        each["less"] = less(each, born)
    settings = {
        "model": VIT, "born": f"patches of {PATCH}, a table of 37 x 37 positions",
        "dataset": "TF-Flowers (160 px copy), held out", "photographs": len(images),
        "head": f"the book's linear head, fitted to patches of {PATCH} at {SIDE} pixels",
        "cosine": "of the class token with that of patch 14 at 224 pixels, mean of photographs",
        "length": "of a patch's token before positions, over that of patch 14 at 224 pixels",
        "interval": "95 %: accuracies Wilson; differences of the same photographs",
    }  # fmt: skip
    sheet.write(VIT, settings, rows)
