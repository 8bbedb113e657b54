"""One file for any number of images, as torch computes them together."""

import re

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from vitbook import create_model, datasets
from vitbook.export import export_onnx

QUICK = ("vit_micro_patch2_8", "t2t_vit_micro_patch2_8")
# With those, most ways of cutting, placing, attending and mixing that the catalogue has.
OTHERS = (
    "rot_vit_micro_patch2_8", "axial_vit_micro_patch2_8",
    "vit_overlap_wrapped_nopos_micro_patch2_8", "vit_relpos_micro_patch2_8",
    "deit_micro_distilled_patch2_8", "performer_vit_micro_patch2_8",
    "linformer_vit_micro_patch2_8", "vit_reuse_half_micro_patch2_8",
    "shrinking_vit_pyramid_micro_patch1_8", "vit_micro_r8_s2_8", "vit_dense_micro_patch2_8",
    "bit_resnet8x1_digits", "resnet8_unshared_digits",
    "pyramid_vit_mean_mini_patch4_32", "swin_mini_patch4_window4_32", "pvt_v2_b0",
)  # fmt: skip
# What two blocks hold, each one holds.
ALIKE = {
    name for name in QUICK + OTHERS if "micro" in name and not re.search("reuse|shrink|dense", name)
}
MODELS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]


def opened(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def noise(model, number):
    spec = model.spec
    size = (number, spec.channels, spec.image_size, spec.image_size)
    return torch.randint(0, 256, size, dtype=torch.uint8)


@pytest.mark.parametrize("name", MODELS)
def test_the_file_takes_any_number_of_images(name, tmp_path):
    torch.manual_seed(0)
    model = create_model(name).eval()
    if name in ALIKE:
        del model.encoder.blocks[2:]  # a file is written block by block
    images, file = noise(model, 5), tmp_path / "model.onnx"
    exported = export_onnx(model, file, images[:2], datasets.normalize)
    assert exported.shape == ("batch", *images.shape[1:])
    session = opened(file)
    assert session.get_inputs()[0].shape == ["batch", *images.shape[1:]]
    assert session.get_outputs()[0].shape == ["batch", model.spec.num_classes]
    for number in (1, 2, 5):
        (found,) = session.run(None, {"pixels": images[:number].numpy()})
        with torch.no_grad():
            wanted = model(datasets.normalize(images[:number]))
        torch.testing.assert_close(torch.from_numpy(found), wanted, atol=1e-5, rtol=1e-4)


def test_models_of_other_libraries(tmp_path):
    timm, transformers = map(pytest.importorskip, ("timm", "transformers"))
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        image_size=32, patch_size=8,
    )  # fmt: skip
    body = transformers.ViTForImageClassification(config)
    models = {
        "windows": timm.create_model(
            "swin_tiny_patch4_window7_224", img_size=32, window_size=4, patch_size=2,
            embed_dim=24, depths=(2, 1), num_heads=(2, 2), num_classes=3),
        "transformers": Logits(body),
    }  # fmt: skip
    images = torch.randint(0, 256, (5, 3, 32, 32), dtype=torch.uint8)
    for name, model in models.items():
        exported = export_onnx(model, tmp_path / "m.onnx", images, lambda each: each / 255)
        assert exported.shape == ("batch", 3, 32, 32), name
        (found,) = opened(tmp_path / "m.onnx").run(None, {"pixels": images[:3].numpy()})
        with torch.no_grad():
            wanted = model.eval()(images[:3] / 255)
        torch.testing.assert_close(torch.from_numpy(found), wanted, atol=1e-4, rtol=1e-3)


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model(images).logits


class Counts(nn.Module):
    """It reads the number of images as a number of Python's."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 3)

    def forward(self, images):
        return torch.stack([self.layer(images[n].flatten()) for n in range(len(images))])


def test_a_model_that_computes_with_the_number_is_written_for_one_and_says_so(tmp_path):
    images = torch.randint(0, 256, (2, 1, 8, 8), dtype=torch.uint8)
    exported = export_onnx(Counts(), tmp_path / "m.onnx", images, lambda each: each / 255)
    assert exported.shape == (1, 1, 8, 8) and exported.errors["answer"] < 1e-5
    session = opened(tmp_path / "m.onnx")
    assert session.get_inputs()[0].shape == [1, 1, 8, 8]
    with pytest.raises(Exception, match="invalid dimensions"):
        session.run(None, {"pixels": images.numpy()})


def test_one_image_at_a_time_on_request(tmp_path):
    model = create_model("vit_micro_patch2_8").eval()
    file = tmp_path / "m.onnx"
    exported = export_onnx(model, file, noise(model, 1), datasets.normalize, free_batch=False)
    assert exported.shape == (1, 1, 8, 8)
    dims = [d for each in onnx.load(file).graph.output for d in each.type.tensor_type.shape.dim]
    assert [dim.dim_value for dim in dims] == [1, 10]
