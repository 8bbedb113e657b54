"""A tensor that several parts share: one on disk, one in the optimizer, one after a resume."""

import pytest
import torch
from safetensors import safe_open
from small_runs import PulledPlugError

import vitbook
from vitbook.datasets import Dataset
from vitbook.layers import RelativePosition
from vitbook.models import ModelSpec
from vitbook.models.papers.vit import MICRO_BODY
from vitbook.models.papers.vit_positions import one_for_all_layers, relative_vit
from vitbook.runs import Recipe
from vitbook.training import load_checkpoint, save_checkpoint, train
from vitbook.training.engine.optimization import parameter_groups
from vitbook.training.engine.tied_weights import unique_state

RECIPE = Recipe(
    name="four steps", epochs=4, batch_size=8, learning_rate=1e-2, warmup_epochs=1.0, ema=0.9
)


def added():
    torch.manual_seed(0)
    return vitbook.create_model("vit_sharedpos_micro_patch2_8")


def relative():
    torch.manual_seed(0)
    model = relative_vit(
        image_size=8, patch_size=2, channels=1, num_classes=10, body=MICRO_BODY,
        make_positions=one_for_all_layers(RelativePosition),
    )  # fmt: skip
    model.spec = ModelSpec("vit_relpos_micro_patch2_8", 8, 10, 1)
    return model


MODELS = {
    added: ["encoder.positions.{}.table"],
    relative: [f"encoder.blocks.{{}}.attention.position.{part}" for part in ("prefix", "table")],
}
EACH = pytest.mark.parametrize("make", MODELS)


def names(make, *layers):
    return {name.format(layer) for name in MODELS[make] for layer in layers}


def noise():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (8, 1, 8, 8), dtype=torch.uint8, generator=generator)
    return Dataset(images, torch.arange(8), tuple("abcdefghij"), {"name": "noise"})


def learn(make, state=None, stop_at=None):
    model, steps = make(), 0

    def count(module, _):
        nonlocal steps
        steps += module.training
        if stop_at and steps > stop_at:
            raise PulledPlugError

    model.register_forward_pre_hook(count)
    train(model, noise(), RECIPE, progress=False, device="cpu", state=state, save_every_s=0)
    return model


@EACH
def test_the_first_name_stands_for_all(make):
    model = make()
    assert model.state_dict().keys() - unique_state(model).keys() == names(make, 1, 2, 3)
    assert names(make, 0) <= unique_state(model).keys()


@EACH
def test_it_is_written_once_and_shared_when_read(make, tmp_path):
    model = learn(make).eval()
    path = save_checkpoint(tmp_path / "shared.safetensors", model)
    with safe_open(path, framework="pt") as file:
        assert set(file.keys()) == unique_state(model).keys()
    back = load_checkpoint(path, make()).model
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(back(images), model(images))
    (first, *_), state = sorted(names(make, 0)), back.state_dict(keep_vars=True)
    assert all(state[first.replace(".0.", f".{layer}.")] is state[first] for layer in (1, 2, 3))


@EACH
def test_a_cut_run_ends_in_the_bits_of_a_whole_one(make, tmp_path):
    whole = learn(make).state_dict()
    assert any(not torch.equal(whole[name], make().state_dict()[name]) for name in names(make, 0))
    with pytest.raises(PulledPlugError):
        learn(make, tmp_path / "run.unfinished", stop_at=2)
    resumed = learn(make, tmp_path / "run.unfinished").state_dict()
    assert all(torch.equal(resumed[name], tensor) for name, tensor in whole.items())
    assert all(
        torch.equal(whole[name], whole[name.replace(".0.", ".3.")]) for name in names(make, 0)
    )


@EACH
def test_it_is_stepped_once_and_does_not_decay(make):
    model = make()
    decay, keep = parameter_groups(model, RECIPE)
    identities = [id(parameter) for group in (decay, keep) for parameter in group["params"]]
    assert len(identities) == len(set(identities)) == len(list(model.parameters()))
    state = model.state_dict(keep_vars=True)
    kept = {id(parameter) for parameter in keep["params"]}
    assert all(id(state[name]) in kept for name in names(make, 0))
