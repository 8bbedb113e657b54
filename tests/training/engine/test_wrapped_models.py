"""What torch puts around a model or a part leaves no trace in a file, nor in a digest."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.optim.swa_utils import AveragedModel

import vitbook
from vitbook.model_utilities import weights_digest
from vitbook.training import load_checkpoint, save_checkpoint
from vitbook.training.engine.state import load_state, save_state

NAME = "vit_micro_patch2_8"


def with_part(wrap, path):
    def wrapped(model):
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, wrap(model.get_submodule(path)))
        return model

    return wrapped


def twice(model):
    return torch.compile(nn.DataParallel(with_part(torch.compile, "encoder.blocks.1")(model)))


WRAPPED = {
    "compiled": torch.compile,
    "a compiled part": with_part(torch.compile, "encoder"),
    "a data parallel part": with_part(nn.DataParallel, "encoder"),
    "averaged": AveragedModel,
    "several, one in another": twice,
}


def plain_and_wrapped(wrap, name=NAME):
    torch.manual_seed(0)
    plain = vitbook.create_model(name).eval()
    twin = vitbook.create_model(name).eval()
    twin.load_state_dict(plain.state_dict())
    for model in (plain, twin):
        model.encoder.norm.eps = 1e-3
    return plain, wrap(twin)


def content(path):
    """The metadata has a digest of the tensors in it."""
    with safe_open(path, framework="pt") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}


@pytest.mark.parametrize("how", WRAPPED)
def test_the_file_is_that_of_the_model_itself(how, tmp_path):
    plain, wrapped = plain_and_wrapped(WRAPPED[how])
    models = {"plain": plain, "wrapped": wrapped}
    files = [save_checkpoint(tmp_path / name, model) for name, model in models.items()]
    metadata, tensors = zip(*map(content, files), strict=True)
    assert metadata[0] == metadata[1] and tensors[0].keys() == tensors[1].keys()
    images = torch.rand(3, 1, 8, 8)
    back = load_checkpoint(files[1])
    assert torch.equal(back.model(images), plain(images)) and back.model.encoder.norm.eps == 1e-3
    assert weights_digest(plain) == weights_digest(wrapped)
    with torch.no_grad():
        for parameter in wrapped.parameters():
            parameter.zero_()
    assert load_checkpoint(files[0], wrapped).model is wrapped
    assert weights_digest(plain) == weights_digest(wrapped)


@pytest.mark.parametrize("how", ["compiled", "a compiled part"])
def test_a_file_with_the_names_of_a_compiled_model_is_read(how, tmp_path):
    """As they were written once."""
    plain, wrapped = plain_and_wrapped(WRAPPED[how])
    about = json.loads(content(save_checkpoint(tmp_path / "plain", plain))[0]["vitbook"])
    about["format"], about["constants"] = (
        1,
        {
            f"{path}.eps": part.eps
            for path, part in wrapped.named_modules()
            if isinstance(part, nn.LayerNorm)
        },
    )
    state = {name: tensor.clone() for name, tensor in wrapped.state_dict().items()}
    assert any("_orig_mod." in name for name in state)
    save_file(state, tmp_path / "old", metadata={"vitbook": json.dumps(about)})
    back = load_checkpoint(tmp_path / "old").model
    images = torch.rand(3, 1, 8, 8)
    assert torch.equal(back(images), plain(images)) and back.encoder.norm.eps == 1e-3
    larger = load_checkpoint(tmp_path / "old", image_size=12).model
    assert larger(torch.rand(1, 1, 12, 12)).shape == (1, 10)


@pytest.mark.parametrize("how", ["compiled", "a data parallel part"])
def test_an_unfinished_run_goes_on_compiled_or_not(how, tmp_path):
    plain, wrapped = plain_and_wrapped(WRAPPED[how])
    other = vitbook.create_model(NAME)
    optimizers = [torch.optim.AdamW(model.parameters()) for model in (wrapped, other)]
    save_state(tmp_path / "state", wrapped, None, optimizers[0], {"step": 3}, {})
    assert load_state(tmp_path / "state", other, None, optimizers[1], {}) == {"step": 3}
    assert weights_digest(other) == weights_digest(plain)
