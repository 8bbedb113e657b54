"""The numbers in the text of the chapter on rollout, by the names under which it glues them."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import runs
from vitbook.analysis.attention.rollout import roll_out
from vitbook.studies.rollout.drawings import alike
from vitbook.studies.rollout.heads import NAME, SINK, Sinks, run_encoder

Maps = Float[Tensor, "images patches"]


def of_sinks(found: Sinks, begun: Maps, ended: Maps) -> dict[str, float]:
    """The sink by the heads, and what layer 1 leaves for all layers.

    Args:
        begun: the class token's rollout through layer 1; ``ended`` through all layers.
    """
    share = found.share[SINK]
    of_product = share.mean().item() / found.share.shape[1] / 2
    return {
        "kept": (begun.argmax(1) == ended.argmax(1)).sum().item(),
        "layer-one": alike(begun, ended).mean().item(),
        "sink-least": 100 * share.min().item(), "sink-most": 100 * share.max().item(),
        "sink-mean": 100 * share.mean().item(),
        "sink-next": 100 * found.share.mean(2).flatten().sort().values[-2].item(),
        "sink-key": found.key[SINK].mean().item(), "sink-value": found.value[SINK].mean().item(),
        "by-hand": of_product, "by-hand-times": (1 + begun.shape[1]) * of_product,
    }  # fmt: skip


def without_heads(
    first: Float[Tensor, "images heads tokens tokens"],
    later: Sequence[Float[Tensor, "images tokens tokens"]],
    ended: Maps,
) -> dict[str, float]:
    """The class token's rollout with each head of layer 1 left out, beside the whole.

    Args:
        first: the maps of layer 1; ``later`` those of the others, fused.
    """
    start = torch.eye(first.shape[-1])[:1].expand(len(first), -1)
    found = []
    for head in range(first.shape[1]):
        others = [k for k in range(first.shape[1]) if k != head]
        rolled = roll_out(start, [first[:, others].mean(1), *later])[:, 1:]
        found.append(alike(rolled, ended).mean().item())
    return {"without-alike": found.pop(SINK[1]), "rest-alike": min(found)}


@torch.no_grad()
def of_use(model: nn.Module, images: Tensor) -> dict[str, float | str]:
    """What the head's removal costs, how long tokens are, and what an untrained register draws."""
    (removed,) = runs.measurements("head_ablation", f"{NAME}-tf_flowers-mean")
    costs = [row["drop"] for row in removed.rows if row["layer"] == SINK[0] + 1]
    cost = costs.pop(SINK[1])
    (tried,) = runs.measurements("test_time_registers", NAME)
    _, zeros, neurons, _, copied = tried.rows
    lengths = run_encoder(model, model.embed(images)).streams[:, :, 1:].norm(dim=-1)
    return {
        "cost": "{:.2f} [{:.2f}, {:.2f}]".format(*cost).replace("-", "−"),
        "cost-of": removed.settings["intact_score"][0],
        "cost-free": sum(low <= 0 for _, low, _ in costs),
        "longest": (lengths.amax(-1) / lengths.median(-1).values).max().item(),
        "zeros-drawn": 100 * zeros["drawn"], "zeros-sink": 100 * zeros["sink"],
        "neurons-sink": 100 * neurons["sink"], "copy-sink": 100 * copied["sink"],
    }  # fmt: skip
