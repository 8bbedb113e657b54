"""The chapter's sentences follow its rows, and its facts are those of timm's models."""

from dataclasses import asdict, replace
from functools import cache

import pytest
import timm
import torch
from scipy.stats import t

from vitbook import runs
from vitbook.layers import QKNormSelfAttention, SelfAttention
from vitbook.measure import count_parameters
from vitbook.studies import modern as study
from vitbook.studies.modern.measured import HEADS
from vitbook.studies.modern.results import ROLES
from vitbook.studies.modern.works import PUBLISHED
from vitbook.training.engine.muon import nearly_orthogonal

CHANGES = tuple(ROLES)[1:]
some = cache(lambda: runs.read(dataset="cifar10")[0])


def rows(seeds=1, **gaps):
    """A row for each planned run of the first seeds: plain has 60, 60.4, 60.8 %, others more."""
    asked = runs.get_experiment("modern")
    return [
        replace(
            some(), model=run.model, recipe=asdict(run.recipe), seed=run.seed, experiment="modern",
            accuracy=(60 + 0.4 * run.seed + gaps.get(role, 0)) / 100, definition=run.digest,
            probes=[], share=1.0, share_seed=0,
        )
        for role, planned in asked.roles.items() for run in planned if run.seed < seeds
    ]  # fmt: skip


def test_every_role_finds_its_own_rows_and_no_other():
    found = study.trained(rows(3))
    assert {len(each) for each in found.values()} == {3} and set(found) == set(ROLES)
    assert all(row.recipe["optimizer"] == "muon" for row in found["Muon"] + found["modern"])
    assert len({row.definition for each in found.values() for row in each}) == 36


def test_without_rows_it_says_so_and_draws_so():
    found = study.trained([])
    assert study.seeds_told(found) == "no run yet" and "not run" in repr(study.drawn(found))
    assert {line["accuracy, %"] for line in study.side_by_side(found)} == {"not run"}
    assert "can be compared yet" in study.told(found) and "yet" in study.together_told(found)


def test_single_runs_show_and_decide_nothing():
    found = study.trained(rows(1, RoPE=5, RMSNorm=-4))
    assert study.seeds_told(found) == "one seed each"
    told = study.told(found)
    assert "decide nothing" in told and "RoPE (+5.0)" in told and "RMSNorm (−4.0)" in told
    assert "7 of 9 lie within" in told and "±1.4 points" in study.spread_told(found)
    assert "±" not in study.side_by_side(found)[0]["accuracy, %"]
    two = {
        role: some if role in ("plain", "RoPE") else type(some)() for role, some in found.items()
    }
    assert "plain, once: RoPE, +5.0 points" in study.told(two)


def test_three_seeds_are_corrected_together():
    found = study.trained(rows(3, RoPE=5, RMSNorm=-4, Muon=0.9))
    told = study.told(found)
    assert study.seeds_told(found) == "3 seeds each" and "Holm over 11 comparisons" in told
    assert told == (
        "By Holm over 11 comparisons, above plain: RoPE; below plain: RMSNorm; not told apart from "
        "plain: LayerScale, QK-norm, SwiGLU, registers, no class token, patch dropout, Muon."
    )
    assert study.side_by_side(found)[0]["accuracy, %"] == "60.4 ± 0.4"
    few = study.trained(
        [row for row in rows(3) if row.seed == 0 or row.model == "vit_mini_patch4_32"]
    )
    assert study.seeds_told(few) == "1 to 3 seeds each" and "Single runs, which" in study.told(few)


def test_the_sum_of_the_parts_is_that_of_the_seven_parts_of_the_model():
    gaps = {"LayerScale": 1, "QK-norm": 2, "RoPE": 3, "patch dropout": 30, "Muon": 30}
    told = study.together_told(study.trained(rows(1, modern=9, **gaps, **{"modern, AdamW": 4})))
    assert "by +4.0 points" in told and "add up to +6.0. With Muon the difference is +9.0" in told
    # Eight rows of variance 0.16 over three seeds, and six times plain's.
    told = study.together_told(study.trained(rows(3, modern=9, **gaps, **{"modern, AdamW": 4})))
    terms = [0.16 / 3] * 8 + [36 * 0.16 / 3]
    half = t.ppf(0.975, sum(terms) ** 2 / sum(each**2 / 2 for each in terms)) * sum(terms) ** 0.5
    assert f"which leaves −2.0 (−{2 + half:.1f} to +{half - 2:.1f}). With Muon" in told


def test_the_steps_were_measured_of_every_row():
    steps = study.step_costs()
    assert set(steps) == set(ROLES) and steps["plain"] == [1, 1, 1]
    assert all(low <= middle <= high for middle, low, high in steps.values())
    assert study.counts("SwiGLU")[0] - study.counts("plain")[0] == 6 * (2 * 128 - 192)


@cache
def built(name):
    with torch.device("meta"):
        return timm.create_model(name)


@pytest.mark.parametrize(
    ("told", "name"), [(told, name) for told, each in PUBLISHED.items() for name in each.timm]
)
def test_the_parts_of_published_models_are_those_of_timm(told, name):
    model = built(name)
    block, attention = model.blocks[0], model.blocks[0].attn
    scaled = type(getattr(block, "ls1", None)).__name__ == "LayerScale" or (
        getattr(block, "gamma_1", None) is not None
    )
    table, turned = getattr(model, "pos_embed", None), getattr(model, "rope", None)
    registers = getattr(model, "reg_token", None)
    assert registers is None or registers.shape[1] == 4
    pooled = "attention pool" if getattr(model, "attn_pool", None) is not None else "mean"
    found = {
        "norm": {"LayerNorm": "LayerNorm", "RmsNorm": "RMSNorm"}[type(block.norm1).__name__],
        "attention": "attention" if type(attention.q_norm).__name__ == "Identity" else "QK-norm",
        "mlp": {"Mlp": "GELU", "GluMlp": "SwiGLU", "SwiGLU": "SwiGLU"}[type(block.mlp).__name__],
        "branch": "LayerScale" if scaled else "as it is",
        "position": "table" if turned is None else "RoPE" if table is None else "table and RoPE",
        "registers": "none" if registers is None else "four",
        "summary": pooled if getattr(model, "cls_token", None) is None else "class token",
    }
    first = {"norm": "LayerNorm", "attention": "attention", "mlp": "GELU", "branch": "as it is",
             "position": "table", "registers": "none", "summary": "class token"}  # fmt: skip
    assert {part: option for part, option in found.items() if option != first[part]} == (
        PUBLISHED[told].swapped
    )


def test_the_row_with_all_changes_has_the_parts_that_the_figure_gives_it():
    from vitbook import create_model

    model = create_model("vit_modern_mini_patch4_32")
    block = model.encoder.blocks[0]
    names = [type(part).__name__ for part in (block, block.norm1, block.attention, block.mlp,
             block.attention.position, model.position, model.head)]  # fmt: skip
    assert names == ["LayerScaleBlock", "RMSNorm", "QKNormSelfAttention", "SwiGLU",
                     "RotaryPosition2D", "NoPosition", "MeanPoolHead"]  # fmt: skip
    assert model.num_prefix_tokens == 4 and count_parameters(model) == study.counts("modern")[0]


def test_written_out_is_the_fused_kernels_sum():
    q, k, v = torch.randn(3, 2, 3, 7, 8, dtype=torch.float64)
    fused = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert torch.allclose(study.written_out(q, k, v), fused)


def test_laws_that_the_chapter_does_by_hand():
    steps = nearly_orthogonal(torch.tensor([[[3.0, 1.0], [1.0, 3.0]]]))[0]
    assert torch.linalg.svdvals(steps).min() > 0.6 and torch.linalg.svdvals(steps).max() < 1.3
    tokens = 100 * torch.randn(2, 9, 64)
    largest = []
    for kind in (SelfAttention, QKNormSelfAttention):
        q, k, _ = (attention := kind(64, 4)).heads(attention.qkv(tokens))
        largest.append((q @ k.mT).abs().max().item() / 4)
    assert largest[1] <= 4 + 1e-4 < largest[0]


def test_a_step_is_told_by_its_directions():
    """AdamW brings each weight to one size: of a diagonal, each direction."""
    mean = torch.diag(torch.tensor([4.0, 2.0, 1.0]))
    lengths = study.step_lengths({"exp_avg": mean, "exp_avg_sq": mean**2})
    assert torch.allclose(lengths["averaged gradient"], torch.tensor([1, 0.5, 0.25]))
    assert torch.allclose(lengths["AdamW"], torch.ones(3)) and lengths["Muon"].min() > 0.6
    alike = torch.ones(3, 3) + mean
    lengths = study.step_lengths({"exp_avg": alike, "exp_avg_sq": alike**2})
    assert lengths["AdamW"][1] < 1e-3 < 0.5 < lengths["Muon"][1]


def test_the_evidence_has_what_was_measured_and_what_is_missing():
    evidence = study.evidence()
    assert [table.title for table in evidence.tables] == [
        "A training step", "Attention, fused and written out", "The model compiled"]  # fmt: skip
    assert len(evidence.claims) + len({line["model"] for line in evidence.not_run}) > 0


def test_the_measurement_writes_a_row_of_each_kind(monkeypatch, tmp_path):
    from vitbook.studies.modern import measured

    few = {role: ROLES[role] for role in ("plain", "Muon")}
    monkeypatch.setattr(measured, "ROLES", few)
    monkeypatch.setattr(measured, "TOKENS", (16, 32))
    monkeypatch.setattr(measured, "BATCH", 2)
    forward = {"what": "forward", "faster": [1.0] * 3}
    monkeypatch.setattr(measured, "_compiled", lambda *_: [forward])  # it takes a minute
    costs, fused, _ = measured.modern_costs(rounds=2, threads=1, device="cpu", out=tmp_path)
    assert [row["role"] for row in costs.rows] == ["plain", "Muon"]
    assert costs.rows[0]["step"] == [1, 1, 1] and costs.settings["rounds"] == 2
    scores = 4 * HEADS[0] * HEADS[1] * 32**2 / 1e6
    assert fused.rows[1]["apart"] < 1e-5 and fused.rows[1]["written_out_mb"] > scores
    assert fused.rows[1]["fused_mb"] < fused.rows[1]["written_out_mb"]
    assert {path.suffix for path in tmp_path.iterdir()} == {".json"}
