"""Muon beside AdamW: which weights each moves, and how."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn

import vitbook
from vitbook.runs import Recipe
from vitbook.training.engine.muon import Muon, SideBySide, matrices_of_blocks, nearly_orthogonal
from vitbook.training.engine.optimization import make_optimizer

RECIPE = Recipe(
    name="muon", epochs=1, batch_size=4, learning_rate=0.01, optimizer="muon", momentum=0.95,
    weight_decay=0.1,
)  # fmt: skip


def micro():
    torch.manual_seed(0)
    return vitbook.create_model("vit_micro_patch2_8")


def test_matrices_of_the_blocks_and_no_others():
    model = micro()
    of_blocks = matrices_of_blocks(model)
    chosen = {name for name, weight in model.named_parameters() if weight in of_blocks}
    layers = ("attention.qkv", "attention.projection", "mlp.expand", "mlp.contract")
    assert chosen == {f"encoder.blocks.{n}.{layer}.weight" for n in range(4) for layer in layers}
    muon, adamw = make_optimizer(model, RECIPE).optimizers
    assert {w for group in muon.param_groups for w in group["params"]} == of_blocks
    rest = {w for group in adamw.param_groups for w in group["params"]}
    assert rest == set(model.parameters()) - of_blocks


@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (1, 4), (6, 6)])
def test_singular_values_come_near_one_and_directions_stay(shape):
    torch.manual_seed(0)
    u, _, v = torch.linalg.svd(torch.randn(3, *shape), full_matrices=False)
    values = torch.linspace(0.2, 3, min(shape))
    found = nearly_orthogonal(u * values @ v)
    lengths = u.mT @ found @ v.mT
    diagonal = lengths.diagonal(dim1=1, dim2=2)
    assert diagonal.min() > 0.65 and diagonal.max() < 1.25
    assert (lengths - diagonal.diag_embed()).abs().max() < 1e-4
    assert torch.allclose(nearly_orthogonal(1000 * u * values @ v), found, atol=1e-4)
    assert torch.equal(nearly_orthogonal(torch.zeros(1, *shape)), torch.zeros(1, *shape))


@pytest.mark.parametrize(
    ("kind", "size"), [("float16", 1e4), ("float32", 1e20), ("float32", 1e-12), ("float32", 1e-30)]
)
def test_neither_large_nor_small_entries_are_lost(kind, size):
    torch.manual_seed(0)
    found = nearly_orthogonal((torch.randn(1, 16, 48) * size).to(getattr(torch, kind)))
    values = torch.linalg.svdvals(found.float())
    assert values.min() > 0.6 and values.max() < 1.3


@pytest.mark.parametrize("classes", [0, 10])
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_base_patch16_siglip_224"])
def test_the_last_block_is_one_without_a_head_too(name, classes):
    with torch.device("meta"):
        model = pytest.importorskip("timm").create_model(name, num_classes=classes)
    of_blocks = matrices_of_blocks(model)
    chosen = [name for name, weight in model.named_parameters() if weight in of_blocks]
    assert len(chosen) == 48 and all(name.startswith("blocks.") for name in chosen)


def test_blocks_with_nothing_behind_are_all_blocks():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4)) for _ in range(3)))
    assert matrices_of_blocks(model) == {block[0].weight for block in model}


def test_one_number_by_hand():
    """A matrix of one row and column is its sign, five times through the polynomial from 1."""
    expected = 1.0
    for _ in range(5):
        expected = 3.4445 * expected - 4.775 * expected**3 + 2.0315 * expected**5
    weight = nn.Parameter(torch.tensor([[2.0]]))
    weight.grad = torch.tensor([[-7.0]])
    Muon([{"params": [weight], "weight_decay": 0.5}], lr=0.1, momentum=0.9).step()
    assert weight.item() == pytest.approx(2 * (1 - 0.1 * 0.5) + 0.2 * 0.1 * expected, rel=1e-5)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch before 2.9")
def test_equals_torchs_within_bfloat16():
    ours, theirs = micro(), micro()
    mine = Muon([{"params": list(matrices_of_blocks(ours)), "weight_decay": 0.1}], 0.01, 0.95)
    other = torch.optim.Muon(
        list(matrices_of_blocks(theirs)),
        lr=0.01, momentum=0.95, weight_decay=0.1, adjust_lr_fn="match_rms_adamw",
    )  # fmt: skip
    names = [name for name, weight in ours.named_parameters() if weight in matrices_of_blocks(ours)]
    pairs = [(ours.get_parameter(name), theirs.get_parameter(name)) for name in names]
    for _ in range(3):
        before = [one.detach().clone() for one, _ in pairs]
        for one, twin in pairs:
            one.grad = torch.randn_like(one)
            twin.grad = one.grad.clone()
        mine.step()
        other.step()
        for old, (one, twin) in zip(before, pairs, strict=True):
            assert (one - twin).norm() < 0.05 * (one - old).norm()


def test_the_rest_steps_as_with_adamw_alone():
    ours, theirs = micro(), micro()
    for model, recipe in ((ours, RECIPE), (theirs, replace(RECIPE, optimizer="adamw"))):
        optimizer = make_optimizer(model, recipe)
        torch.manual_seed(1)
        for weight in model.parameters():
            weight.grad = torch.randn_like(weight)
        optimizer.step()
    blocks = {name for name, w in ours.named_parameters() if w in matrices_of_blocks(ours)}
    for (name, one), (_, other) in zip(
        ours.named_parameters(), theirs.named_parameters(), strict=True
    ):
        assert torch.equal(one, other) == (name not in blocks), name


def test_the_state_of_both_comes_back():
    def stepped(optimizer, model, seed):
        torch.manual_seed(seed)
        for weight in model.parameters():
            weight.grad = torch.randn_like(weight)
        optimizer.step()

    one, other = micro(), micro()
    first = make_optimizer(one, RECIPE)
    stepped(first, one, 1)
    kept = deepcopy(first.state_dict())
    places = [index for group in kept["param_groups"] for index in group["params"]]
    assert places == list(range(len(list(one.parameters())))) and set(kept["state"]) == set(places)
    other.load_state_dict(one.state_dict())
    second = make_optimizer(other, RECIPE)
    second.load_state_dict(kept)
    for optimizer, model in ((first, one), (second, other)):
        stepped(optimizer, model, 2)
    assert all(map(torch.equal, one.parameters(), other.parameters()))


@pytest.mark.parametrize("other", [{"blocks": 2}, {"width": 32}])
def test_the_state_of_another_model_is_refused(other):
    def made(width=64, blocks=4):
        rows = [nn.TransformerEncoderLayer(width, 2, 64, batch_first=True) for _ in range(blocks)]
        model = nn.Sequential(nn.Linear(4, width), nn.Sequential(*rows), nn.Linear(width, 2))
        optimizer = make_optimizer(model, RECIPE)
        for weight in model.parameters():
            weight.grad = torch.ones_like(weight)
        optimizer.step()
        return optimizer

    made().load_state_dict(made().state_dict())
    with pytest.raises(ValueError, match="expected that of a model with the same parameters"):
        made().load_state_dict(made(**other).state_dict())


def test_the_rate_of_a_group_reaches_both():
    optimizer = make_optimizer(micro(), RECIPE)
    for group in optimizer.param_groups:
        group["lr"] = 0.5 * group["rate"]
    assert isinstance(optimizer, SideBySide)
    assert all(g["lr"] == 0.5 for each in optimizer.optimizers for g in each.param_groups)


def test_models_without_blocks_are_refused():
    with pytest.raises(ValueError, match="'muon' for a Linear: expected a model with encoder.blo"):
        make_optimizer(nn.Linear(2, 2), RECIPE)
    frozen = micro()
    frozen.encoder.requires_grad_(False)
    with pytest.raises(ValueError, match="whose linear layers learn; use 'adamw'"):
        make_optimizer(frozen, RECIPE)
