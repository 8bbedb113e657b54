"""A CNN and a ViT rounded alike, and what a batch norm does to the CNN's grid once it is folded."""

import copy
from collections.abc import Collection
from typing import Annotated

import torch
import typer
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

from vitbook import datasets
from vitbook.errors import UnknownNameError
from vitbook.layers.quantizers import quantize
from vitbook.model_utilities import evaluating
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import DataName
from vitbook.training.transfer.linear_probe import share_interval

CNN, VIT, HEAD = "efficientnet_lite0", "vit_small_patch14_focus", "tiny_imagenet"
BITS, BATCH = 8, 25
SAME = 1e-3  # of the length of all answers


@torch.no_grad()
def fold_batch_norms(
    model: nn.Module, images: Float[Tensor, "batch channels height width"]
) -> nn.Module:
    r"""A copy that computes the same, its batch norms moved into the convolutions before them.

    In evaluation a batch norm multiplies each channel by
    :math:`f = \gamma / \sqrt{\sigma^2 + \varepsilon}` and adds a number, which the convolution can
    do itself: each row of its weights is multiplied by its f.

    Args:
        images: on which both must answer the same: what a ``forward`` does between its parts, no
            list of them shows.

    Raises:
        ValueError: a batch norm that does not follow a convolution of as many channels in the same
            module, or has no weights or statistics; or the copy answers otherwise.
    """
    folded, before, inside = copy.deepcopy(model), None, ""
    for path, part in folded.named_modules():
        if isinstance(part, nn.Conv2d):
            before, inside = part, path.rpartition(".")[0]
        elif isinstance(part, nn.BatchNorm2d):
            here = path.rpartition(".")[0]
            if before is None or before.out_channels != part.num_features or here != inside:
                raise ValueError(
                    f"no convolution of {part.num_features} channels before the batch norm {path}: "
                    "expected a model in which one follows the other"
                )
            if part.weight is None or part.running_var is None:
                raise ValueError(
                    f"the batch norm {path} has no weights or no statistics: expected one with "
                    "affine and track_running_stats"
                )
            factor = part.weight / (part.running_var + part.eps).sqrt()
            bias = 0 if before.bias is None else before.bias
            before.bias = nn.Parameter(part.bias + (bias - part.running_mean) * factor)
            before.weight *= factor[:, None, None, None]
            for values, neutral in ((part.weight, 1), (part.bias, 0),
                                    (part.running_mean, 0), (part.running_var, 1)):  # fmt: skip
                values.fill_(neutral)
            # Lost beside 1; torch 2.11 takes no zero.
            part.eps, before = torch.finfo(torch.float64).tiny, None
        elif not isinstance(part, nn.Identity) and next(part.children(), None) is None:
            before = None  # an activation stands between
    with evaluating(model), evaluating(folded):
        moved = _moved(folded(images), model(images))
    if not moved < SAME:
        raise ValueError(
            f"folded, the model's answers change by {moved:.1%}: expected a batch norm to be used "
            "once, right behind its convolution, with no function between"
        )
    return folded


def layers_of(model: nn.Module) -> dict[str, nn.Module]:
    """Path -> each convolution and linear layer."""
    named = model.named_modules()
    return {path: part for path, part in named if isinstance(part, nn.Conv2d | nn.Linear)}


def depthwise(model: nn.Module) -> dict[str, nn.Module]:
    """Those of them that see one channel each."""
    return {path: part for path, part in layers_of(model).items() if getattr(part, "groups", 1) > 1}


@torch.no_grad()
def round_layers(
    model: nn.Module, bits: int, steps: str, only: Collection[str] | None = None
) -> nn.Module:
    """A copy whose convolutions and linear layers have rounded weights.

    Args:
        steps: one step a "layer", or one a "channel", which is a row of the weight.
        only: paths of layers; by default of all.

    Raises:
        UnknownNameError: no such layer.
        ValueError: other steps or bits.
    """
    if steps not in ("layer", "channel"):
        raise ValueError(f"steps {steps!r}: expected 'layer' or 'channel'")
    small = copy.deepcopy(model)
    layers = layers_of(small)
    chosen = layers if only is None else (only,) if isinstance(only, str) else tuple(only)
    for path in chosen:
        if path not in layers:
            raise UnknownNameError("layer", path, layers)
    for path, part in layers.items():
        if path in chosen:
            axes = None if steps == "layer" else tuple(range(1, part.weight.ndim))
            part.weight.copy_(quantize(part.weight, bits, axes).values)
    return small


def range_ratio(part: nn.Module) -> float:
    """Largest over median row of a weight, each row measured by its largest absolute value."""
    rows = part.weight.detach().abs().flatten(1).amax(1)
    return (rows.max() / rows.median()).item()


def _moved(found: Tensor, exact: Tensor) -> float:
    return round(((found - exact).norm() / exact.norm()).item(), 4)


@measurement(
    rounded_networks={"model": "{model}", "norms": "{norms}", "steps": "{steps}",
                      "layers": "{layers}", "names kept": "{kept:.3f}", "moved": "{moved:.3f}"},
    rounded_layers={"layer": "{layer}", "kind": "{kind}", "ratio": "{ratio:.1f}",
                    "a step a layer": "{layer_step:.3f}", "a channel": "{channel_step:.3f}"},
)  # fmt: skip
@torch.no_grad()
def round_networks(
    sheet: Sheet,
    dataset: DataName,
    images: Annotated[int, typer.Option(min=1, help="Held-out photographs, the first ones.")] = 200,
) -> None:
    """Round EfficientNet-Lite0 and the pretrained ViT to 8 bits; count names that they keep."""
    subject = f"{CNN}-{dataset}"
    sheet.expect(subject)
    test = datasets.load(dataset, datasets.held_out_split(dataset), image_size=224)
    small = datasets.load(dataset, datasets.held_out_split(dataset), image_size=112)
    cnn, vit = load_pretrained(CNN), load_pretrained(VIT, head=HEAD)
    shown = {CNN: cnn.normalize(test.images[:images]), VIT: vit.normalize(small.images[:images])}
    folded = fold_batch_norms(cnn.model, shown[CNN][:2])

    def answers(model: nn.Module, name: str) -> Tensor:
        batches = tqdm(shown[name].split(BATCH), name, leave=False)
        return torch.cat([model.to(sheet.device)(each.to(sheet.device)).cpu() for each in batches])

    exact = {CNN: answers(cnn.model, CNN), VIT: answers(vit.model, VIT)}
    deep = depthwise(folded)
    every = ("all", None)
    others = ("all but the depthwise", [path for path in layers_of(folded) if path not in deep])
    cases = [
        (CNN, folded, "folded", "layer", every),
        (CNN, folded, "folded", "layer", ("depthwise", deep)),
        (CNN, folded, "folded", "layer", others),
        (CNN, cnn.model, "apart", "layer", every),
        (CNN, folded, "folded", "channel", every),
        (VIT, vit.model, "LayerNorm", "layer", every),
        (VIT, vit.model, "LayerNorm", "channel", every),
    ]

    def row_of(name: str, model: nn.Module, norms: str, steps: str, asked: tuple) -> dict:
        layers, only = asked
        found = answers(round_layers(model, BITS, steps, only), name)
        kept = int((found.argmax(1) == exact[name].argmax(1)).sum())
        return {
            "model": name, "norms": norms, "steps": steps, "layers": layers,
            "kept": [round(each, 4) for each in share_interval(kept, len(found))],
            "moved": _moved(found, exact[name]),
        }  # fmt: skip

    rows = [
        sheet.once(f"{name} {norms} {steps} {asked[0]}", row_of, name, model, norms, steps, asked)
        for name, model, norms, steps, asked in cases
    ]
    settings = {
        "dataset": test.provenance["name"], "images": len(exact[CNN]), "bits": BITS,
        "kept": "top-1 names that stay as they were, 95 % by Wilson",
        "moved": "length of the change of all logits over their length",
        "names": f"{CNN}: ImageNet's 1,000, 224 px; {VIT}: Tiny-ImageNet's 200, 112 px",
        "weights": [each.provenance["digest"] for each in (cnn, vit)],
    }  # fmt: skip
    sheet.write(subject, settings, rows)

    nine = cnn.normalize(datasets.load("photos", "all", image_size=224).images)
    was = cnn.model.cpu()(nine)

    def layer_row(path: str) -> dict:
        ratios = [range_ratio(model.get_submodule(path)) for model in (folded, cnn.model)]
        moved = [
            _moved(round_layers(folded, BITS, steps, (path,))(nine), was)
            for steps in ("layer", "channel")
        ]
        return {
            "layer": path, "kind": "depthwise" if path in deep else "other",
            "ratio": round(ratios[0], 2), "ratio_apart": round(ratios[1], 2),
            "layer_step": moved[0], "channel_step": moved[1],
        }  # fmt: skip

    rows = [sheet.once(path, layer_row, path) for path in layers_of(folded.cpu())]
    told = {"images": "nine photographs", "rounded": "this layer alone, norms folded", "bits": BITS}
    sheet.write(subject, told | {"moved": settings["moved"]}, rows, "rounded_layers")
