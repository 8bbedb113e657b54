"""The numbers in the text of the chapter on rollout, by the names under which it glues them."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook import runs
from vitbook.analysis.attention.rollout import roll_out
from vitbook.analysis.capture.record import record_attention
from vitbook.runs.tables import interval
from vitbook.studies.rollout.drawings import alike
from vitbook.studies.rollout.heads import NAME, SINK, Sinks, run_encoder

Maps = Float[Tensor, "images patches"]
Layers = Sequence[Float[Tensor, "images tokens tokens"]]


def of_sinks(found: Sinks, layers: Layers, ended: Maps) -> dict[str, float | int]:
    """The sink by the heads, and what layer 1 leaves for all layers.

    Args:
        layers: the maps of all layers, their heads fused.
        ended: the class token's rollout through all layers.
    """
    share, patch = found.share[SINK], found.patch[SINK]
    of_product = share.mean().item() / found.share.shape[1] / 2
    start = torch.eye(layers[0].shape[-1])[:1].expand(len(ended), -1)
    begun = roll_out(start, layers[:1])[:, 1:]
    passed_on = (roll_out(start, layers[1:])[:, None] @ layers[0])[:, 0, 1:]
    received = layers[0].mean(1)[:, 1:]
    return {
        "kept": (begun.argmax(1) == ended.argmax(1)).sum().item(),
        "layer-one": alike(begun, ended).mean().item(),
        "layer-one-rest": alike(_rest(begun, patch), _rest(ended, patch)).mean().item(),
        "received": alike(passed_on, received).mean().item(),
        "sink-least": 100 * share.min().item(), "sink-most": 100 * share.max().item(),
        "sink-mean": 100 * share.mean().item(),
        "sink-next": 100 * found.share.mean(2).flatten().sort().values[-2].item(),
        "sink-key": found.key[SINK].mean().item(), "sink-value": found.value[SINK].mean().item(),
        "by-hand": of_product, "by-hand-times": (1 + ended.shape[1]) * of_product,
        "sink-rollout": times_mean(ended, patch),
    }  # fmt: skip


def times_mean(maps: Float[Tensor, "images *grid"], patch: Int64[Tensor, " images"]) -> float:
    """The number of one patch over the mean of its map, mean of the images."""
    flat = maps.flatten(1)
    return (flat.gather(1, patch[:, None])[:, 0] / flat.mean(1)).mean().item()


def _rest(maps: Maps, patch: Int64[Tensor, " images"]) -> Float[Tensor, "images others"]:
    """The maps without one patch each."""
    others = torch.ones_like(maps, dtype=torch.bool).scatter(1, patch[:, None], value=False)
    return maps[others].view(len(maps), -1)


def without_heads(
    first: Float[Tensor, "images heads tokens tokens"],
    later: Layers,
    ended: Maps,
    patch: Int64[Tensor, " images"],
) -> dict[str, float]:
    """The class token's rollout with each head of layer 1 left out, beside the whole.

    Args:
        first: the maps of layer 1; ``later`` those of the others, fused.
        patch: the sink of each image.
    """
    start = torch.eye(first.shape[-1])[:1].expand(len(first), -1)
    found = []
    for head in range(first.shape[1]):
        others = [k for k in range(first.shape[1]) if k != head]
        found.append(roll_out(start, [first[:, others].mean(1), *later])[:, 1:])
    without = found.pop(SINK[1])
    return {
        "without-times": times_mean(without, patch),
        "without-rest": alike(_rest(without, patch), _rest(ended, patch)).mean().item(),
        "others-times": min(times_mean(other, patch) for other in found),
    }


@torch.no_grad()
def of_keys(
    model: nn.Module, images: Float[Tensor, "images channels height width"], found: Sinks
) -> dict[str, float | int]:
    """Why the head of the sink chooses its patch, and how much the same it hands to all patches."""
    calls, at = [], found.patch[SINK]
    with record_attention(model, calls.append):
        model.features(images)
    call, head = calls[SINK[0]], SINK[1]
    long = call.k.norm(dim=-1, keepdim=True)
    median = long[:, :, 1:].median(2, keepdim=True).values
    of_one_length = replace(call, k=call.k / long * median).weights()[:, head, 1:, 1:].mean(1)
    handed = call.weights()[:, head, 1:] @ call.v[:, head]
    apart = (handed - handed.mean(1, keepdim=True)).square().sum((1, 2))
    return {
        "longest-key": (long[:, head, 1:, 0].argmax(1) == at).sum().item(),
        "sink-even": 100 * of_one_length.gather(1, at[:, None]).mean().item(),
        "same": 100 * (1 - apart / handed.square().sum((1, 2))).mean().item(),
    }


@torch.no_grad()
def of_use(
    model: nn.Module, images: Float[Tensor, "images channels height width"]
) -> dict[str, float | int | str]:
    """What the head costs, how long tokens are, and how well relevance points."""
    costs, surely = {}, 0
    for name, by in (("cost", "mean"), ("cost-zero", "zero")):
        (removed,) = runs.measurements("head_ablation", f"{NAME}-tf_flowers-{by}")
        drops = [row["drop"] for row in removed.rows if row["layer"] == SINK[0] + 1]
        costs[name] = interval(drops.pop(SINK[1]), ".2f")
        surely += sum(low > 0 for _, low, _ in drops)
    (pointing,) = runs.measurements("collages", f"{NAME}-tiny_imagenet")
    points = {row["reads"]: row["pointing"] for row in pointing.rows if row["name"] == "relevance"}
    lengths = run_encoder(model, model.embed(images)).streams[:, :, 1:].norm(dim=-1)
    return costs | {
        "others-cost": surely, "cost-of": removed.settings["intact_score"][0],
        "longest": (lengths.amax(-1) / lengths.median(-1).values).max().item(),
        "pointing": interval(points["both"], ".2f"),
        "pointing-class": interval(points["class token"], ".2f"),
    }  # fmt: skip
