"""Uphill and back: SAM's two gradients, by hand and beside its formula."""

import pytest
import torch
from torch import nn

from vitbook import create_model, datasets
from vitbook.datasets import Dataset
from vitbook.runs import get_recipe
from vitbook.training import TrainingDivergedError, train
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.loss import cross_entropy
from vitbook.training.engine.sharpness_aware import uphill


class Bowl(nn.Module):
    """Loss a x^2 / 2 + b y^2 / 2, whose gradient is known."""

    def __init__(self):
        super().__init__()
        self.at = nn.Parameter(torch.tensor([3.0, 1.0]))
        self.frozen = nn.Parameter(torch.tensor([7.0]), requires_grad=False)

    def loss(self):
        return (torch.tensor([1.0, 4.0]) * self.at**2).sum() / 2


def test_by_hand():
    bowl = Bowl()
    bowl.loss().backward()  # the gradient is (3, 4), its length 5
    bowl.frozen.grad = torch.ones(1)  # of another loss
    with uphill(bowl, 0.5):
        assert bowl.at.tolist() == pytest.approx([3.3, 1.4])
        assert bowl.frozen.item() == 7
        bowl.at.grad = None
        bowl.loss().backward()
    assert bowl.at.tolist() == [3, 1]  # the same bits
    assert bowl.at.grad.tolist() == pytest.approx([3.3, 5.6])


def test_an_error_inside_brings_the_weights_back():
    bowl = Bowl()
    bowl.loss().backward()
    with pytest.raises(KeyError), uphill(bowl, 1e8):
        raise KeyError
    assert bowl.at.tolist() == [3, 1]


@pytest.mark.parametrize("slope", [1e-7, 6e4])
def test_gradients_whose_length_float16_does_not_hold(slope):
    weight = nn.Linear(2, 1, bias=False).half()
    nn.init.zeros_(weight.weight)
    weight.weight.grad = torch.full((1, 2), slope, dtype=torch.float16)
    with uphill(weight, 0.5):
        assert weight.weight.flatten().tolist() == pytest.approx([0.5 / 2**0.5] * 2, rel=1e-3)


def test_on_a_plain_there_is_no_way_up():
    bowl = Bowl()
    bowl.at.grad = torch.zeros(2)
    with uphill(bowl, 0.5):
        assert bowl.at.tolist() == [3, 1]
    bowl.at.grad = None
    with uphill(bowl, 0.5):
        assert bowl.at.tolist() == [3, 1]


def test_batch_norms_keep_the_statistics_of_the_weights_themselves():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).train()
    net(torch.randn(8, 2)).square().sum().backward()
    before = {name: value.clone() for name, value in net.named_buffers()}
    with uphill(net, 1.0):
        seen = net(5 + torch.randn(8, 2))
    assert seen.mean(0).abs().max() < 1e-5  # normed by what it saw
    assert all(torch.equal(value, before[name]) for name, value in net.named_buffers())
    net(5 + torch.randn(8, 2))
    assert not torch.equal(net[1].running_mean, before["1.running_mean"])


@pytest.fixture
def digits() -> Dataset:
    return datasets.take_share(datasets.load("digits", "train"), 0.1)


RECIPE = dict(batch_size=128, epochs=1, warmup_epochs=0, shift=0, rotation=0, zoom=0)


def test_a_step_is_the_papers(digits):
    """Equations 2 and 3 in a few lines, SGD without momentum or decay."""
    recipe = get_recipe(
        "digits", **RECIPE, optimizer="sgd", momentum=0, weight_decay=0, gradient_clip=0,
        learning_rate=0.1, sharpness_radius=0.2, drop_path=0.3, drop_path_grows=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model, twin = create_model("vit_micro_patch2_8"), create_model("vit_micro_patch2_8")
    twin.load_state_dict(model.state_dict())
    seen = []

    def record(part, given):
        seen.append((torch.get_rng_state(), given[0]))

    hook = model.register_forward_pre_hook(record)
    train(model, digits, recipe, device="cpu", progress=False)
    hook.remove()
    first, second = (each for each in seen if len(each[1]) == 128)
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])  # the same chance

    images, targets = Batches(digits, recipe, 0, torch.device("cpu"), 0, 1)[0]
    assert torch.equal(images, first[1])
    for block in twin.encoder.blocks:
        block.drop_path.rate = 0.3
    twin.train()
    weights = list(twin.parameters())

    def gradient():
        torch.set_rng_state(first[0])
        return torch.autograd.grad(cross_entropy(twin(images), targets, 0.2), weights)

    with torch.random.fork_rng([]), torch.no_grad():
        with torch.enable_grad():
            g = gradient()
        length = sum(part.square().sum() for part in g).sqrt()
        own = [weight.clone() for weight in weights]
        for weight, part in zip(weights, g, strict=True):
            weight += 0.2 * part / length
        with torch.enable_grad():
            steeper = gradient()
        for weight, before, part in zip(weights, own, steeper, strict=True):
            weight.copy_(before - 0.1 * part)
    for (name, found), expected in zip(model.named_parameters(), weights, strict=True):
        assert (found - expected).abs().max() < 1e-5, name


@pytest.mark.parametrize("batch_size", [25, 50])
def test_a_run_that_steps_too_far_says_what_to_try(digits, batch_size, tmp_path):
    few = Dataset(digits.images[:50], digits.labels[:50], digits.class_names, digits.provenance)
    recipe = get_recipe(
        "digits", epochs=1, batch_size=batch_size, warmup_epochs=0.0, sharpness_radius=1e15
    )
    became = "loss became nan" if batch_size == 25 else "weights became NaN or infinite"
    state = tmp_path / "state"
    with pytest.raises(TrainingDivergedError, match=f"{became} .* smaller sharpness_radius"):
        train(create_model("vit_micro_patch2_8"), few, recipe, state=state, progress=False)
    assert not state.exists()
