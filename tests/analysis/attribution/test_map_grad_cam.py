from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torchvision
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.analysis import (
    explanations_of,
    feature_maps,
    guided_backpropagation,
    map_grad_cam,
    pointing,
)
from vitbook.analysis.attribution.scoring import CNN_EXPLANATIONS, EXPLANATIONS
from vitbook.analysis.capture.record import record_modules

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


class Reused(nn.Module):
    """A ReLU for everything, and layers that lead nowhere."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
        self.relu, self.head = nn.ReLU(), nn.Linear(8, 3)
        self.aside, self.never, self.pair = nn.Conv2d(1, 2, 3), nn.ReLU(), Pair()

    def forward(self, x):
        self.aside(x), self.pair(x)
        x = self.conv2(self.relu(self.conv1(x)))
        return self.head(self.relu(x.mean((2, 3))))


class Pair(nn.Module):
    def forward(self, x):
        return x, x


def test_a_relu_that_is_called_again_behind_the_maps(images):
    torch.manual_seed(0)
    model = Reused()
    found = map_grad_cam(model, images, signed=True)
    assert found.shape == (8, 4, 4)
    assert torch.equal(found, map_grad_cam(model, images, signed=True, layer=model.conv2))


def test_layers_from_which_nothing_reaches_the_answer(images):
    model = Reused()
    for layer, said in (
        (model.aside, "nothing of what this Conv2d gives reaches the logits"),
        (model.never, "this ReLU did not run"),
        (model.pair, "this Pair gives no map of one image, but a tuple"),
        (model.head, r"this Linear gives no map of one image, but \(1, 3\)"),
    ):
        with pytest.raises(ValueError, match=said):
            map_grad_cam(model, images, layer=layer)


def test_a_head_of_zeros_gives_maps_of_zeros(images):
    model = Reused()
    nn.init.zeros_(model.head.weight)
    assert not map_grad_cam(model, images).any()


@pytest.mark.parametrize("explain", [map_grad_cam, guided_backpropagation])
def test_one_thread_at_a_time(explain, reader, images):
    with record_modules(reader, lambda *_: []), ThreadPoolExecutor(1) as pool:
        other = pool.submit(explain, reader, images)
        with pytest.raises(RuntimeError, match="another thread"):
            other.result()


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


def test_behind_a_pooled_linear_layer_grad_cam_is_cam():
    """Zhou et al. 2016: the last map, weighted by the class's row; its sum is the logit."""
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    model = timm.create_model("tf_efficientnet_lite0", num_classes=7).eval()
    images, classes = torch.randn(3, 3, 64, 96), torch.tensor([0, 3, 6])
    maps = feature_maps(model, images, ["bn2"])["bn2"]
    with torch.no_grad():
        rows, bias = model.classifier.weight[classes], model.classifier.bias[classes]
        logits = model(images)[torch.arange(3), classes]
    cam = torch.einsum("nk,nkij->nij", rows, maps) / maps[0, 0].numel()
    found = map_grad_cam(model, images, classes, layer=model.bn2, signed=True)
    assert torch.allclose(found, cam, rtol=1e-4, atol=1e-5 * float(cam.abs().max()))
    assert torch.allclose(found.sum((1, 2)) + bias, logits, rtol=1e-4, atol=1e-6)
