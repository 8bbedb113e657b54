"""Fewer tokens in a model that was trained with all of them: merged, or dropped."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import torch
import torch.nn.functional as F
import typer
from einops import reduce
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from vitbook import datasets
from vitbook.measure import compare_speed, count_macs, count_step_macs
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import HeadedData, Seed
from vitbook.training.transfer.linear_probe import accuracy_interval

BODY = "vit_small_patch14_focus"
FEWER = (8, 16, 18)  # tokens less behind each block
BATCH, TIMED, PAIRS = 16, 2, 20

Fewer = Callable[[Float[Tensor, "tokens width"], int], Float[Tensor, "fewer tokens"]]


def merge_alike(keys: Float[Tensor, "tokens width"], r: int) -> Float[Tensor, "fewer tokens"]:
    """Which tokens become one: a row for each that is left, with a 1 for each of its tokens."""
    keys = F.normalize(keys, dim=-1)
    cosine = keys[0::2] @ keys[1::2].T  # every second token looks among the others
    best, partner = cosine.max(dim=1)
    going = 1 + best[1:].argsort(descending=True)[:r]  # the most similar; the class token stays
    rows = torch.eye(len(keys))
    rows.index_add_(0, 2 * partner[going] + 1, rows[2 * going])
    return _without(rows, 2 * going)


def merge_any(keys: Float[Tensor, "tokens width"], r: int) -> Float[Tensor, "fewer tokens"]:
    """Pairs drawn by lot: the control for similarity."""
    drawn = torch.randn(len(keys), 8)
    return merge_alike(drawn, r)


def drop_any(keys: Float[Tensor, "tokens width"], r: int) -> Float[Tensor, "fewer tokens"]:
    """Tokens that are left out, drawn by lot; never the class token."""
    return _without(torch.eye(len(keys)), 1 + torch.randperm(len(keys) - 1)[:r])


def _without(rows: Tensor, places: Tensor) -> Tensor:
    left = torch.ones(len(rows), dtype=torch.bool)
    left[places] = False
    return rows[left]


WAYS = {"merged, most alike": merge_alike, "merged, any two": merge_any, "dropped, any": drop_any}


@torch.no_grad()
def with_fewer(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    fewer: Fewer,
    r: int,
) -> tuple[Float[Tensor, "batch left token_width"], Float[Tensor, "batch left tokens"]]:
    r"""Run a model with r tokens less behind the attention of each block.

    ToMe (Bolya et al. 2023, section 3): a merged token is the mean of its tokens, and weighs in
    attention as many as it stands for, :math:`\mathrm{softmax}(qk^\top/\sqrt d + \log s)`.

    Args:
        model: blocks with LayerScale, as DINOv2's.
        fewer: from the mean of the heads' keys to what is left.
        r: 0 is the model as it is.

    Returns:
        The tokens after the last norm, and which of the first tokens each stands for.
    """
    tokens = model.embed(images)
    groups = torch.eye(tokens.shape[1]).expand(len(images), -1, -1)
    for block in model.encoder.blocks:
        sizes = groups.sum(-1)
        q, k, v = block.attention.heads(block.attention.qkv(block.norm1(tokens)))
        weight = sizes.log()[:, None, None] if r else None
        mixed = block.attention.joined(block.attention.core(q, k, v, weight))
        tokens = tokens + block.scale1(mixed)
        if r:
            rows = torch.stack([fewer(keys, r) for keys in reduce(k, "b h n d -> b n d", "mean")])
            shares = rows * sizes[:, None] / (rows @ sizes[..., None])
            tokens, groups = shares @ tokens, rows @ groups
        tokens = tokens + block.scale2(block.mlp(block.norm2(tokens)))
    return model.encoder.norm(tokens), groups


def answers(model: nn.Module, tokens: Tensor, groups: Tensor) -> Float[Tensor, "batch classes"]:
    """Logits of a head that reads the class token beside the mean of the patches."""
    sizes = groups[:, 1:].sum(-1, keepdim=True)
    mean = (tokens[:, 1:] * sizes).sum(1) / sizes.sum(1)
    return model.head.classifier(torch.cat([tokens[:, 0], mean], dim=1))


def painted(
    image: UInt8[Tensor, "channels height width"],
    groups: Float[Tensor, "left tokens"],
    patch: int,
) -> UInt8[Tensor, "channels height width"]:
    """The image with each patch in the mean colour of all that it was merged with."""
    channels, height, width = image.shape
    colors = reduce(image / 255, "c (r p) (s q) -> (r s) c", "mean", p=patch, q=patch)
    patches = groups[:, 1:]
    of_groups = patches @ colors / patches.sum(-1, keepdim=True).clamp(min=1)
    shown = (patches.T @ of_groups).T.reshape(channels, height // patch, width // patch)
    shown = shown.repeat_interleave(patch, 1).repeat_interleave(patch, 2)
    return (255 * shown).round().to(torch.uint8)


@measurement(
    fewer_tokens={
        "way": "{way}", "left": "{left}", "accuracy": "{accuracy:.1%}", "agrees": "{agrees:.1%}",
        "cosine": "{cosine:.3f}",
    }
)  # fmt: skip
def fewer_tokens(
    sheet: Sheet,
    dataset: HeadedData,
    share: Annotated[float, typer.Option(help="Of each class's held-out images.")] = 1.0,
    seed: Seed = 0,
) -> None:
    """Merge or drop tokens of the pretrained model, untrained for it, and say what it still reads.

    The cosine is that of the last class token to that of the whole model.
    """
    subject = f"{BODY}-{dataset}"
    sheet.expect(subject)
    loaded = load_pretrained(BODY, head=dataset)
    model, (size, _) = loaded.model, loaded.model.tokenizer.image_size
    split = datasets.held_out_split(dataset)
    test = datasets.take_share(datasets.load(dataset, split, image_size=size), share)
    batches = [loaded.normalize(each) for each in test.images.split(BATCH)]
    timed = batches[0][:TIMED]

    def run(fewer: Fewer, r: int) -> tuple[Tensor, Tensor, int]:
        torch.manual_seed(seed)
        found = [with_fewer(model, batch, fewer, r) for batch in batches]
        logits = torch.cat([answers(model, *each) for each in found])
        return logits, torch.cat([tokens[:, 0] for tokens, _ in found]), found[0][0].shape[1]

    logits, summary, left = run(drop_any, 0)
    whole = {"way": "whole", "r": 0, "left": left, "agrees": 1.0, "cosine": 1.0, "speed": None}
    whole["accuracy"] = accuracy_interval(logits, test.labels)
    whole["macs"] = count_macs(model, timed[:1])

    def row(way: str, r: int) -> dict:
        others, other_summary, left = run(WAYS[way], r)
        less = partial(with_fewer, model, timed, WAYS[way], r)
        speed = None
        if WAYS[way] is merge_alike:
            ratio = compare_speed(less, partial(model.features, timed), PAIRS)
            speed = [round(each, 3) for each in (ratio.median, ratio.low, ratio.high)]
        return {
            "way": way, "r": r, "left": left,
            "accuracy": accuracy_interval(others, test.labels),
            "agrees": round((others.argmax(1) == logits.argmax(1)).float().mean().item(), 4),
            "cosine": round(F.cosine_similarity(other_summary, summary).mean().item(), 4),
            "macs": count_step_macs(less) // len(timed), "speed": speed,
        }  # fmt: skip

    asked = [(way, r) for r in FEWER for way in WAYS]
    rows = [whole, *(sheet.once(f"{way} {r}", row, way, r) for way, r in asked)]
    settings = {
        "dataset": test.provenance["name"], "split": split, "images": len(test),
        "weights": loaded.provenance["digest"], "image_size": size, "share": share, "seed": seed,
        "r": "tokens less behind the attention of each of 12 blocks; 0 is the whole model",
        "agrees": "answers that are those of the whole model", "interval": "Wilson, 95 %",
        "speed": f"over the whole model, {TIMED} images, {PAIRS} interleaved pairs",
        "macs": "of the body, the matching among them",
    }  # fmt: skip
    sheet.write(subject, settings, rows)
