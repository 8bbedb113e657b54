"""What every probe says of images that are none, and of where they were made."""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import vitbook
from vitbook import analysis
from vitbook.analysis.capture.running import logits_of

IMAGES = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
TARGETS = torch.tensor([0, 1, 2, 3])
# Whatever else a probe asks for, nothing of it is looked at before the images.
PROBES = {
    name: probe
    for name in analysis.__all__
    if inspect.isfunction(probe := getattr(analysis, name))
    and "images" in inspect.signature(probe).parameters
}
WRONG = {
    "one image": (IMAGES[0], r"shape \(1, 8, 8\): expected a tensor \(images, ch.* images\[None\]"),
    "no channels": (IMAGES[0, 0], r"shape \(8, 8\): .* images\[None, None\]"),
    "clips": (IMAGES[None], r"shape \(1, 4, 1, 8, 8\): .* images.flatten\(0, 1\)"),
    "a number": (torch.tensor(1.0), r"shape \(\): expected a tensor \(images, channels"),
    "numpy": (IMAGES.numpy(), r"a numpy array of shape \(4, 1, 8, 8\): .* torch.from_numpy"),
    "a list": (list(IMAGES), r"a list of 4 \(Tensor\): .* torch.stack\(images\)"),
    "arrays": ([np.ones((1, 8, 8))], r"a list of 1 \(ndarray\): .*to_tensor"),
    "a picture": (Image.new("L", (8, 8)), r"came as Image: expected a tensor .*to_tensor"),
    "a dict": ({"pixel_values": IMAGES}, r"came as dict: .* images\['pixel_values'\]"),
    "nothing": (None, r"came as NoneType: expected a tensor"),
    "meta": (IMAGES.to("meta"), "on the meta device, without numbers: expected a tensor"),
    "sparse": (IMAGES.to_sparse(), "torch.sparse_coo tensor: expected a dense one"),
    "nested": (
        torch.nested.nested_tensor([IMAGES[0], IMAGES[0, :, :4]], layout=torch.jagged),
        "a nested tensor: expected a dense one",
    ),
    "no pixels": (IMAGES[:, :, :0], r"\(4, 1, 0, 8\) have no pixels"),
    "no images": (IMAGES[:0], "no images came: expected at least one"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBES)
def test_images_that_are_none(name):
    taken = list(inspect.signature(PROBES[name]).parameters.values())
    given = {p.name: object() for p in taken if p.default is p.empty}
    for wrong, (images, said) in WRONG.items():
        if name == "attention_rollout" and images is None:
            continue  # it takes maps instead
        if "model" in given:
            given["model"] = nn.Identity()
        with pytest.raises((TypeError, ValueError), match=said) as found:
            PROBES[name](**given | {"images": images})
        assert "\n" not in str(found.value), wrong


def test_all_probes_are_found():
    assert len(PROBES) >= 22


def test_numbers_that_no_model_takes():
    for name, probe in PROBES.items():
        taken = inspect.signature(probe).parameters.values()
        given = {p.name: object() for p in taken if p.default is p.empty}
        for images, said in (
            (IMAGES.long(), "images are int64: expected floating point"),
            (IMAGES.log(), "images hold NaN or infinity"),
            (IMAGES.cfloat(), "images are complex64"),
        ):
            if name == "overlay":
                said = "expected bytes, uint8"
            with pytest.raises((TypeError, ValueError), match=said):
                probe(**given | {"images": images})


EXPLANATIONS = {
    "attention_rollout": (),
    "effective_field": (),
    "gradient_rollout": (),
    "guided_backpropagation": (),
    "integrated_gradients": (TARGETS,),
    "map_grad_cam": (),
    "patch_occlusion": (TARGETS,),
    "relevance": (TARGETS,),
    "token_grad_cam": (TARGETS,),
}
CONVOLUTIONAL = ("guided_backpropagation", "map_grad_cam")


def same(found, expected) -> bool:
    if isinstance(expected, torch.Tensor):
        return torch.equal(found, expected)
    return found == expected


def model_for(name: str) -> nn.Module:
    torch.manual_seed(0)
    of_one = name in CONVOLUTIONAL
    return vitbook.create_model("resnet8_digits" if of_one else "vit_micro_patch2_8").eval()


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_where_it_is_called_and_images_were_made_changes_nothing(name):
    model, probe = model_for(name), getattr(analysis, name)
    expected = probe(model, IMAGES, *EXPLANATIONS[name])
    with torch.inference_mode():
        made = IMAGES.clone()
        asked = [a.clone() if isinstance(a, torch.Tensor) else a for a in EXPLANATIONS[name]]
        assert same(probe(model, made, *asked), expected)
    assert same(probe(model, made, *asked), expected)
    with torch.no_grad():
        assert same(probe(model, IMAGES, *EXPLANATIONS[name]), expected)


@pytest.mark.parametrize("name", [name for name in EXPLANATIONS if name != "patch_occlusion"])
def test_weights_made_where_there_are_no_gradients(name):
    with torch.inference_mode():
        model = model_for(name)
    with pytest.raises(ValueError, match=r"weights of .* made inside torch.inference_mode, with"):
        getattr(analysis, name)(model, IMAGES, *EXPLANATIONS[name])


@dataclass
class Answer:
    logits: torch.Tensor


class Wrapped(nn.Module):
    def __init__(self, model: nn.Module, wrap):
        super().__init__()
        self.model, self.wrap = model, wrap

    def forward(self, images):
        return self.wrap(self.model(images))


WRAPS = {
    "dict": lambda logits: {"logits": logits, "loss": None, "hidden": logits[0]},
    "dict of one": lambda logits: {"out": logits, "aux": None},
    "tuple": lambda logits: (logits, logits[0]),
    "list": lambda logits: [logits],
    "object": Answer,
}


@pytest.mark.parametrize("wrap", WRAPS)
def test_logits_out_of_what_they_are_wrapped_in(wrap):
    model = model_for("relevance")
    wrapped = Wrapped(model, WRAPS[wrap])
    assert torch.equal(logits_of(wrapped)(IMAGES), model(IMAGES))
    found, expected = (
        analysis.patch_occlusion(each, IMAGES, TARGETS, grid_size=(4, 4))
        for each in (wrapped, model)
    )
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda logits: {"a": logits, "b": logits},
        lambda logits: (None, logits),
        lambda logits: [],
        lambda logits: "cat",
    ],
)
def test_no_logits_to_be_found(wrap):
    model = Wrapped(model_for("relevance"), wrap)
    with pytest.raises(ValueError, match=r"Wrapped gave .*: expected \(batch, classes"):
        logits_of(model)(IMAGES)
