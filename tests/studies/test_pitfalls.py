import copy

import pytest
import timm
import torch
import torch.nn.functional as F
from einops import rearrange

from vitbook import analysis, create_model, runs
from vitbook.errors import UnknownNameError
from vitbook.layers import resize_positions
from vitbook.models import set_stochastic_depth
from vitbook.runs import get_recipe
from vitbook.studies.pitfalls import (
    FAULTS,
    about_digits,
    broken_laws,
    check_fault,
    claims,
    plant,
    test_vit,
)
from vitbook.training import CheckpointError, at_scale, run, save_checkpoint
from vitbook.training.engine.optimization import parameter_groups
from vitbook.training.faults import load_checkpoint

ACTING = [name for name in FAULTS if name not in ("decayed_positions", "unscaled_depth")]


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = create_model("vit_micro_patch2_8").eval()
    torch.nn.init.normal_(model.prefix)
    return model


@pytest.fixture
def images():
    return torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1


def with_fault(model, fault):
    twin = copy.deepcopy(model)
    plant(twin, fault)
    return twin


@pytest.mark.parametrize("fault", ACTING)
@torch.no_grad()
def test_a_fault_keeps_shapes_and_weights_and_changes_the_answer(fault, images):
    torch.manual_seed(0)
    model = create_model("spt_" * (fault == "axis_shifts") + "vit_micro_patch2_8").eval()
    twin = with_fault(model, fault)
    assert {k: v.tolist() for k, v in twin.state_dict().items()} == {
        k: v.tolist() for k, v in model.state_dict().items()
    }
    assert twin(images).shape == model(images).shape
    assert not torch.allclose(twin(images), model(images), atol=1e-4)
    copied = copy.deepcopy(twin)  # what a copy, such as a mean of the weights, does too
    assert torch.equal(copied(images), twin(images))


def test_depth_that_is_not_rescaled(model, images):
    set_stochastic_depth(model, 0.5)
    twin = with_fault(model, "unscaled_depth")
    assert torch.equal(twin(images), model(images))  # a fault of training alone
    right, wrong = (each.encoder.blocks[-1].drop_path.train() for each in (model, twin))
    drawn = []
    for part in (right, wrong):
        torch.manual_seed(0)
        drawn.append(part(torch.ones(4000, 1, 1)))
    assert set(drawn[0].unique().tolist()) == {0, 2} and torch.equal(drawn[0], 2 * drawn[1])
    assert drawn[0].mean() == pytest.approx(1, abs=0.06)


@torch.no_grad()
def test_tokens_of_strips_and_swapped_axes(model, images):
    tokens, cut = model.tokenizer(images), model.tokenizer.projection
    strips = with_fault(model, "strips").tokenizer(images)
    first = F.linear(images[:, 0, 0, :4], cut.weight.flatten(1), cut.bias)  # half of the top row
    assert torch.allclose(strips[:, 0], first, atol=1e-6)
    swapped = with_fault(model, "swapped_axes").tokenizer(images)
    assert torch.equal(swapped[:, 1], tokens[:, 4]) and torch.equal(swapped[:, 4], tokens[:, 1])
    assert torch.equal(swapped[:, 5], tokens[:, 5])


@torch.no_grad()
def test_other_statistics_and_early_positions(model, images):
    usual = ((images + 1) / 2 - 0.449) / 0.226
    other = with_fault(model, "other_statistics")
    assert torch.allclose(other.tokenizer(images), model.tokenizer(usual), atol=1e-5)
    early = with_fault(model, "early_positions").embed(images)
    assert torch.equal(early[0, 0], model.prefix[0])
    assert torch.equal(early[:, 1:], model.tokenizer(images) + model.position.table[:16])


@torch.no_grad()
def test_attention_by_loops(model):
    q, k, v = torch.randn(3, 2, 4, 17, 16, generator=torch.Generator().manual_seed(2))
    faults = ("query_softmax", "model_scale", "reshaped_heads")
    cores = {f: with_fault(model, f).encoder.blocks[0].attention.core for f in faults}
    weights = (q @ k.mT / 4).softmax(dim=-2)
    assert torch.allclose(cores["query_softmax"](q, k, v), weights @ v, atol=1e-5)
    half = F.scaled_dot_product_attention(q, k, v, scale=64**-0.5)
    assert torch.allclose(cores["model_scale"](q, k, v), half, atol=1e-5)
    flat = [rearrange(t, "b h n d -> b (n h d)").view(2, 4, 17, 16) for t in (q, k, v)]
    mixed = F.scaled_dot_product_attention(*flat).reshape(2, 17, 64)
    got = rearrange(cores["reshaped_heads"](q, k, v), "b h n d -> b n (h d)")
    assert torch.allclose(got, mixed, atol=1e-5)


@torch.no_grad()
def test_the_company_matters_when_the_batch_is_the_sequence(model, images):
    twin = with_fault(model, "batch_as_sequence")
    alone, company = (twin.features(some)[0] for some in (images[:1], images))
    assert torch.allclose(alone[0], company[0], atol=1e-4)  # class tokens are all alike
    assert not torch.allclose(alone[1:], company[1:], atol=1e-2)


@torch.no_grad()
def test_one_pixel_along_the_axes(images):
    model = create_model("spt_vit_micro_patch2_8")
    views = with_fault(model, "axis_shifts").tokenizer.views(images)
    assert torch.equal(views[:, :1], images) and views.shape == (6, 5, 8, 8)
    assert torch.equal(views[:, 1, :, 1:], images[:, 0, :, :-1])


def test_softmax_twice_hides_in_the_answer(model, images):
    twin = with_fault(model, "softmax_twice")
    assert torch.equal(twin(images).argmax(1), model(images).argmax(1))
    assert torch.allclose(twin(images).sum(1), torch.ones(6))


def test_positions_decay_by_the_optimizer(model):
    for each, decays in ((model, 0.0), (with_fault(model, "decayed_positions"), 0.05)):
        groups = parameter_groups(each, get_recipe("digits"))
        found = {
            group["weight_decay"]
            for group in groups
            for parameter in group["params"]
            if parameter is each.position.table or parameter is each.prefix
        }
        assert found == {decays}


def test_a_run_learns_with_its_fault_and_is_told_apart(tmp_path, images):
    recipe = get_recipe("digits", epochs=1, warmup_epochs=0.0, fault="strips")
    run(
        "vit_micro_patch2_8",
        "digits",
        recipe,
        folder=tmp_path,
        share=0.1,
        progress=False,
        plant=plant,
    )
    assert runs.read(tmp_path, few=True) == []
    (row,) = runs.read(tmp_path, few=True, faulty=True)
    assert row.recipe["fault"] == "strips"
    model = load_checkpoint(tmp_path / f"{row.name}.safetensors").model
    right = create_model("vit_micro_patch2_8").eval()
    right.load_state_dict(model.state_dict())
    with torch.no_grad():
        answers = [each(images) for each in (model, right, with_fault(right, "strips"))]
    assert torch.equal(answers[0], answers[2]) and not torch.allclose(answers[0], answers[1])


@torch.no_grad()
def test_a_mask_is_kept(model):
    q, k, v = torch.randn(3, 2, 4, 6, 8, generator=torch.Generator().manual_seed(2))
    others = ~torch.eye(6, dtype=torch.bool)
    added = torch.zeros(6, 6).masked_fill(~others, -torch.inf)
    faults = ("query_softmax", "model_scale", "reshaped_heads")
    cores = {f: with_fault(model, f).encoder.blocks[0].attention.core for f in faults}
    weights = (q @ k.mT / 8**0.5 + added).softmax(dim=-2)
    assert torch.allclose(cores["query_softmax"](q, k, v, others), weights @ v, atol=1e-5)
    weights = (q @ k.mT / 32**0.5 + added).softmax(dim=-1)
    assert torch.allclose(cores["model_scale"](q, k, v, others), weights @ v, atol=1e-5)
    q, k, v = (rearrange(t, "b h n d -> b (n h d)").view(2, 4, 6, 8) for t in (q, k, v))
    mixed = ((q @ k.mT / 8**0.5 + added).softmax(dim=-1) @ v).reshape(2, 6, 32)
    got = rearrange(cores["reshaped_heads"](*(
        rearrange(t.reshape(2, 6, 32), "b n (h d) -> b h n d", h=4) for t in (q, k, v)
    ), others), "b h n d -> b n (h d)")  # fmt: skip
    assert torch.allclose(got, mixed, atol=1e-5)


@torch.no_grad()
def test_maps_are_those_of_the_fault(model, images):
    torch.nn.init.normal_(model.encoder.blocks[0].attention.qkv.weight)
    twin = with_fault(model, "model_scale")
    seen = []
    core = twin.encoder.blocks[0].attention.core
    core.register_forward_hook(lambda core, given, mixed: seen.append((*given[:3], mixed)))
    with analysis.capture_attention(twin) as maps:
        twin(images)
    v, mixed = seen[0][2:]
    assert torch.allclose(maps["encoder.blocks.0.attention.core"] @ v, mixed, atol=1e-4)
    twin = with_fault(model, "query_softmax")
    refused = pytest.raises(RuntimeError, match="4 that ran have no map")
    with refused, analysis.capture_attention(twin):
        twin(images)


@pytest.mark.parametrize(
    ("fault", "why"),
    [("batch_as_sequence", "mixes images"), ("reshaped_heads", "mixes parts of tokens")],
)
@torch.no_grad()
def test_what_is_no_map_of_tokens_is_refused(fault, why, model):
    twin = with_fault(model, fault)
    refused = pytest.raises(RuntimeError, match=f"0 attentions.*, but 4 that ran .* {why}")
    with refused, analysis.capture_attention(twin):
        twin(torch.rand(6, 1, 8, 8))


@pytest.mark.parametrize("fault", ["strips", "axis_shifts", "query_softmax"])
@torch.no_grad()
def test_a_file_keeps_the_fault(fault, images, tmp_path):
    model = create_model("spt_" * (fault == "axis_shifts") + "vit_micro_patch2_8").eval()
    plant(model, fault)
    file = save_checkpoint(tmp_path / "own.safetensors", model)  # without a recipe
    again = load_checkpoint(file).model
    assert torch.equal(again(images), model(images))
    twice = save_checkpoint(file, again, provenance={"recipe": {"fault": fault}})
    assert torch.equal(load_checkpoint(twice).model(images), model(images))


def test_weights_go_into_no_model_with_another_fault(model, tmp_path):
    file = save_checkpoint(tmp_path / "right.safetensors", model)
    faulty = create_model("vit_micro_patch2_8")
    plant(faulty, "query_softmax")
    with pytest.raises(CheckpointError, match="model without a fault, the given one is with the "):
        load_checkpoint(file, faulty)
    file = save_checkpoint(tmp_path / "faulty.safetensors", faulty)
    with pytest.raises(CheckpointError, match="fault query_softmax, the given one is without a"):
        load_checkpoint(file, model)
    assert load_checkpoint(file, faulty).model is faulty


def test_early_positions_grow_on_their_own_grid(model, tmp_path):
    plant(model, "early_positions")
    file = save_checkpoint(tmp_path / "own.safetensors", model)
    grown = load_checkpoint(file, image_size=16).model.position
    frozen = grown.requires_grad_(False)
    frozen.resize((4, 8))
    assert not frozen.table.requires_grad
    grown = load_checkpoint(file, image_size=16).model.position
    patches, rest = model.position.table[:16], model.position.table[16:]
    assert grown.grid_size == (8, 8) and torch.equal(grown.table[64:], rest)
    assert torch.equal(grown.table[:64], resize_positions(patches, (4, 4), (8, 8), 0))


def test_no_run_starts_from_a_body_with_a_fault(model, tmp_path):
    plant(model, "strips")
    file = save_checkpoint(tmp_path / "own.safetensors", model)
    for fault in ("", "strips"):
        recipe = get_recipe("digits", fault=fault)
        with pytest.raises(CheckpointError, match="holds a model with the fault strips: give `pl"):
            run("vit_micro_patch2_8", "digits", recipe, folder=tmp_path, start=file, plant=plant)
    assert not list(tmp_path.glob("*.json"))


def test_a_file_with_an_unknown_fault(model, tmp_path):
    for fault in ("strip", 5, ["strips"]):
        about = {"recipe": {"fault": fault}}
        file = save_checkpoint(tmp_path / "own.safetensors", model, provenance=about)
        with pytest.raises(CheckpointError, match="was written for another vitbook"):
            load_checkpoint(file)
        with pytest.raises(CheckpointError, match="was written for another vitbook"):
            load_checkpoint(file, image_size=16)


def test_what_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match="recipe digits has the fault 'strips': give `plant`"):
        run("vit_micro_patch2_8", "digits", get_recipe("digits", fault="strips"), folder=tmp_path)
    with pytest.raises(UnknownNameError, match="unknown fault 'strip': did you mean strips"):
        plant(model, "strip")
    with pytest.raises(UnknownNameError, match="unknown fault 'strip': did you mean strips"):
        check_fault(get_recipe("digits", fault="strip"))
    with pytest.raises(
        ValueError, match="softmax_twice' with objective 'mae', which knows no head"
    ):
        check_fault(
            get_recipe("digits", label_smoothing=0.0, objective="mae", fault="softmax_twice")
        )
    with pytest.raises(ValueError, match="unscaled_depth' with drop_path 0.*set drop_path"):
        check_fault(get_recipe("digits", fault="unscaled_depth"))
    check_fault(get_recipe("digits", fault="unscaled_depth", drop_path=0.2))
    with pytest.raises(ValueError, match="without a ShiftedPatches: .*spt_vit_micro_patch2_8"):
        plant(model, "axis_shifts")
    with pytest.raises(ValueError, match="'strips' in a ResNet without a PatchEmbedding"):
        plant(create_model("resnet8_digits"), "strips")
    with pytest.raises(ValueError, match="'early_positions' in a .* without a class token"):
        plant(create_model("vit_gap_micro_patch2_8"), "early_positions")
    plant(model, "strips")
    for fault in ("strips", "swapped_axes"):
        with pytest.raises(ValueError, match="that has the fault 'strips' there: expected"):
            plant(model, fault)


LAWS = sorted(name for name in dir(test_vit) if name.startswith("test_"))


@pytest.mark.parametrize("law", LAWS)
def test_a_model_of_another_library_keeps_the_laws_to_copy(law):
    getattr(test_vit, law)()


def test_the_laws_to_copy_find_half_of_the_faults():
    broken = {fault: broken_laws(fault) for fault in ("", *FAULTS) if fault != "axis_shifts"}
    assert broken[""] == [] and sum(map(bool, broken.values())) == 6
    assert "rows" in broken["query_softmax"]


def after(part, change):
    part.register_forward_hook(lambda part, given, out: change(out))


def before(model, change):
    model.register_forward_pre_hook(lambda model, given: (change(*given),))


# A law of the file to copy, a fault that it finds in any model, and the sentence that says so.
BREAKS = {
    "company": (lambda model: after(test_vit.blocks_of(model)[0], lambda t: t - t.mean(0)),
                "an image depends on its batch"),
    "order": (lambda model: after(test_vit.blocks_of(model)[0], lambda t: t.cumsum(1)),
              "a block knows the order"),
    "one_patch_is_one_token": (lambda model: before(model, lambda x: x.roll(1, -1)),
                               "a patch changes 2 tokens"),
    "twice_the_same": (lambda model: after(model, lambda out: out * torch.rand(())),
                       "something is drawn in eval mode"),
    "logits_are_no_shares": (lambda model: after(model, lambda out: out.softmax(-1)),
                             "there is a softmax in the head"),
    "every_pixel_is_seen_and_every_row_learns": (
        lambda model: before(model, lambda x: F.pad(x[..., :-1], (0, 1))),
        "the answer does not see some pixels"),
}  # fmt: skip


@pytest.fixture(params=["timm's default", "ours"])
def without_positions(request):
    """The file to copy tests a model of this library; gives one that lacks positions."""
    if request.param == "ours":
        with about_digits(lambda: create_model("vit_micro_patch2_8")):
            yield lambda: create_model("vit_nopos_micro_patch2_8")
    else:
        yield lambda: timm.create_model(
            "vit_tiny_patch16_224", img_size=64, pos_embed="none", class_token=False,
            global_pool="avg",
        )  # fmt: skip


@pytest.mark.parametrize("law", BREAKS)
@pytest.mark.usefixtures("without_positions")
def test_each_law_to_copy_can_fail(law, monkeypatch):
    fault, told = BREAKS[law]
    model = test_vit.make_model()
    fault(model)
    monkeypatch.setattr(test_vit, "make_model", lambda: model)
    with pytest.raises(AssertionError, match=told):
        getattr(test_vit, f"test_{law}")()


def test_a_model_without_positions_breaks_a_law_to_copy(without_positions, monkeypatch):
    monkeypatch.setattr(test_vit, "make_model", without_positions)
    with pytest.raises(AssertionError, match="patches that move change nothing"):
        test_vit.test_positions_count()


def scores(q, k):
    return q @ k.mT / q.shape[-1] ** 0.5


fused = F.scaled_dot_product_attention


@pytest.mark.parametrize(
    ("attend", "told"),
    [
        (lambda q, k, v, **_: scores(q, k).softmax(-2) @ v, "do not sum to 1"),
        (lambda q, k, v, **_: scores(q, k).sigmoid() @ v, "do not sum to 1"),
        (lambda q, k, v, **_: fused(q, k, v, dropout_p=0.2), "do not sum to 1"),
        (
            lambda q, k, v, **_: (scores(q, k).softmax(-1)[..., None] * v[..., None, :, :]).sum(-2),
            "saw the weights of 0 attentions",
        ),
    ],
    ids=["the wrong axis", "no softmax", "dropout in a fused call", "nothing to see"],
)
@pytest.mark.usefixtures("without_positions")
def test_rows_to_copy_see_fused_and_written_attention(attend, told, monkeypatch):
    test_vit.test_rows()
    monkeypatch.setattr(F, "scaled_dot_product_attention", attend)
    with pytest.raises(AssertionError, match=told):
        test_vit.test_rows()


def test_every_law_to_copy_has_a_fault_here():
    assert {f"test_{law}" for law in (*BREAKS, "rows", "positions_count")} == set(LAWS)


def test_the_trained_faults_have_their_runs_and_their_rows():
    found = claims.evidence()
    verdicts = {n: found.verdict(claims.name_of(n)) for n in claims.TRAINED}
    assert [n for n, verdict in verdicts.items() if verdict == "a lead for"] == [11]
    assert set(claims.TRAINED.values()) < set(FAULTS) and len(claims.PITFALLS) == 20
    assert {len(claim.ours) for claim in found.claims} == {3, 5}
    ours = at_scale("faults")
    assert claims.costly(ours) == [5, 10, 12, 13]
    assert [n for n, verdict in verdicts.items() if verdict == "agrees"] == claims.costly(ours)
    html = claims.prices(dict.fromkeys(claims.PITFALLS, "reads 9 %"), ours)
    assert html.count('<a href="#pit-') == 20 and "98.5 ± 0.4" in html
