"""No score for what cannot have one: other classes, logits that are no numbers."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput

import vitbook
from vitbook.datasets import load, take_share
from vitbook.runs import get_recipe
from vitbook.training import TrainingDivergedError, evaluate, predict, train

RECIPE = get_recipe("digits", epochs=1, warmup_epochs=0, batch_size=32)


@pytest.fixture(scope="module")
def digits():
    return take_share(load("digits", "train"), 0.05)


OTHERS = {
    "another order": (
        ("1", "0", *"23456789"),
        "class 0 is '0' in the one and '1' in the other; expected the same classes in the same",
    ),
    "one more": ((*"0123456789", "ten"), "of 10 classes and held-out data of 11: class 10 is none"),
    "one other": ((*"01234567", "acht", "9"), "class 8 is '8' in the one and 'acht' in the other"),
}


@pytest.mark.parametrize("which", OTHERS)
def test_held_out_data_of_other_classes(which, digits):
    names, words = OTHERS[which]
    test = replace(digits, class_names=names)
    model = vitbook.create_model("vit_micro_patch2_8", num_classes=11)
    before = model.head.classifier.weight.clone()
    with pytest.raises(ValueError, match=words):
        train(model, digits, RECIPE, test=test, device="cpu", progress=False)
    assert torch.equal(model.head.classifier.weight, before)


def broken(kind):
    model = vitbook.create_model("vit_micro_patch2_8").eval()
    with torch.no_grad():
        if kind == "a NaN in the head":
            model.head.classifier.bias[3] = torch.nan
        elif kind == "an infinity in a norm":
            model.encoder.norm.weight[0] = torch.inf
        else:  # finite, but float16 ends at 65504
            model.head.classifier.bias[3] = 6e4
            model.head.classifier.weight.fill_(1e3)
            model.encoder.norm.bias.fill_(1e3)
            model.half()
    return model


@pytest.mark.parametrize("kind", ["a NaN in the head", "an infinity in a norm", "float16 overflow"])
def test_logits_that_are_no_numbers(kind, digits):
    model, count = broken(kind), len(digits)
    words = f"VisionTransformer answers {count} of {count} images with NaN or infinity: expected fi"
    with pytest.raises(ValueError, match=words):
        evaluate(model, digits)
    with pytest.raises(ValueError, match=words):
        predict(model, digits.images)


def test_no_images_have_no_score(digits):
    none = replace(digits, images=digits.images[:0], labels=digits.labels[:0])
    with pytest.raises(ValueError, match="has no images to score on"):
        evaluate(vitbook.create_model("vit_micro_patch2_8"), none)


def test_a_run_whose_weights_end_says_so_before_it_scores_them(digits):
    """Its last step of an epoch that is not the last: no loss has shown it yet."""
    model = vitbook.create_model("vit_micro_patch2_8")
    recipe = replace(RECIPE, epochs=3, learning_rate=3e38, optimizer="sgd", batch_size=64)
    with pytest.raises(TrainingDivergedError, match="in epoch 1 of 3: lower the learn"):
        train(model, digits, recipe, test=digits, device="cpu", progress=False)


class Answers(nn.Module):
    """A model that wraps its logits in something else."""

    def __init__(self, wrap):
        super().__init__()
        self.model, self.wrap = vitbook.create_model("vit_micro_patch2_8"), wrap

    def forward(self, images):
        return self.wrap(self.model(images))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda logits: {"logits": logits, "loss": None},
        lambda logits: {"out": logits},
        lambda logits: (logits, logits[0]),
        lambda logits: SequenceClassifierOutput(logits=logits),
    ],
)
def test_logits_in_what_a_model_wraps_them_in(wrap):
    data, model = load("digits", "test"), Answers(wrap)
    assert torch.equal(predict(model, data.images), predict(model.model, data.images))
    assert evaluate(model, data) == evaluate(model.model, data)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda it: (None, it),
        lambda it: {"a": it, "b": it},
        lambda it: "cat",
        lambda it: it[..., None],
    ],
)
def test_an_answer_without_logits(wrap):
    with pytest.raises(ValueError, match=r"Answers gave .*: expected \((batch|images), classes\)"):
        predict(Answers(wrap), load("digits", "test").images)
