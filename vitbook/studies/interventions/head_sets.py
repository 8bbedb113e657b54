"""Sets of heads ablated: those of a kind, as many others of the same layers, and single ones."""

from collections.abc import Sequence
from itertools import combinations, product
from math import comb, prod

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from tqdm import tqdm

from vitbook.analysis import bootstrap_interval
from vitbook.models import VisionTransformer
from vitbook.studies.interventions.heads import Head, ablate_heads
from vitbook.studies.interventions.kinds import HeadKinds

KINDS = ("idle", "near", "offset", "content")  # that are compared with other heads
_AT_ONCE = 8
Outcome = tuple[Float[Tensor, "images"], Bool[Tensor, "images"]]


def answers_from(
    model: VisionTransformer, tokens: Float[Tensor, "batch tokens width"], first: int
) -> Float[Tensor, "batch classes"]:
    """Logits of tokens in front of block ``first``, from 0; as many as there are: behind all."""
    for block in model.encoder.blocks[first:]:
        tokens = block(tokens)
    return model.head(model.encoder.norm(tokens))


class Trial:
    """A classifier on photographs, run with and without heads.

    A set of heads runs from its first layer on, from the tokens of the intact model.

    Attributes:
        intact: the score of each photograph (the logit of its class less the mean over classes)
            and whether the answer was right.
    """

    def __init__(
        self,
        model: VisionTransformer,
        images: Float[Tensor, "images channels height width"],
        labels: Int64[Tensor, "images"],
        means: Sequence[Tensor] | None,
    ):
        self.model, self.images, self.labels, self.means = model, images, labels, means
        self._known: dict[frozenset[Head], Outcome] = {}
        self.run([()])
        self.intact = self.outcome(())

    @torch.no_grad()
    def run(self, sets: Sequence[Sequence[Head]]) -> None:
        """Ablate each set that was not run before."""
        new = {frozenset(heads) for heads in sets} - self._known.keys()
        by_first: dict[int, list[frozenset[Head]]] = {}
        for heads in sorted(new, key=sorted):
            by_first.setdefault(min((layer for layer, _ in heads), default=0), []).append(heads)
        found: dict[frozenset[Head], list[Tensor]] = {heads: [] for heads in new}
        device = next(self.model.parameters()).device
        with tqdm(total=len(new) * len(self.images), unit="forward", mininterval=10) as bar:
            for batch in self.images.split(_AT_ONCE):
                tokens = self.model.embed(batch.to(device))
                for first, block in enumerate(self.model.encoder.blocks):
                    for heads in by_first.get(first, ()):
                        with ablate_heads(self.model, heads, self.means):
                            found[heads].append(answers_from(self.model, tokens, first).cpu())
                        bar.update(len(batch))
                    tokens = block(tokens)
        for heads, logits in found.items():
            self._known[heads] = self._score(torch.cat(logits))

    def outcome(self, heads: Sequence[Head]) -> Outcome:
        return self._known[frozenset(heads)]

    def drop(self, heads: Sequence[Head]) -> Float[Tensor, "images"]:
        return self.intact[0] - self.outcome(heads)[0]

    def accuracy(self, heads: Sequence[Head]) -> float:
        return self.outcome(heads)[1].float().mean().item()

    def _score(self, logits: Tensor) -> Outcome:
        if not logits.isfinite().all():
            raise ValueError("the logits hold NaN or infinity: look for it in images or weights")
        own = logits.gather(1, self.labels[:, None])[:, 0]
        return own - logits.mean(1), logits.argmax(1) == self.labels


def single_heads(trial: Trial, kinds: HeadKinds) -> tuple[dict[Head, Tensor], list[dict]]:
    """The drop of each photograph without each head alone; and a line for each head."""
    heads = [(layer, head) for layer, names in enumerate(kinds.names) for head in range(len(names))]
    trial.run([[head] for head in heads])
    rows = [
        {
            "layer": layer + 1, "head": head + 1, "kind": kinds.names[layer][head],
            "drop": interval_of(trial.drop([(layer, head)])),
            "accuracy": round(trial.accuracy([(layer, head)]), 4),
        } | {
            name: round(getattr(kinds, name)[layer, head].item(), 4)
            for name in ("one_token", "reach", "offset", "content")
        }
        for layer, head in heads
    ]  # fmt: skip
    return {head: trial.drop([head]) for head in heads}, rows


def compare_kinds(
    trial: Trial,
    kinds: HeadKinds,
    alone: dict[Head, Tensor],
    draws: int,
    seed: int,
) -> list[dict]:
    """A line for each kind: all its heads gone, beside random heads of the same layers.

    A layer that has fewer heads of other kinds than of this one is left out of the comparison on
    both sides; ``left_out`` names it. Numbers with an interval are [mean, low, high] over
    photographs, in the units of the score, and None where the model has no such heads.
    """
    sets: dict[str, tuple[list[Head], list[list[Head]]]] = {}
    for kind in KINDS:
        compared = comparable(kinds, kind)
        sets[kind] = compared, random_sets(kinds, kind, compared, draws, seed)
    trial.run([each for compared, others in sets.values() for each in (compared, *others)])
    trial.run([kinds.of(kind) for kind in KINDS])
    rows = []
    for kind, (compared, others) in sets.items():
        every = kinds.of(kind)
        lead = alone_lead = random = single = None
        if compared:
            random = torch.stack([trial.drop(heads) for heads in others]).mean(0)
            lead = trial.drop(compared) - random
            alone_lead = torch.stack(
                [
                    alone[layer, head] - _others_alone(kinds, kind, alone, layer)
                    for layer, head in compared
                ]
            ).mean(0)
        if every:
            single = torch.stack([alone[head] for head in every]).mean(0)
        rows.append({
            "kind": kind,
            "heads": [[layer + 1, head + 1] for layer, head in every],
            "drop": interval_of(trial.drop(every)) if every else None,
            "accuracy": round(trial.accuracy(every), 4),
            "compared": [[layer + 1, head + 1] for layer, head in compared],
            "left_out": sorted({layer + 1 for layer, _ in set(every) - set(compared)}),
            "compared_drop": interval_of(trial.drop(compared)) if compared else None,
            "compared_accuracy": round(trial.accuracy(compared), 4),
            "random_drop": interval_of(random),
            "random_drops": [round(trial.drop(heads).mean().item(), 4) for heads in others],
            "random_accuracy": [round(trial.accuracy(heads), 4) for heads in others],
            "lead": interval_of(lead),
            "alone": interval_of(single),
            "alone_lead": interval_of(alone_lead),
        })  # fmt: skip
    return rows


def comparable(kinds: HeadKinds, kind: str) -> list[Head]:
    """The heads of a kind in the layers that have at least as many of other kinds."""
    enough = [2 * names.count(kind) <= len(names) for names in kinds.names]
    return [(layer, head) for layer, head in kinds.of(kind) if enough[layer]]


def random_sets(
    kinds: HeadKinds, kind: str, heads: list[Head], draws: int, seed: int
) -> list[list[Head]]:
    """As many heads of other kinds in each layer; different sets, or all where they are few."""
    if not heads:
        return []
    layers = sorted({layer for layer, _ in heads})
    counts = [sum(layer == each for each, _ in heads) for layer in layers]
    pools = [
        [(layer, head) for head, name in enumerate(kinds.names[layer]) if name != kind]
        for layer in layers
    ]
    if prod(map(comb, map(len, pools), counts)) <= draws:
        each = product(*(combinations(*pair) for pair in zip(pools, counts, strict=True)))
        return [[head for part in parts for head in part] for parts in each]
    found: dict[frozenset[Head], list[Head]] = {}
    generator = torch.Generator().manual_seed(seed)
    while len(found) < draws:
        drawn = [
            pool[place]
            for pool, count in zip(pools, counts, strict=True)
            for place in torch.randperm(len(pool), generator=generator)[:count].tolist()
        ]
        found[frozenset(drawn)] = drawn
    return list(found.values())


def interval_of(values: Tensor | None) -> list[float] | None:
    """Mean over photographs, low and high."""
    if values is None:
        return None
    found = bootstrap_interval(values)
    return [round(number, 4) for number in (found.mean, found.low, found.high)]


def _others_alone(kinds: HeadKinds, kind: str, alone: dict[Head, Tensor], layer: int) -> Tensor:
    names = kinds.names[layer]
    return torch.stack([alone[layer, h] for h, name in enumerate(names) if name != kind]).mean(0)
