"""Weights in the names and layouts of Google's codes: our logits are those of timm's own reader."""

import logging
from functools import partial

import numpy as np
import pytest
import torch
from timm.models.vision_transformer import VisionTransformer as Timm

import vitbook
from vitbook.layers import ClassTokenHead, resize_positions
from vitbook.models.catalog import fresh_twin
from vitbook.models.papers.vit import MICRO, MICRO_BODY, vit
from vitbook.models.weights.formats import WeightsError
from vitbook.models.weights.google import google_state, load_google
from vitbook.training import load_checkpoint, load_teacher, save_checkpoint, start_from

NAME = "vit_micro_patch2_8"
BODY = dict(embed_dim=64, depth=4, num_heads=4, mlp_ratio=2)


def layer(numbers, *shape):
    return numbers.normal(0, 0.2, shape).astype(np.float32)


def google(grid=(4, 4), patch=2, channels=1, classes=10, later=False, hybrid=False, hidden=False):
    """Names of vision_transformer's files, or of big_vision's; random numbers."""
    numbers, width, mlp = np.random.default_rng(0), 64, 128
    attention, second, perceptron = (0, 1, 0) if later else (1, 2, 3)
    found = {}

    def put(stem, *shape, bias=None, kernel="kernel"):
        found[f"{stem}/{kernel}"] = layer(numbers, *shape)
        found[f"{stem}/bias"] = layer(numbers, *(shape[-1:] if bias is None else bias))

    inputs = channels
    if hybrid:  # one stage of one block
        found["conv_root/kernel"] = layer(numbers, 7, 7, channels, 64)
        put("gn_root", 1, 1, 1, 64, bias=(1, 1, 1, 64), kernel="scale")
        unit, inputs = "block1/unit1", 256
        for n, shape in enumerate([(1, 1, 64, 64), (3, 3, 64, 64), (1, 1, 64, 256)], start=1):
            found[f"{unit}/conv{n}/kernel"] = layer(numbers, *shape)
            put(f"{unit}/gn{n}", shape[-1], kernel="scale")
        found[f"{unit}/conv_proj/kernel"] = layer(numbers, 1, 1, 64, 256)
        put(f"{unit}/gn_proj", 256, kernel="scale")
    put("embedding", patch, patch, inputs, width)
    found["cls"] = layer(numbers, 1, 1, width)
    rows = grid[0] * grid[1] + (not later)
    place = "pos_embedding" if later else "Transformer/posembed_input/pos_embedding"
    found[place] = layer(numbers, 1, rows, width)
    for number in range(4):
        block = f"Transformer/encoderblock_{number}"
        for norm in (0, second):
            put(f"{block}/LayerNorm_{norm}", width, kernel="scale")
        put(f"{block}/MlpBlock_{perceptron}/Dense_0", width, mlp)
        put(f"{block}/MlpBlock_{perceptron}/Dense_1", mlp, width)
        heads = f"{block}/MultiHeadDotProductAttention_{attention}"
        for part in ("query", "key", "value"):
            put(f"{heads}/{part}", width, 4, 16, bias=(4, 16))
        put(f"{heads}/out", 4, 16, width)
    put("Transformer/encoder_norm", width, kernel="scale")
    if hidden:
        put("pre_logits", width, width)
    if classes:
        put("head", width, classes)
    return found


def stacked(arrays):
    """As big_vision stores blocks that were scanned."""
    block, depth = "Transformer/encoderblock", 4
    rest = {name: each for name, each in arrays.items() if not name.startswith(block)}
    first = [name for name in arrays if name.startswith(f"{block}_0/")]
    return rest | {
        name.replace("_0", "", 1): np.stack(
            [arrays[name.replace("_0", f"_{n}", 1)] for n in range(depth)]
        )
        for name in first
    }


def behind(root, arrays):
    return {f"{root}{name}": each for name, each in arrays.items()}


@pytest.fixture
def write(tmp_path):
    def written(arrays, name="google.npz"):
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return written


def timms(path, size=8, patch=2, channels=1, classes=10, **changes):
    settings = dict(img_size=size, patch_size=patch, in_chans=channels, num_classes=classes)
    model = Timm(**settings | BODY | changes).eval()
    model.load_pretrained(str(path))
    return model


def assert_alike(ours, theirs, size, channels=1):
    height, width = (size, size) if isinstance(size, int) else size
    images = torch.randn(2, channels, height, width, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = theirs(images)
        assert logits.std() > 0.1
        torch.testing.assert_close(ours.eval()(images), logits, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("root", ["", "opt/target/", "params/"])
def test_the_logits_are_those_of_timms_reader(root, write):
    # timm takes what begins with params/ for one of the later code.
    later = dict(later=True) if root == "params/" else {}
    arrays = google(**later)
    if later:  # timm wants a place for the class token
        arrays["pos_embedding"] = np.pad(arrays["pos_embedding"], ((0, 0), (1, 0), (0, 0)))
    path = write(behind(root, arrays))
    theirs = timms(path)
    ours = load_checkpoint(path).model
    assert ours.spec == vitbook.create_model(NAME).spec
    assert_alike(ours, theirs, 8)
    state = ours.state_dict()
    for number, block in enumerate(theirs.blocks):
        at = f"encoder.blocks.{number}"
        assert torch.equal(state[f"{at}.attention.qkv.weight"], block.attn.qkv.weight)
        assert torch.equal(state[f"{at}.attention.projection.weight"], block.attn.proj.weight)
        assert torch.equal(state[f"{at}.mlp.contract.weight"], block.mlp.fc2.weight)
    assert torch.equal(state["position.table"], theirs.pos_embed[0])


@pytest.mark.parametrize("size", [4, (8, 12)])
def test_positions_on_another_grid_are_timms_bit_for_bit(size, write):
    path = write(google())
    theirs = timms(path, size=size)
    for ours in (
        load_checkpoint(path, image_size=size).model,
        load_checkpoint(path, vitbook.create_model(NAME, image_size=size)).model,
    ):
        assert torch.equal(ours.position.table, theirs.pos_embed[0])
        assert_alike(ours, theirs, size)
    own = load_google(vitbook.create_model(NAME, image_size=size), path, "google_bilinear")
    table = google_state(path)["pos_embed"][0]
    expected = resize_positions(table, (4, 4), tuple(own.grid_size), 1, "google_bilinear")
    assert torch.equal(own.position.table, expected)


@pytest.mark.parametrize("classes", [10, 21])
def test_the_head_says_how_many_classes(classes, write):
    path = write(google(patch=4, grid=(2, 2), channels=3, classes=classes))
    ours = load_checkpoint(path).model
    assert ours.spec.name == "vit_micro_patch4_8" and ours.spec.num_classes == classes
    assert_alike(ours, timms(path, patch=4, channels=3, classes=classes), 8, channels=3)


def test_the_hybrid(write):
    path = write(google(grid=(8, 8), patch=1, hybrid=True))
    ours = load_checkpoint(path).model
    assert ours.spec.name == "vit_micro_r5_s4_32" and ours.spec.image_size == 32
    # timm's name for any stages is its R50's.
    from timm.models.resnetv2 import ResNetV2
    from timm.models.vision_transformer_hybrid import HybridEmbed, StdConv2dSame

    backbone = ResNetV2(
        layers=(1,), channels=(256,), in_chans=1, num_classes=0, global_pool="", preact=False,
        stem_type="same", conv_layer=StdConv2dSame,
    )  # fmt: skip
    embed = lambda **more: HybridEmbed(backbone=backbone, **more)  # noqa: E731
    theirs = timms(path, size=32, patch=1, embed_layer=embed)
    assert_alike(ours, theirs, 32)


def test_big_transfer(write):
    """Ours are built of the same units: here two of one stage."""
    numbers, arrays = np.random.default_rng(0), {}
    arrays["resnet/root_block/standardized_conv2d/kernel"] = layer(numbers, 7, 7, 1, 64)
    for unit, inputs in (("unit01", 64), ("unit02", 256)):
        at = f"resnet/block1/{unit}"
        shapes = [(1, 1, inputs, 64), (3, 3, 64, 64), (1, 1, 64, 256)]
        for part, shape in zip("abc", shapes, strict=True):
            arrays[f"{at}/{part}/standardized_conv2d/kernel"] = layer(numbers, *shape)
            for name in ("gamma", "beta"):
                arrays[f"{at}/{part}/group_norm/{name}"] = layer(numbers, shape[2])
    arrays["resnet/block1/unit01/a/proj/standardized_conv2d/kernel"] = layer(numbers, 1, 1, 64, 256)
    for name in ("gamma", "beta"):
        arrays[f"resnet/group_norm/{name}"] = layer(numbers, 256)
    arrays["resnet/head/conv2d/kernel"] = layer(numbers, 1, 1, 256, 10)
    arrays["resnet/head/conv2d/bias"] = layer(numbers, 10)
    path = write(arrays)
    from timm.models.resnetv2 import ResNetV2
    from timm.models.vision_transformer_hybrid import StdConv2d

    theirs = ResNetV2(
        layers=(2,), channels=(256,), in_chans=1, num_classes=10, stem_type="fixed",
        conv_layer=StdConv2d,
    ).eval()  # fmt: skip
    theirs.load_pretrained(str(path))
    ours = load_checkpoint(path).model
    assert ours.spec.name == "bit_resnet8x1_digits"
    assert_alike(ours, theirs, 8)


def test_later_codes_stack_their_blocks_and_give_the_class_token_no_place(write):
    arrays = google(later=True)
    plain = load_checkpoint(write(behind("params/", arrays), "plain.npz")).model
    scanned = load_checkpoint(write(behind("params/img/", stacked(arrays)), "scanned.npz")).model
    for name, tensor in plain.state_dict().items():
        assert torch.equal(scanned.state_dict()[name], tensor), name
    assert not plain.position.table[0].any()
    assert torch.equal(plain.position.table[1:], torch.tensor(arrays["pos_embedding"][0]))


def test_a_head_that_does_not_answer_the_model_is_left_out_and_said(write, caplog):
    caplog.set_level(logging.WARNING)
    model = vitbook.create_model(NAME, num_classes=3)
    head = model.head.classifier.weight.clone()
    load_google(model, write(google()))
    assert torch.equal(model.head.classifier.weight, head)
    assert "google.npz was left out: it has 10 classes, the model 3" in caplog.text
    # As in pre-training: timm would leave the tanh layer out, and answer with the rest.
    path = write(google(hidden=True))
    load_google(vitbook.create_model(NAME), path)
    assert "it stands behind a tanh layer, which the model lacks" in caplog.text
    head = partial(ClassTokenHead, hidden_width=MICRO_BODY.width)
    whole = vit(**MICRO, make_head=head)
    load_google(whole, path)
    kernel = torch.tensor(google(hidden=True)["pre_logits/kernel"])
    assert torch.equal(whole.head.hidden[0].weight, kernel.T)


@pytest.mark.parametrize("how", [dict(classes=0), dict(hidden=True)])
def test_a_body_without_an_answer_gives_its_class_token(how, write, tmp_path):
    body, images = load_checkpoint(write(google(**how))).model, torch.rand(2, 1, 8, 8)
    assert body.spec.num_classes == 0
    assert torch.equal(body(images), body.features(images)[:, 0])
    again = load_checkpoint(save_checkpoint(tmp_path / "x", body), image_size=12).model
    assert torch.equal(again.encoder.norm.weight, body.encoder.norm.weight)


def test_half_precision(write):
    """numpy has no bfloat16: it writes two bytes without a kind."""
    arrays = google()
    half = {
        name: torch.tensor(each).bfloat16().view(torch.int16).numpy().view("V2")
        for name, each in arrays.items()
    }
    ours = load_checkpoint(write(half)).model
    weight = torch.tensor(arrays["head/kernel"]).bfloat16().float().T
    assert torch.equal(ours.head.classifier.weight, weight)


def test_every_door_takes_it(write, tmp_path):
    path = write(google())
    model = start_from(path, NAME, image_size=12, num_classes=3, channels=1)
    assert torch.equal(model.encoder.norm.weight, google_state(path)["norm.weight"])
    assert not model(torch.rand(1, 1, 12, 12)).any()
    digits = vitbook.datasets.load("digits", "test")
    assert fresh_twin(load_checkpoint(path).model).spec.name == NAME
    assert load_teacher(path, digits, "digits")(torch.rand(1, 1, 8, 8)).shape == (1, 10)
    again = load_checkpoint(save_checkpoint(tmp_path / "x", load_checkpoint(path).model)).model
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(again(images), load_checkpoint(path).model(images))


def without(arrays, *names):
    return {name: each for name, each in arrays.items() if name not in names}


ATTENTION = "Transformer/encoderblock_2/MultiHeadDotProductAttention_1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: behind("x/", a), "has the arrays x/embedding/kernel, .*: expected the names of"),
        (lambda a: a | behind("params/", a), "with one embedding/kernel"),
        (lambda a: a | {"cls": np.array([{}], object)}, "cannot be read .*allow_pickle"),
        (lambda a: without(a, f"{ATTENTION}/key/bias"), "has query, value for blocks.2.attn.qkv"),
        (lambda a: a | {f"{ATTENTION}/out/kernel": a["cls"][0]}, "of shape .*: expected heads"),
        (lambda a: a | {"MAPHead_0/probe": a["cls"]}, "do not fit .*unexpected: MAPHead"),
        (lambda a: without(a, "cls"), "google.npz do not fit this model: missing: cls_token"),
        (lambda a: a | {"cls": a["cls"] * np.nan}, "NaN or infinite: cls_token"),
        (
            lambda a: without(a, *[n for n in a if "block_3" in n]),
            "model with patch_size 2, width 64, depth 3, num_heads 4, mlp_width 128, .*, which the",
        ),
    ],
)
def test_what_is_no_such_file_is_refused_in_one_sentence(change, words, write):
    with pytest.raises(ValueError, match=words):
        load_checkpoint(write(change(google())))


def test_a_cut_archive(write):
    path = write(google())
    whole = path.read_bytes()
    for cut in (60, len(whole) - 30):
        path.write_bytes(whole[:cut])
        with pytest.raises(WeightsError, match="a zip archive .* cut short at .* bytes: expected"):
            load_checkpoint(path)
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 255
    path.write_bytes(damaged)
    with pytest.raises(WeightsError, match="cannot be read .*CRC"):
        load_checkpoint(path)
