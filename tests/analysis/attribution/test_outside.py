"""Explainers that are not ours, called as ours are."""

import copy
import sys

import captum.attr
import pytest
import torch
from torch import nn

import vitbook
from vitbook.analysis import as_explanation, integrated_gradients, on_grid, score_explanations
from vitbook.analysis.attribution.outside import load_explainer
from vitbook.errors import UnknownNameError
from vitbook.model_utilities import evaluating

IMAGES = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
TARGETS = torch.tensor([0, 1, 2, 3, 4])


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(0)
    return [vitbook.create_model("vit_micro_patch2_8").eval() for _ in range(2)]


def gradients(model, images, targets):
    """The absolute gradient of a logit, by hand."""
    images = images.clone().requires_grad_()
    logits = model(images).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, images)[0].abs().sum(1)


class Cam:
    """An object as pytorch-grad-cam's: holds its model, and takes functions of logits."""

    def __init__(self, model):
        self.model = model

    def __call__(self, input_tensor, targets=None, eigen_smooth=False):
        images = input_tensor.detach().requires_grad_()
        outputs = self.model(images)
        score = sum(target(output) for target, output in zip(targets, outputs, strict=True))
        return torch.autograd.grad(score, images)[0].abs().sum(1).numpy()


def test_each_form_of_one_explainer_gives_the_same_maps(models):
    model, other = models
    expected = on_grid(gradients(model, IMAGES, TARGETS), (4, 4))
    for explainer in (
        gradients,
        Cam,
        Cam(model),
        Cam(other),  # lent the weights of the model that is asked about
        captum.attr.Saliency,
        captum.attr.Saliency(model),
        captum.attr.Saliency(other),
        lambda model: captum.attr.Saliency(model),
        lambda model, images, targets: gradients(model, images, targets)[:, None],
        lambda model, images, targets: on_grid(gradients(model, images, targets), (4, 4)),
    ):
        found = as_explanation(explainer)(model, IMAGES, TARGETS)
        assert torch.allclose(found, expected, atol=1e-6), explainer


def test_a_model_that_lent_or_borrowed_weights_is_as_it_was(models):
    model, other = models
    before = [{k: v.clone() for k, v in each.state_dict().items()} for each in models]
    as_explanation(Cam(other))(model, IMAGES, TARGETS)
    for each, was in zip(models, before, strict=True):
        assert all(torch.equal(value, was[key]) for key, value in each.state_dict().items())
    assert not any(weight.grad is not None for weight in model.parameters())


def test_captums_integrated_gradients_are_ours(models):
    def theirs(model, images, targets):
        method = captum.attr.IntegratedGradients(model)
        return method.attribute(images, -torch.ones_like(images), target=targets, n_steps=32)

    found = as_explanation(theirs)(models[0], IMAGES, TARGETS)
    ours = integrated_gradients(models[0], IMAGES, TARGETS, steps=32)
    assert torch.allclose(found, ours, atol=1e-5)


def test_an_explainer_is_scored_as_its_maps_are(models):
    masks = torch.zeros(5, 8, 8, dtype=torch.bool)
    masks[:, :4, :4] = True
    maps = on_grid(gradients(models[0], IMAGES, TARGETS), (4, 4))
    given = models[0], IMAGES, TARGETS, masks
    both = score_explanations(*given, {"maps": maps, "mine": gradients})
    assert torch.equal(both["maps"].deletion, both["mine"].deletion)
    assert torch.equal(both["maps"].pointing, both["mine"].pointing)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda i: i[:, 0, :3], r"shape \(5, 3, 8\) for images of \(5, 1, 8, 8\): .*\(5, 4, 4\)"),
        (lambda i: i[:2, 0], r"shape \(2, 8, 8\)"),
        (lambda i: i[:, 0] / 0 * 0, "NaN or infinity"),
        (lambda i: None, "returned a NoneType: expected a tensor"),
    ],
)
def test_maps_that_do_not_fit(models, returned, said):
    with pytest.raises((TypeError, ValueError), match=said) as found:
        as_explanation(lambda m, i, t: returned(i), "mine")(models[0], IMAGES, TARGETS)
    assert "mine" in str(found.value)


def test_what_is_no_explainer(models):
    for wrong in (3, "captum.attr:Saliency", lambda a, b: 0, captum.attr.LayerGradCam):
        with pytest.raises(TypeError, match=r"expected a class or object with attribute"):
            as_explanation(wrong)
    with pytest.raises(TypeError, match="made a Linear of the model: expected"):
        as_explanation(lambda model: nn.Linear(1, 1))(models[0], IMAGES, TARGETS)


def test_a_function_of_the_model_finds_the_models_own_parts(models):
    explain = as_explanation(
        lambda model: captum.attr.LayerGradientXActivation(model, model.encoder.blocks[0])
    )
    with pytest.raises(ValueError, match=r"maps of shape \(5, 17, 64\)"):
        explain(models[0], IMAGES, TARGETS)  # it ran, and says tokens


def test_gradients_and_modes_are_as_they_were_and_changed_weights_are_told(models):
    model = copy.deepcopy(models[0]).train()
    model.head.classifier.weight.requires_grad_(False)
    model.head.classifier.bias.grad = torch.ones_like(model.head.classifier.bias)

    def careless(model, images, targets):
        model.train().requires_grad_(True)
        model(images).sum().backward()
        return images.grad

    as_explanation(careless)(model, IMAGES, TARGETS)
    assert (
        model.head.classifier.bias.grad.eq(1).all()
        and not model.head.classifier.weight.requires_grad
    )
    assert sum(weight.grad is not None for weight in model.parameters()) == 1
    assert all(module.training for module in model.modules())

    def destructive(model, images, targets):
        torch.nn.init.zeros_(model.head.classifier.weight)
        return images

    with pytest.raises(ValueError, match="mine changed weights of the VisionTransformer"):
        as_explanation(destructive, "mine")(model, IMAGES, TARGETS)


def test_an_object_of_another_model(models):
    stranger = vitbook.create_model("vit_micro_patch4_8").eval()
    with evaluating(stranger), pytest.raises(ValueError, match="expected one of the same shape"):
        as_explanation(Cam(stranger))(models[0], IMAGES, TARGETS)
    hidden = captum.attr.Saliency(lambda images: stranger(images))
    with pytest.raises(ValueError, match="pass its class, or a function of the model"):
        as_explanation(hidden)(models[0], IMAGES, TARGETS)


def test_an_explainer_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "my_maps.py").write_text("def explain(model, images, targets): return images[:, 0]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_maps", raising=False)
    assert load_explainer("my_maps:explain")(None, IMAGES, None).shape == (5, 8, 8)
    assert load_explainer("captum.attr:Saliency") is captum.attr.Saliency
    assert str(tmp_path) not in sys.path
    with pytest.raises(UnknownNameError, match="function of my_maps 'explian': did you mean ex"):
        load_explainer("my_maps:explian")
    with pytest.raises(ValueError, match="No module named 'absent'; expected a module"):
        load_explainer("absent:explain")
    (tmp_path / "broken_maps.py").write_text("def explain(:")
    with pytest.raises(ValueError, match="'broken_maps:explain': invalid syntax"):
        load_explainer("broken_maps:explain")
    with pytest.raises(ValueError, match="expected module:function, as captum"):
        load_explainer("absent")
