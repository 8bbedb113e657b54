import pytest
import torch
import torchvision
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.analysis import explanations_of, map_grad_cam, pointing
from vitbook.analysis.scoring import CNN_EXPLANATIONS, EXPLANATIONS

READER = "digits-resnet8_digits-digits-seed0"


@pytest.fixture(scope="module")
def reader():
    return vitbook.load_checkpoint(READER).model


@pytest.fixture(scope="module")
def images():
    return datasets.normalize(datasets.load("digits", "test").images[:8])


def test_before_a_mean_the_map_sums_to_the_logit(reader, images):
    """The head averages: each place has 1/n of a weight, with or without the mean over places."""
    logits = reader(images)
    classes = logits.argmax(1)
    maps = map_grad_cam(reader, images, classes, signed=True, layer=reader.stages)
    bias = reader.head.classifier.bias[classes]
    told = logits.gather(1, classes[:, None])[:, 0] - bias
    assert torch.allclose(maps.sum((1, 2)), told, atol=1e-4)
    for name, per_place in (("mean", False), ("no mean", True)):
        found = map_grad_cam(reader, images, classes, signed=True, per_place=per_place)
        assert torch.allclose(found, maps, atol=1e-5), name
    assert torch.equal(map_grad_cam(reader, images, batch_size=3), maps.clamp(min=0))


@pytest.mark.parametrize("per_place", [False, True])
def test_an_earlier_map_by_autograd(reader, images, per_place):
    layer, kept = reader.stages[1], []
    with layer.register_forward_hook(lambda _, given, out: kept.append(out)):
        logits = reader(images)
    (slope,) = torch.autograd.grad(logits[:, 3].sum(), kept[0])
    weights = slope if per_place else slope.mean((2, 3), keepdim=True)
    expected = (weights * kept[0]).sum(1).relu()
    asked = torch.full((8,), 3)
    found = map_grad_cam(reader, images, asked, layer=layer, per_place=per_place)
    assert found.shape == (8, 4, 4) and torch.allclose(found, expected, atol=1e-5)


def test_a_foreign_network_whose_last_map_is_before_its_mean():
    torch.manual_seed(0)
    model = torchvision.models.resnet18(weights=None).eval()
    images = torch.rand(2, 3, 64, 64)
    by_default = map_grad_cam(model, images, torch.tensor([0, 1]), signed=True)
    assert by_default.shape == (2, 2, 2)
    named = map_grad_cam(model, images, torch.tensor([0, 1]), signed=True, layer=model.layer4)
    assert torch.equal(by_default, named)


def test_the_model_is_left_as_it_came(reader, images):
    reader.train()
    before = [parameter.grad for parameter in reader.parameters()]
    map_grad_cam(reader, images)
    assert reader.training and [parameter.grad for parameter in reader.parameters()] == before
    assert not any(module._forward_hooks for module in reader.modules())
    reader.eval()


def test_what_gives_no_map(reader, images):
    vit = vitbook.create_model("vit_micro_patch2_8")
    with pytest.raises(ValueError, match="attention in it.*token_grad_cam"):
        map_grad_cam(vit, images)
    with pytest.raises(ValueError, match="no part of the ResNet"):
        map_grad_cam(reader, images, layer=nn.ReLU())
    with pytest.raises(ValueError, match="this Linear gives no map"):
        map_grad_cam(reader, images, layer=reader.head.classifier)
    with pytest.raises(ValueError, match="this LayerNorm gives no map"):
        map_grad_cam(vit, images, layer=vit.encoder.blocks[0].norm1)
    with pytest.raises(ValueError, match="Sequential gives no map .* on the way"):
        map_grad_cam(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), images)
    with pytest.raises(ValueError, match="expected 0 to 9"):
        map_grad_cam(reader, images, torch.full((8,), 10))


def test_a_layer_that_does_not_reach_the_answer(images):
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.aside, self.head = nn.Conv2d(1, 2, 3), nn.Linear(64, 3)

        def forward(self, x):
            return self.head(x.flatten(1)) + 0 * self.aside(x).sum()

    with pytest.raises(ValueError, match="nothing of what this Conv2d gives reaches"):
        map_grad_cam(Aside(), images)


def test_what_a_network_has_to_explain_itself(reader, images):
    assert explanations_of(reader) is CNN_EXPLANATIONS
    assert explanations_of(vitbook.create_model("vit_micro_patch2_8")) is EXPLANATIONS
    assert set(CNN_EXPLANATIONS) - set(EXPLANATIONS) == {"guided backpropagation"}
    classes = reader(images).argmax(1)
    masks = images[:, 0] > images[:, 0].mean((1, 2), keepdim=True)
    for name, explain in CNN_EXPLANATIONS.items():
        maps = explain(reader, images, classes)
        assert maps.shape == (8, 2, 2), name
        assert pointing(maps, masks).shape == (8,)
