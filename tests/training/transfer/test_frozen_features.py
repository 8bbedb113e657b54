"""Features are computed once, and never those of something else."""

import copy
from importlib.util import find_spec

import pytest
import timm
import torch
from safetensors.torch import load_file
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.analysis import layer_tokens
from vitbook.training.transfer import frozen_features as module
from vitbook.training.transfer.frozen_features import frozen_features


@pytest.fixture
def body():
    torch.manual_seed(0)
    return vitbook.create_model("vit_micro_patch2_8").eval()


@pytest.fixture
def digits():
    return datasets.load("digits", "test").images


def test_features_are_the_class_token_beside_the_mean(body, digits, tmp_path):
    (found,) = frozen_features(body, datasets.normalize, digits[:7], 8, tmp_path)
    tokens = body.features(datasets.normalize(digits[:7])).detach()
    expected = torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], dim=1)
    assert found.shape == (7, 128)
    assert (found - expected).abs().max() < 2e-3  # kept in float16


def test_patches_side_by_side_are_kept_apart_from_their_mean(body, digits, tmp_path):
    given = body, datasets.normalize, digits[:7], 8, tmp_path
    (mean,) = frozen_features(*given)
    for _ in range(2):  # computed, then read
        (found,) = frozen_features(*given, each_patch=True)
        tokens = body.features(datasets.normalize(digits[:7])).detach()[:, 1:]
        assert (found - tokens.flatten(1)).abs().max() < 2e-3
        assert torch.equal(next(frozen_features(*given)), mean)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_a_block_is_read_by_its_number_and_kept_apart_from_the_others(body, digits, tmp_path):
    given = body, datasets.normalize, digits[:7], 8, tmp_path
    (last,) = frozen_features(*given)
    for layer in (0, "encoder.blocks.0", None):
        (found,) = frozen_features(*given, layer=layer)
        tokens = layer_tokens(body, datasets.normalize(digits[:7]), layer).detach()
        expected = torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], dim=1)
        assert (found - expected).abs().max() < 5e-3
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    assert torch.equal(next(frozen_features(*given)), last)
    with pytest.raises(KeyError, match=r"encoder\.blocks\.3"):
        next(frozen_features(*given, layer=4))


@pytest.mark.parametrize("name", ["tf_efficientnet_lite0", "swin_tiny_patch4_window7_224"])
def test_of_maps_it_reads_what_their_head_is_given(name, tmp_path):
    torch.manual_seed(0)
    network = timm.create_model(name).eval()
    images = torch.randint(256, (2, 3, 224, 224), dtype=torch.uint8)
    (found,) = frozen_features(network, datasets.normalize, images, 224, tmp_path)
    with torch.no_grad():
        logits = network(datasets.normalize(images))
        assert (network.get_classifier()(found) - logits).norm() < 2e-3 * logits.norm()
    with pytest.raises(ValueError, match="gives features of shape .* expected .images, tokens"):
        next(frozen_features(network, datasets.normalize, images, 224, tmp_path, each_patch=True))


def test_a_head_that_does_not_pool_is_refused(tmp_path):
    model = timm.create_model("resnet10t", num_classes=0, global_pool="").eval()
    images = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"head of ResNet makes \(1, 512, 2, 2\) of 1 images"):
        next(frozen_features(model, datasets.normalize, images, 64, tmp_path))


def test_what_was_cut_off_goes_on_and_other_weights_are_other_features(
    body, digits, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "CHUNK", 3)
    seen = []

    def normalize(images):
        seen.append(len(images))
        return datasets.normalize(images)

    half = frozen_features(body, normalize, digits[:7], 8, tmp_path)
    first = next(half)
    half.close()
    whole = list(frozen_features(body, normalize, digits[:7], 8, tmp_path))
    # One image at first, and of each chunk; whole chunks where they are not kept.
    assert seen == [1, 1, 3, 1, 1, 1, 3, 1, 1] and torch.equal(whole[0], first)
    seen.clear()
    next(tmp_path.glob("*.safetensors")).write_bytes(b"half")
    again = torch.cat(list(frozen_features(body, normalize, digits[:7], 8, tmp_path)))
    assert sum(seen) in (5, 7) and torch.equal(again, torch.cat(whole))
    seen.clear()
    with torch.no_grad():
        body.encoder.norm.weight[0] += 1
    other = torch.cat(list(frozen_features(body, normalize, digits[:7], 8, tmp_path)))
    assert sum(seen) == 4 + 7 and not torch.equal(other, again)


@pytest.fixture
def kept(body, digits, tmp_path):
    """A chunk as it is kept, its file, and how to ask for it again."""

    def again():
        return torch.cat(list(frozen_features(body, datasets.normalize, digits[:7], 8, tmp_path)))

    whole = again()
    (path,) = tmp_path.glob("*.safetensors")
    return whole, path, again


def test_a_flipped_bit_in_a_kept_chunk_is_noticed(kept):
    whole, path, again = kept
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # of the last number
    path.write_bytes(content)
    assert not torch.equal(load_file(path)["features"].float(), whole)
    assert torch.equal(again(), whole)
    assert torch.equal(load_file(path)["features"].float(), whole)


def test_features_that_are_no_numbers_are_not_kept(body, digits, tmp_path):
    with torch.no_grad():
        body.encoder.norm.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="features of 7 images hold NaN or infinity as float16"):
        next(frozen_features(body, datasets.normalize, digits[:7], 8, tmp_path / "kept"))
    assert not (tmp_path / "kept").exists()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="could not write .*file: .*Not a directory"):
        next(frozen_features(body, datasets.normalize, digits[:7], 8, tmp_path / "file"))


def test_between_chunks_the_model_is_as_it_came(tmp_path):
    model = vitbook.create_model("vit_micro_patch2_8").train()
    images = torch.randint(256, (501, 1, 8, 8), dtype=torch.uint8)
    given = model, lambda some: some / 255, images, 8
    chunks = frozen_features(*given, tmp_path / "one")
    found = [next(chunks)]
    assert model.training
    found += chunks
    assert model.training
    assert [len(each) for each in found] == [500, 1]


def test_another_normalization_has_features_of_its_own(body, digits, tmp_path):
    def features(normalize):
        return torch.cat(list(frozen_features(body, normalize, digits[:7], 8, tmp_path)))

    first, other = features(datasets.normalize), features(lambda images: images / 255)
    assert (first - other).norm() > 0.1 * first.norm()
    expected = next(
        frozen_features(body, lambda images: images / 255, digits[:7], 8, tmp_path / "o")
    )
    assert torch.equal(other, expected)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    assert torch.equal(features(datasets.normalize), first)


def test_equal_weights_in_another_model_are_other_features(digits, tmp_path):
    """The number of heads is not in the weights."""
    body = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
    (four,) = frozen_features(body, datasets.normalize, digits[:7], 8, tmp_path)
    for block in body.encoder.blocks:
        block.attention.num_heads = 2
    (two,) = frozen_features(body, datasets.normalize, digits[:7], 8, tmp_path)
    (expected,) = frozen_features(body, datasets.normalize, digits[:7], 8, tmp_path / "other")
    assert torch.equal(two, expected) and not torch.equal(two, four)


def test_a_model_without_a_class_token_gives_the_mean_alone(digits, tmp_path):
    body = vitbook.create_model("resnet8_digits").eval()
    (found,) = frozen_features(body, datasets.normalize, digits[:7], 8, tmp_path)
    with torch.no_grad():
        expected = body.features(datasets.normalize(digits[:7])).mean(dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-3)


def test_a_register_is_no_class_token(tmp_path):
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, depth=1, class_token=False, reg_tokens=2,
        global_pool="avg",
    ).eval()  # fmt: skip
    images = torch.randint(256, (3, 3, 32, 32), dtype=torch.uint8)
    (found,) = frozen_features(model, datasets.normalize, images, 32, tmp_path)
    with torch.no_grad():
        expected = model.forward_features(datasets.normalize(images))[:, 2:].mean(dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=4e-3)


def test_a_class_token_that_the_model_does_not_count(tmp_path):
    once, width = (1, 1, 1, 1), (24, 24, 24, 24)
    model = timm.models.VOLO(once, img_size=32, embed_dims=width, num_heads=once).eval()
    given = datasets.normalize, torch.randint(256, (3, 3, 32, 32), dtype=torch.uint8), 32, tmp_path
    with torch.no_grad():
        tokens = model.forward_features(given[0](given[1]))
    assert tokens.shape == (3, 1 + 4, 24)
    (found,) = frozen_features(model, *given, each_patch=True)
    torch.testing.assert_close(found, tokens[:, 1:].flatten(1), rtol=0, atol=4e-3)
    (found,) = frozen_features(model, *given)
    expected = torch.cat([tokens[:, 0], tokens[:, 1:].mean(dim=1)], dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=4e-3)


class Pair(torch.nn.Module):
    """Without a parameter, and of two outputs."""

    def features(self, images):
        return images, images


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"batch_size": 0}, "batch_size 0: expected a whole number, 1 or more"),
        ({"normalize": lambda images: images}, "normalize made Tensor of 1 images: expected fl"),
        ({"images": torch.zeros(0, 1, 8, 8, dtype=torch.uint8)}, r"images of shape \(0, 1, 8, 8\)"),
        (
            {"normalize": lambda images: images[:0] / 255},
            r"made torch.float32 of \(0, 1, 8",
        ),
        ({"model": Pair()}, "Pair gives features of a tuple: expected"),
        ({"model": torch.nn.Linear(8, 8)}, "Linear gives no features: expected a model of ours"),
    ],
)
def test_what_gives_no_features(body, digits, tmp_path, change, told):
    given = dict(
        model=body, normalize=datasets.normalize, images=digits[:7], image_size=8, folder=tmp_path
    )
    with pytest.raises(ValueError, match=told):
        next(frozen_features(**given | change))
    assert not list(tmp_path.iterdir())


class WithState(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.features = body.features

    def get_extra_state(self):
        return {"step": 3}


def int8(body):
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    quantize_(body, Int8WeightOnlyConfig())
    return body


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            int8,
            "qkv.weight of this VisionTransformer is a Int8Tensor: expected a plain tensor",
            marks=pytest.mark.skipif(find_spec("torchao") is None, reason="no torchao"),
        ),
        (lambda body: copy.deepcopy(body).to("meta"), "is a Tensor, torch.strided on meta: exp"),
        (WithState, "_extra_state of this WithState is a dict: expected a plain tensor"),
    ],
)
def test_weights_without_bytes_are_one_sentence(body, digits, change, said, tmp_path):
    with pytest.raises(TypeError, match=said):
        next(frozen_features(change(body), datasets.normalize, digits[:2], 8, tmp_path))
    assert not list(tmp_path.iterdir())
