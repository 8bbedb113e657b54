"""safetensors that others wrote, by our names or timm's, in a model that is given."""

import pytest
import timm
import torch
from safetensors.torch import save_file, save_model
from torch import nn

import vitbook
from vitbook.model_utilities import weights_digest
from vitbook.training import CheckpointError, load_checkpoint

NAME = "vit_micro_patch2_8"


def begin(word, state):
    return {f"{word}{name}": tensor for name, tensor in state.items()}


def timms(**changes):
    settings = dict(img_size=8, patch_size=2, in_chans=1, num_classes=10, embed_dim=64, depth=4,
                    num_heads=4, mlp_ratio=2)  # fmt: skip
    return timm.models.VisionTransformer(**settings | changes)


@pytest.mark.parametrize(
    ("wrap", "where"),
    [
        (lambda m: m.state_dict(), ""),
        (lambda m: torch.compile(m).state_dict(), ""),
        (lambda m: nn.DataParallel(m).state_dict(), "module."),
        (lambda m: begin("net.", m.state_dict()) | {"loss.weight": torch.ones(2)}, "net."),
        (lambda m: begin("teacher.backbone.", m.state_dict()), "teacher.backbone."),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_the_part_that_fits_fills_the_model(wrap, where, own, tmp_path, caplog):
    theirs = vitbook.create_model(NAME) if own else timms()
    file, model = tmp_path / "x.safetensors", vitbook.create_model(NAME)
    save_file(dict(wrap(theirs)), file)
    loaded = load_checkpoint(file, model)
    assert loaded.model is model and loaded.provenance == {"weights": "x.safetensors"}
    images = torch.rand(2, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(model(images), theirs.eval()(images), atol=1e-5, rtol=1e-4)
    said = [f"the weights of x.safetensors were taken from {where}"] if where else []
    assert [record.getMessage() for record in caplog.records] == said


def test_save_model_of_safetensors_and_a_headless_model_of_timms(tmp_path):
    theirs = vitbook.create_model(NAME)
    save_model(theirs, tmp_path / "x")
    model = load_checkpoint(tmp_path / "x", torch.compile(vitbook.create_model(NAME))).model
    assert weights_digest(model) == weights_digest(theirs)
    save_file(timms(num_classes=0).state_dict(), tmp_path / "y")
    model = vitbook.create_model(NAME)
    head = model.head.classifier.weight.clone()
    load_checkpoint(tmp_path / "y", model)
    assert torch.equal(model.head.classifier.weight, head)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda w: begin("a.", w) | begin("b.", w), "are there 2 times, .*: a., b.: expected one"),
        (lambda w: w | {"head.classifier.bias": torch.zeros(3)}, "of another shape: head.class"),
        (lambda w: {"w": torch.zeros(2)}, "They have none of the names"),
        (lambda w: timms(img_size=16).state_dict(), r"shape: pos_embed \(1, 65, 64\) where"),
    ],
)
def test_what_does_not_fit_changes_nothing(given, words, tmp_path):
    model = vitbook.create_model(NAME)
    before = weights_digest(model)
    state = {n: t.clone() for n, t in given(dict(model.state_dict())).items()}
    save_file(state, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match=f"x.safetensors .*{words}"):
        load_checkpoint(tmp_path / "x.safetensors", model)
    assert weights_digest(model) == before
    with pytest.raises(CheckpointError, match=r"no description .* load_checkpoint\(path, model\)"):
        load_checkpoint(tmp_path / "x.safetensors")
