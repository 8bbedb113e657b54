"""From how many tokens on a cheaper attention is cheaper: `make bench`.

One self-attention layer, projections included, on one picture of n tokens on a square grid, in
evaluation: softmax attention (fused) against each of the others, pair by pair. Width 192 with 3
heads of 64 is ViT-Ti's; 64 is the width of a head in every size of the paper up to ViT-L, and what
Performer's features are counted for. Axial attention is timed as its pair, rows and columns,
without the MLPs: one alone does not reach every token. Blocks are of 8x8 tokens.

    PAIRS=5 TOKENS=64,1024 python -m pytest -o addopts= tests/benchmarks/bench_efficient.py -s

PAIRS (20), TOKENS (64 to 16,384) and DEVICE (the GPU if there is one) are taken from the
environment; with RESULTS=file.json the ratios are kept there.
"""

import json
import os
from dataclasses import asdict
from math import exp, isqrt, log
from pathlib import Path

import pytest
import torch
from torch import nn

from vitbook import runs
from vitbook.devices import choose_device
from vitbook.layers import (
    AxialSelfAttention,
    BlockLocalSelfAttention,
    LinformerSelfAttention,
    PerformerSelfAttention,
    SelfAttention,
)
from vitbook.measure import compare_speed

WIDTH, HEADS, BLOCK = 192, 3, 8
PAIRS = int(os.environ.get("PAIRS", 20))
TOKENS = [int(n) for n in os.environ.get("TOKENS", "64,256,1024,4096,16384").split(",")]
DEVICE = choose_device(os.environ.get("DEVICE") or None)


def linformer(num_keys):
    def make(n):
        if n <= num_keys:
            return None
        return LinformerSelfAttention(WIDTH, HEADS, num_tokens=n, num_keys=num_keys)

    return make


def axial(n):
    grid = (isqrt(n), isqrt(n))
    return nn.Sequential(
        *(
            AxialSelfAttention(WIDTH, HEADS, grid_size=grid, along=along)
            for along in ("rows", "columns")
        )
    )


def block_local(n):
    grid = (isqrt(n), isqrt(n))
    return BlockLocalSelfAttention(WIDTH, HEADS, grid_size=grid, block_size=BLOCK)


# None where a layer has no meaning for so few tokens.
OTHERS = {
    "performer": lambda n: PerformerSelfAttention(WIDTH, HEADS),
    "linformer_64": linformer(64),
    "linformer_256": linformer(256),
    "axial": axial,
    "block_local": block_local,
}


def crossing(speeds: dict[int, float]) -> float | None:
    """Tokens from which on the ratio stays above 1, on a straight line between logarithms."""
    tokens, below = sorted(speeds), [n for n in speeds if speeds[n] <= 1]
    if not below:
        return tokens[0]
    last = max(below)
    if last == tokens[-1]:
        return None
    then = tokens[tokens.index(last) + 1]
    share = -log(speeds[last]) / (log(speeds[then]) - log(speeds[last]))
    return exp(log(last) + share * (log(then) - log(last)))


def test_a_crossing_by_hand():
    assert crossing({64: 2.0, 256: 3.0}) == 64
    assert crossing({64: 0.5, 256: 0.9}) is None
    assert crossing({64: 0.5, 256: 2.0, 1024: 8.0}) == pytest.approx(128)
    assert crossing({64: 2.0, 256: 0.5, 1024: 2.0}) == pytest.approx(512)


@pytest.mark.parametrize("name", OTHERS)
@torch.inference_mode()
def test_against_softmax(name):
    assert all(isqrt(n) ** 2 == n and isqrt(n) % BLOCK == 0 for n in TOKENS), "squares of 8, 16..."
    ratios = {}
    for n in TOKENS:
        torch.manual_seed(0)
        softmax, other = SelfAttention(WIDTH, HEADS), OTHERS[name](n)
        if other is None:
            continue
        softmax, other = softmax.to(DEVICE).eval(), other.to(DEVICE).eval()
        tokens = torch.randn(1, n, WIDTH, device=DEVICE)
        ratios[n] = compare_speed(
            lambda other=other, x=tokens: other(x),
            lambda softmax=softmax, x=tokens: softmax(x),
            pairs=PAIRS,
        )
        print(f"\n{name}, {n} tokens: {ratios[n]} as fast as softmax", end="")
    if not ratios:
        pytest.skip(f"no number of tokens that {name} takes: give larger TOKENS")
    place = crossing({n: ratio.median for n, ratio in ratios.items()})
    where = {None: "nowhere", min(ratios): "everywhere"}.get(place) or f"from about {place:.0f} on"
    print(f"\n{name}: faster {where} ({DEVICE}, {torch.get_num_threads()} threads, batch 1)")
    keep(name, ratios, place)


def keep(name, ratios, place):
    if "RESULTS" not in os.environ:
        return
    path = Path(os.environ["RESULTS"])
    rows = json.loads(path.read_text()) if path.exists() else {}
    rows[name] = {
        "speed_against_softmax": {n: asdict(ratio) for n, ratio in ratios.items()},
        "crossing": place, "width": WIDTH, "heads": HEADS, "batch": 1,
        "threads": torch.get_num_threads(), "device": runs.device_name(DEVICE),
        "versions": runs.versions(), "commit": runs.commit(),
    }  # fmt: skip
    path.write_text(json.dumps(rows, indent=1))
