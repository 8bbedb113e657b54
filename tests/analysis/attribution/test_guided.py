import pytest
import torch
import torch.nn.functional as F
import torchvision
from scipy.stats import spearmanr
from torch import nn

import vitbook
from vitbook.analysis import guided_backpropagation, on_grid, rank_correlation


class Small(nn.Module):
    """Two convolutions with ReLUs behind them, and a read-out."""

    grid_size = (3, 3)
    num_prefix_tokens = 0

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.relus = nn.ModuleList([nn.ReLU(), nn.ReLU()])
        self.head = nn.Linear(4 * 36, 3)

    def forward(self, x):
        x = self.relus[0](self.first(x))
        return self.head(self.relus[1](self.second(x)).flatten(1))


@pytest.fixture
def small():
    torch.manual_seed(0)
    return Small()


def test_by_hand_layer_by_layer(small):
    images = torch.randn(5, 1, 6, 6)
    before = small.first(images), small.second(F.relu(small.first(images)))
    slope = small.head.weight[2].expand(5, -1).unflatten(1, (4, 6, 6))
    slope = (before[1] > 0) * slope.clamp(min=0)
    slope = F.conv_transpose2d(slope, small.second.weight, padding=1)
    slope = (before[0] > 0) * slope.clamp(min=0)
    slope = F.conv_transpose2d(slope, small.first.weight, padding=1)
    expected = on_grid(slope.abs().sum(1), (3, 3))
    found = guided_backpropagation(small, images, torch.full((5,), 2), batch_size=2)
    assert torch.allclose(found, expected, atol=1e-6) and found.shape == (5, 3, 3)


def test_the_model_is_left_as_it_came(small, recwarn):
    small.train()
    images = torch.randn(2, 1, 6, 6)
    guided_backpropagation(small, images)
    assert small.training and all(each.grad is None for each in small.parameters())
    for relu in small.relus:
        assert not (relu._forward_hooks or relu._forward_pre_hooks or relu._backward_hooks)
    assert not recwarn.list


def test_models_whose_relus_cannot_be_changed(small):
    images = torch.randn(2, 1, 6, 6)
    with pytest.raises(ValueError, match="VisionTransformer has no nn.ReLU.*relevance"):
        guided_backpropagation(vitbook.create_model("vit_micro_patch2_8"), torch.rand(1, 1, 8, 8))
    small.relus[0].inplace = True
    with pytest.raises(ValueError, match="Small has ReLUs that work in place.*inplace=False"):
        guided_backpropagation(small, images)
    with pytest.raises(ValueError, match="ResNet does not say its grid_size"):
        net = torchvision.models.resnet18(weights=None)
        for part in net.modules():
            if isinstance(part, nn.ReLU):
                part.inplace = False
        guided_backpropagation(net, torch.rand(1, 3, 32, 32))


def test_rank_correlation_is_scipys_and_nan_where_a_map_is_even():
    torch.manual_seed(0)
    maps, others = torch.rand(6, 3, 4).round(decimals=1), torch.rand(6, 3, 4)
    found = rank_correlation(maps, others)
    pairs = zip(maps, others, strict=True)
    expected = [spearmanr(a.flatten(), b.flatten())[0] for a, b in pairs]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    maps[2] = 1.0
    assert rank_correlation(maps, others).isnan().tolist() == [n == 2 for n in range(6)]
    with pytest.raises(ValueError, match="expected one shape"):
        rank_correlation(maps, others[:5])


class Functional(Small):
    """Beside a module, a rectifier that is a function."""

    def __init__(self, rectify):
        super().__init__()
        self.rectify = rectify

    def forward(self, x):
        x = self.rectify(self.first(x))
        return self.head(self.relus[1](self.second(x)).flatten(1))


FUNCTIONS = {
    "F.relu": F.relu,
    "in place": lambda x: x.relu_(),
    "clamp": lambda x: x.clamp(min=0),
    "threshold": lambda x: F.threshold(x, 0.0, 0.0),
    "ReLU6": nn.ReLU6(),
    "maximum, turned": lambda x: torch.maximum(x.new_zeros(()), x),
}


@pytest.mark.parametrize("rectify", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_rectifier_that_is_not_changed_is_refused(rectify):
    with pytest.raises(ValueError, match="rectifies in 1 places without an nn.ReLU"):
        guided_backpropagation(Functional(rectify), torch.randn(2, 1, 6, 6))


OTHERS = [
    F.gelu,
    lambda x: torch.maximum(x, x.flip(1)),
    lambda x: torch.maximum(x, -x.new_ones(())),
]


@pytest.mark.parametrize("other", OTHERS)
def test_another_function_is_none(other):
    assert guided_backpropagation(Functional(other), torch.randn(2, 1, 6, 6)).shape == (2, 3, 3)
