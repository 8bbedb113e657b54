"""What fits into memory: found with models that take few images, none alone, or fail otherwise."""

import pytest
import torch
from torch import nn

from vitbook.models.papers.resnet import ResNet
from vitbook.training.engine.memory import largest_fitting_batch, say_what_fits

IMAGE = torch.zeros(1, 4, 4)


class Limited(nn.Module):
    """A body and a linear head; more than ``most`` images get ``error``."""

    def __init__(self, body, most, error=None):
        super().__init__()
        self.body, self.head = body, nn.LazyLinear(10)
        self.most, self.error, self.tried = most, error or MemoryError(), []

    def forward(self, images):
        self.tried.append(len(images))
        logits = self.head(self.body(images))
        if len(images) > self.most:
            raise self.error
        return logits


class Squeezed(nn.Module):
    """A common slip: the axis of a single image is lost too."""

    def forward(self, images):
        return images.mean((2, 3), keepdim=True).repeat(1, 2, 1, 1).squeeze()


def one_place():
    """A last map of one place, over whose batch norm a single image cannot learn."""
    return ResNet(image_size=4, channels=1, blocks=1, num_classes=7)


def flat():
    return nn.Flatten()


@pytest.mark.parametrize(
    ("below", "most", "fits"),
    [(1, 9, 0), (2, 0, 0), (3, 2, 1), (6, 9, 3), (100, 12, 12), (64, 9, 8)],
)
def test_halves_of_what_did_not_fit_from_the_smallest_on(below, most, fits):
    model = Limited(flat(), most)
    assert largest_fitting_batch(model, IMAGE, below) == fits
    assert model.tried == sorted(model.tried) and below not in model.tried


@pytest.mark.parametrize(("below", "most", "fits"), [(64, 8, 8), (64, 1, 0), (3, 2, 0)])
def test_a_model_that_learns_from_no_single_image(below, most, fits):
    with pytest.raises(ValueError, match="more than 1 value"):
        one_place()(IMAGE[None])
    for body in (one_place, Squeezed):
        assert largest_fitting_batch(Limited(body(), most), IMAGE, below) == fits


def test_the_sentence_claims_nothing_of_a_single_image():
    words = say_what_fits(Limited(one_place(), 1), IMAGE, 8, 4)
    assert words == (
        "batch_size 32 does not fit into the memory of this machine, and no smaller one does "
        "(tried): take a smaller model or smaller images"
    )
    assert "; 16 does (tried): use batch_size=16," in say_what_fits(
        Limited(one_place(), 4), IMAGE, 8, 4
    )


def test_the_teacher_answers_beside_and_keeps_its_mode():
    teacher, student = Limited(one_place(), 4).train(), Limited(flat(), 99)
    teacher(IMAGE.expand(2, 1, 4, 4))
    before = {name: each.clone() for name, each in teacher.state_dict().items()}
    assert largest_fitting_batch(student, IMAGE, 64, teacher) == 4
    assert all(part.training for part in teacher.modules())
    assert all(weight.grad is None for weight in teacher.parameters())
    assert all(torch.equal(each, before[name]) for name, each in teacher.state_dict().items())


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("a slip")])
def test_batch_norm_keeps_what_it_learned_of_the_data(error):
    model = Limited(one_place(), 4, error)
    model(torch.rand(4, 1, 4, 4, generator=torch.Generator().manual_seed(0)))
    before = {name: each.clone() for name, each in model.state_dict().items()}
    try:
        assert largest_fitting_batch(model, IMAGE, 64) == 4
    except RuntimeError as slip:
        assert slip is error
    assert model.tried[1:] == [1, 2, 4, 8]
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


@pytest.mark.parametrize("most", [0, 4])
def test_an_error_that_is_no_lack_of_memory_is_not_hidden_and_leaves_no_gradient(most):
    model = Limited(flat(), most, RuntimeError("a slip"))
    model(IMAGE.expand(0, 1, 4, 4)).sum().backward()
    with pytest.raises(RuntimeError, match="a slip"):
        largest_fitting_batch(model, IMAGE, 64)
    assert all(weight.grad is None for weight in model.parameters())
