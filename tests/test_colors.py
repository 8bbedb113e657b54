"""One place knows which colours a model takes, through whatever is around it."""

import copy
from types import SimpleNamespace

import pytest
import timm
import torch
import torchvision
from torch import nn
from torchvision.transforms import Normalize
from transformers import ViTConfig, ViTModel

import vitbook
from vitbook.analysis import black_level
from vitbook.cli.probed_model import load_probed_model
from vitbook.colors import OURS, Colors, colors_of, recoloring, say_colors
from vitbook.datasets import Dataset
from vitbook.models.weights.timm import load_timm
from vitbook.runs import get_recipe
from vitbook.training import evaluate, predict, save_checkpoint, train
from vitbook.training.objectives.teachers import OwnColors
from vitbook.training.transfer.frozen_readers import frozen_body

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SEEN = Colors(MEAN, STD)


class Around(nn.Module):  # as Lightning's and PEFT's are
    def __init__(self, model):
        super().__init__()
        self.base_model, self.loss = model, nn.CrossEntropyLoss()

    def forward(self, images):
        return self.base_model(images)


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    made = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=1,
                             num_classes=3).eval()  # fmt: skip
    return said(made)


def said(model):
    say_colors(model, MEAN, STD)
    return model


WRAPPERS = {
    "alone": lambda model: model,
    "Sequential": lambda model: nn.Sequential(model, nn.Identity()),
    "behind an Identity": lambda model: nn.Sequential(nn.Identity(), model),
    "DataParallel": nn.DataParallel,
    "compiled": torch.compile,
    "mean of weights": torch.optim.swa_utils.AveragedModel,
    "a class of one's own": Around,
    "three deep": lambda model: Around(nn.Sequential(nn.DataParallel(model))),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_what_a_model_says_is_heard_through_a_wrapper(wrap, model):
    black = -torch.tensor(MEAN) / torch.tensor(STD)
    assert colors_of(wrap(model)) == SEEN
    torch.testing.assert_close(black_level(wrap(model), 3), black)


def test_what_normalises_by_itself_takes_other_images(model):
    assert colors_of(nn.Sequential(Normalize(MEAN, STD), model)) == Colors((0.0,), (1.0,))
    assert colors_of(OwnColors(SimpleModel(model), MEAN, STD)) == OURS
    assert colors_of(nn.Linear(2, 2)) is None
    assert colors_of(said(nn.Sequential(nn.Conv2d(3, 3, 1), model))) == SEEN


class SimpleModel(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.spec = model, SimpleNamespace()


def test_two_that_say_different_things_are_refused(model):
    other = copy.deepcopy(model)
    say_colors(other, (0.1,) * 3, (0.2,) * 3)
    with pytest.raises(ValueError, match="different mean and deviation"):
        black_level(nn.ModuleList([model, other]), 3)
    assert colors_of(nn.ModuleList([model, copy.deepcopy(model)])) == SEEN


@pytest.mark.parametrize(("mean", "std"), [((0.5,) * 3, (0.5,)), ((0.5,), (0.0,))])
def test_colours_that_cannot_be(mean, std, model):
    say_colors(model, mean, std)
    with pytest.raises(ValueError, match="expected as many, the deviation above 0"):
        colors_of(model)


def few() -> Dataset:
    torch.manual_seed(1)
    images = torch.randint(256, (6, 3, 32, 32), dtype=torch.uint8)
    return Dataset(images, torch.tensor([0, 1, 2] * 2), ("a", "b", "c"), {"name": "few"})


@pytest.mark.parametrize("wrap", [lambda m: m, Around])
def test_bytes_are_predicted_in_the_models_own_colours(wrap, model):
    data = few()
    mean, std = (torch.tensor(each)[:, None, None] for each in (MEAN, STD))
    with torch.no_grad():
        right = model((data.images / 255 - mean) / std)
    torch.testing.assert_close(predict(wrap(model), data.images), right)
    exact = (right.argmax(1) == data.labels).float().mean().item()
    assert evaluate(wrap(model), data) == pytest.approx(exact)
    del model.pretrained_cfg  # one that says nothing takes the book's
    model.default_cfg = None
    with torch.no_grad():
        assert torch.equal(predict(model, data.images), model(data.images.float() / 127.5 - 1))


def test_student_and_teacher_are_each_asked_in_their_own_colours(model):
    data = few()
    recipe = get_recipe("digits", epochs=1, warmup_epochs=0.0, batch_size=6, distillation="hard",
                        shift=0.0, rotation=0.0, zoom=0.0)  # fmt: skip
    student, teacher = copy.deepcopy(model), model
    say_colors(student, (0.5,), (0.5,))
    heard = {}
    for name, each in (("student", student), ("teacher", teacher)):
        each.register_forward_pre_hook(
            lambda _, given, name=name: heard.update({name: given[0].detach()})
        )
    train(student, data, recipe, teacher=teacher, device="cpu", progress=False)
    asked, taught = heard["student"], heard["teacher"]
    torch.testing.assert_close(recoloring(teacher)(asked), taught)
    assert (asked - taught).abs().max() > 0.3


def test_weights_of_timm_bring_their_colours_and_a_checkpoint_keeps_them(tmp_path):
    source = said(timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=3))
    ours = vitbook.create_model("vit_tiny_patch16_224", image_size=32, num_classes=3)
    assert colors_of(ours) is None
    load_timm(ours, source)
    assert colors_of(ours) == SEEN
    path = save_checkpoint(tmp_path / "own.safetensors", ours)
    assert colors_of(vitbook.load_checkpoint(path).model) == SEEN
    # Commands read it so too.
    pixels = torch.randint(256, (1, 3, 32, 32), dtype=torch.uint8)
    mean, std = (torch.tensor(each)[:, None, None] for each in (MEAN, STD))
    for prepare in (load_probed_model(str(path)).prepare, frozen_body(str(path), None)[1]):
        torch.testing.assert_close(prepare(pixels), (pixels / 255 - mean) / std)


@pytest.mark.parametrize(
    ("make", "library"),
    [
        (lambda: torchvision.models.resnet18(), "torchvision"),
        (lambda: ViTModel(ViTConfig(num_hidden_layers=1, hidden_size=12, num_attention_heads=2)),
         "transformers"),
    ],
)  # fmt: skip
def test_a_library_s_silence_is_told(make, library, caplog):
    assert black_level(make(), 3).tolist() == [-1, -1, -1]
    assert f"of {library}, does not say" in caplog.text
    caplog.clear()
    black_level(said(make()), 3)
    black_level(nn.Linear(2, 2), 3)
    assert not caplog.text
