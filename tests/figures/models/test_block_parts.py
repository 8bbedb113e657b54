"""What the page counts is what is counted on the real network, the house's and timm's."""

from functools import cache, partial
from inspect import unwrap
from itertools import pairwise

import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import computed, press, reached, said, state, terms

from vitbook.errors import UnknownNameError
from vitbook.figures import block_parts
from vitbook.figures.block_parts import PARTS, SIZES, count, numbers
from vitbook.layers import (
    MLP,
    ClassTokenHead,
    EncoderBlock,
    LayerScaleBlock,
    LearnedPosition,
    MeanPoolHead,
    NoPosition,
    QKNormSelfAttention,
    RMSNorm,
    RotaryPosition2D,
    RotarySelfAttention,
    SelfAttention,
    SwiGLU,
)
from vitbook.layers.normalization import layer_norm
from vitbook.measure import count_macs, count_parameters
from vitbook.models.papers.vit import SIZES as BODIES
from vitbook.models.papers.vit import vit

LS = {"branch": "LayerScale"}
MODELS = {"ViT-B, 2020": {}, "DeiT III-B, 2022": LS, "RoPE-ViT-B, 2024": LS | {"position": "RoPE"},
          "SigLIP-B, 2023": {"summary": "attention pool"}}  # fmt: skip
SETS = st.fixed_dictionaries({p: st.integers(0, len(o) - 1) for p, o in PARTS.items()})


@cache
def sample():
    return block_parts(MODELS, goal="RoPE-ViT-B, 2024")


@cache
def _real(*has):
    has = dict(zip(PARTS, has, strict=True))
    norm = RMSNorm if has["norm"] else layer_norm
    prefix = (has["summary"] == 0) + 4 * has["registers"]
    attention = QKNormSelfAttention if has["attention"] else SelfAttention
    if has["position"]:
        turned = RotaryPosition2D((14, 14), 64, prefix).to("meta")
        attention = partial(attention if has["attention"] else RotarySelfAttention, position=turned)
    block = LayerScaleBlock if has["branch"] else EncoderBlock
    head = (
        ClassTokenHead if has["summary"] == 0 else partial(MeanPoolHead, num_prefix_tokens=prefix)
    )
    with torch.device("meta"):
        model = vit(
            image_size=224, patch_size=16, num_classes=1000, body=BODIES["base"],
            num_prefix_tokens=prefix, make_norm=norm, make_attention=attention, make_head=head,
            make_block=partial(block, make_norm=norm), make_mlp=SwiGLU if has["mlp"] else MLP,
            make_position=NoPosition if has["position"] == 1 else LearnedPosition,
        ).eval()  # fmt: skip
        whole = count_parameters(model), count_macs(model, torch.zeros(1, 3, 224, 224))
        one = model.encoder.blocks[0]
        tokens = torch.zeros(1, 196 + prefix, 768)
        return (count_parameters(one), count_macs(one, tokens)), whole


def real(has):
    return _real(*(has[part] for part in PARTS))


@settings(deadline=None, max_examples=5)
@given(SETS.filter(lambda has: has["summary"] < 2))
def test_a_count_is_that_of_the_network_of_these_parts(has):
    block, model = real(has)
    assert count(has) == {"block": block, "model": model}


def test_an_attention_pool_counts_as_timms():
    with torch.device("meta"):
        model = timm.create_model("vit_base_patch16_siglip_224", num_classes=1000).eval()
        model.requires_grad_(False)  # else the counter looks for gradients of its query
        macs = count_macs(model, torch.zeros(1, 3, 224, 224))
    has = numbers({"summary": "attention pool"})
    assert count(has)["model"] == (count_parameters(model), macs)


@settings(deadline=None, max_examples=25)
@given(SETS)
def test_node_counts_as_python(js, has):
    found = js("block_parts", "count(has, sizes)", has=has, sizes=SIZES | {"registers": 4})
    assert {name: tuple(each) for name, each in found.items()} == count(has)


def test_pressing_parts_reaches_the_goal_and_tells_the_nearest(page):
    assert terms(page)[0] == f"{real(numbers({}))[0][0] / 1e6:.2f} M" and not reached(page)
    assert "ViT-B, 2020: the block of 2020" in said(page)
    assert set(page.locator("small").all_inner_texts()) == {"", "these parts"}
    page.click("[data-control=branch]")
    assert "DeiT III-B, 2022: 1 swap from" in said(page) and not reached(page)
    page.click("[data-control=position]")
    assert reached(page) and "2 swaps" in said(page)
    assert tuple(computed(page, "model")) == real(numbers(MODELS["RoPE-ViT-B, 2024"]))[1]
    page.click("[data-control=norm-3]")
    assert "No model of the list" in said(page) and "RoPE-ViT-B, 2024; swap norm." in said(page)


def test_the_keyboard_swaps_and_walks_the_models(page):
    press(page, "mlp", "Enter")
    assert "mlp=1" in state(page)
    press(page, "published", "ArrowRight", "ArrowRight")
    assert "RoPE-ViT-B, 2024" in said(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_what_it_refuses():
    with pytest.raises(UnknownNameError, match="part"):
        block_parts({"a": {"head": "mean"}})
    with pytest.raises(UnknownNameError, match="norm"):
        block_parts({"a": {"norm": "BatchNorm"}})
    with pytest.raises(UnknownNameError, match="model"):
        block_parts({"a": {}}, goal="b")
    with pytest.raises(ValueError, match="two have the same parts"):
        block_parts({"a": {}, "b": {"norm": "LayerNorm"}})
    for models in ({}, {"a": ["norm"]}):
        with pytest.raises(ValueError, match="expected a name or more, each with a mapping"):
            unwrap(block_parts)(models)


def test_every_swap_but_these_costs_parameters():
    plain = count(numbers({}))["model"][0]
    less = {(part, option) for part, options in PARTS.items() for option in options[1:]
            if count(numbers({part: option}))["model"][0] < plain}  # fmt: skip
    assert less == {("norm", "RMSNorm"), ("position", "RoPE"), ("summary", "mean")}
    gated = count(numbers({"mlp": "SwiGLU"}))["block"][0] - count(numbers({}))["block"][0]
    assert gated == 2 * 2048 - 3072, "the matrices are as many, the biases differ"
    assert all(one != other for one, other in pairwise(MODELS.values()))
