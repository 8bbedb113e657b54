"""The file against torch, and what is refused with nothing written."""

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import vitbook
from vitbook import create_model, datasets, load_checkpoint
from vitbook.analysis import capture_attention
from vitbook.errors import UnknownNameError
from vitbook.export import ExportError, export_onnx

FAMILIES = ("vit_relpos2d", "sl_vit", "t2t_vit", "performer_vit", "linformer_vit")


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits", "test").images[:3]


@pytest.fixture(scope="module")
def trained():
    return load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model


def micro(family="vit"):
    """Of two blocks: a file is written block by block."""
    torch.manual_seed(0)
    model = create_model(f"{family}_micro_patch2_8", num_classes=10).eval()
    del model.encoder.blocks[2:]
    return model


def run(path, image):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, {"pixels": image[None].numpy()}), strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_of_attention_is_written_as_torch_computes_it(family, tmp_path, digits):
    model, file = micro(family), tmp_path / "model.onnx"
    exported = export_onnx(model, file, digits, datasets.normalize, attention=True, tokens=True)
    assert max(exported.errors.values()) < 1e-5
    with torch.no_grad(), capture_attention(model) as maps:
        answer = model(datasets.normalize(digits[:1]))
    found = run(file, digits[0])
    assert {name for name in found if name.startswith("attention:")} == {
        f"attention:{path}" for path in maps
    }
    for path, wanted in maps.items():
        given = torch.from_numpy(found[f"attention:{path}"])
        torch.testing.assert_close(given, wanted, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(torch.from_numpy(found["answer"]), answer, atol=1e-4, rtol=1e-4)
    assert len([name for name in found if name.startswith("tokens:")]) >= 2


def test_another_library_s_model_and_one_without_attention(tmp_path, digits):
    timm = pytest.importorskip("timm")
    foreign = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, in_chans=1, num_classes=3, depth=2
    )
    large = nn.functional.interpolate(digits.float(), size=32).to(torch.uint8)
    was = foreign.training
    given = export_onnx(foreign, tmp_path / "a.onnx", large, datasets.normalize, attention=True)
    assert len(given.errors) == 3 and max(given.errors.values()) < 1e-4
    assert foreign.training is was
    plain = create_model("resnet8_digits", image_size=32)
    given = export_onnx(plain, tmp_path / "b.onnx", large, datasets.normalize)
    assert list(given.errors) == ["answer"] and given.errors["answer"] < 1e-4


def test_fewer_bits_weigh_less_and_cost_what_is_said(tmp_path, digits):
    model, sizes, errors = micro(), {}, {}
    for precision in ("float32", "float16", "int8"):
        file = tmp_path / f"{precision}.onnx"
        given = export_onnx(model, file, digits, datasets.normalize, precision=precision)
        sizes[precision], errors[precision] = file.stat().st_size, given.errors["answer"]
        assert given.num_bytes == sizes[precision]
        with torch.no_grad():
            wanted = model(datasets.normalize(digits))
        each = [torch.from_numpy(run(file, image)["answer"])[0] for image in digits]
        apart = max(
            ((a - b).abs().max() / b.abs().max()).item() for a, b in zip(each, wanted, strict=True)
        )
        assert errors[precision] == pytest.approx(apart, rel=1e-2, abs=1e-6)
    assert sizes["float16"] < 0.6 * sizes["float32"] and sizes["int8"] < 0.4 * sizes["float32"]
    assert errors["float32"] < 1e-5 < errors["float16"] < 1e-2 and errors["int8"] > 1e-3


class Linear(nn.Module):
    """Sixty-four numbers times a matrix whose rows reach 127 times a step of their own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.step = 2.0 ** torch.arange(-5, 5).repeat(4)[:, None]
        whole = torch.randint(-127, 128, (40, 64)).float()
        whole[:, 0] = 127
        self.layer = nn.Linear(64, 40)
        self.layer.weight.data = whole * self.step

    def forward(self, images):
        return self.layer(images.flatten(1))


def test_weights_that_have_eight_bits_lose_nothing_in_int8(tmp_path, digits):
    model, file = Linear(), tmp_path / "model.onnx"
    given = export_onnx(model, file, digits, lambda images: images / 255, precision="int8")
    assert given.errors["answer"] < 1e-6
    stored = {each.name: each for each in onnx.load(file).graph.initializer}
    (name,) = [name for name in stored if name.endswith(":int8")]
    whole = torch.from_numpy(onnx.numpy_helper.to_array(stored[name]).copy())
    wanted = (model.layer.weight.detach() / model.step).to(torch.int8)
    assert torch.equal(whole.flatten().sort().values, wanted.flatten().sort().values)


def test_a_row_of_zeros_and_a_weight_beyond_float16(tmp_path, digits):
    model = Linear()
    model.layer.weight.data[3] = 0
    model.layer.weight.data[4, 5] = 1e6
    for precision, most in (("float16", 1e-6), ("int8", 0.05)):
        given = export_onnx(
            model, tmp_path / "m.onnx", digits, lambda images: images / 255, precision=precision
        )
        assert given.errors["answer"] < most


def test_the_file_tells_nothing_of_where_it_was_made(tmp_path, digits, trained):
    file = tmp_path / "model.onnx"
    export_onnx(
        trained, file, digits, datasets.normalize, attention=True, tokens=True,
        about={"model": "a name"},
    )  # fmt: skip
    content = file.read_bytes()
    for folder in (vitbook.__path__[0], torch.__path__[0]):
        assert folder.encode() not in content
    assert {each.key: each.value for each in onnx.load(file).metadata_props}["model"] == "a name"


class Fickle(nn.Module):
    def forward(self, images):
        return images.flatten(1) + torch.rand(1)


class Parts(nn.Module):
    def __init__(self, *more):
        super().__init__()
        self.layer, self.more = nn.Linear(64, 40), more

    def forward(self, images):
        sums = self.layer(images.flatten(1))
        return {"all": sums, "least": sums.min(1).values} | dict.fromkeys(self.more, "no tensor")


def test_a_dict_of_tensors_keeps_its_names(tmp_path, digits):
    model = Parts()
    given = export_onnx(model, tmp_path / "a.onnx", digits, lambda images: images / 255)
    assert list(given.errors) == ["answer:all", "answer:least"]
    found = run(tmp_path / "a.onnx", digits[1])
    with torch.no_grad():
        wanted = model(digits[1:2] / 255)
    for name, each in wanted.items():
        torch.testing.assert_close(torch.from_numpy(found[f"answer:{name}"]), each)


def test_transposed_convolutions_have_a_scale_for_each_output_channel(tmp_path):
    torch.manual_seed(0)
    model = nn.ConvTranspose2d(4, 24, 4, stride=2, padding=1)
    step = 2.0 ** torch.arange(-12, 12)[None, :, None, None]
    whole = torch.randint(-127, 128, model.weight.shape).float()
    whole[0, :, 0, 0] = 127
    model.weight.data = whole * step
    images = torch.randint(0, 256, (2, 4, 8, 8), dtype=torch.uint8)
    file = tmp_path / "a.onnx"
    given = export_onnx(model, file, images, lambda each: each / 255, precision="int8")
    assert given.errors["answer"] < 1e-6, "the weights are whole steps of their channel"
    stored = {each.name: each for each in onnx.load(file).graph.initializer}
    assert any(name.endswith(":int8") for name in stored)


class Depends(nn.Module):
    def forward(self, images):
        return images.flatten(1) if images.sum() > 0 else images.flatten(1) * 2


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        (Fickle(), {}, "away from torch's, expected at most 0.0001 for float32"),
        (Parts("word"), {}, "Parts gives a dict: expected one tensor, or a dict of tensors"),
        (Depends(), {}, "Depends cannot be traced"),
        (Linear(), {"attention": True}, "no attention ran"),
        (Linear(), {"tokens": True}, "Linear stacks no blocks: leave tokens out"),
        (Linear().double(), {}, r"Linear has weights of torch.float64: call its float\(\) first"),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file(model, asked, said, tmp_path, digits):
    file = tmp_path / "model.onnx"
    file.write_text("old")
    with pytest.raises(ExportError, match=said):
        export_onnx(model, file, digits, lambda images: images / 255, **asked)
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]


def test_bad_arguments(tmp_path, digits):
    file = tmp_path / "model.onnx"
    with pytest.raises(UnknownNameError, match="int4"):
        export_onnx(Linear(), file, digits, lambda images: images / 255, precision="int4")
    for images in (digits[:0], digits.float(), digits[0]):
        with pytest.raises(ValueError, match="expected at least one, as uint8"):
            export_onnx(Linear(), file, images, lambda images: images / 255)
    with pytest.raises(OSError, match="no plain file"):
        export_onnx(Linear(), tmp_path, digits, lambda images: images / 255)
    with torch.device("meta"):
        huge = nn.Linear(2**15, 2**15)
    with pytest.raises(ExportError, match=r"4\.3 GB of weights: a file holds 2 GB"):
        export_onnx(huge, file, digits, lambda images: images / 255)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "most", "megabytes"), [("float16", 1e-2, 45), ("int8", 0.25, 24)]
)
def test_the_pretrained_model(precision, most, megabytes, tmp_path):
    real = vitbook.load_pretrained("vit_small_patch14_focus")
    photos = datasets.load("photos", "all").images[:2]
    file = export_onnx(
        real.model, tmp_path / "m.onnx", photos, real.normalize, attention=True, tokens=True,
        precision=precision,
    )  # fmt: skip
    assert max(file.errors.values()) < most and file.num_bytes < megabytes * 1e6
