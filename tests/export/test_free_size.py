"""One file for images of any size, where the model's sums allow it; else it is said why not."""

from copy import deepcopy

import onnxruntime
import pytest
import torch
import torch.nn.functional as F

from vitbook import create_model, datasets
from vitbook.analysis import capture_attention
from vitbook.export import ExportError, export_onnx
from vitbook.export.any_size import any_size, bicubic
from vitbook.models import change_input


def opened(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def noise(model, number, height, width):
    size = (number, model.spec.channels, height, width)
    return torch.randint(0, 256, size, dtype=torch.uint8)


# With a table of positions, and a residual network.
FREE = {"vit_micro_patch2_8": 2, "bit_resnet8x1_digits": 4}


def carried(name, model, size):
    """The model, built for another size."""
    if "vit" in name:
        other = deepcopy(model)
        change_input(other, size)
    else:
        other = create_model(name, image_size=size).eval()
        other.load_state_dict(model.state_dict())
    return other


@pytest.mark.parametrize("name", FREE)
def test_the_file_takes_any_size(name, tmp_path):
    torch.manual_seed(0)
    model, step = create_model(name).eval(), FREE[name]
    images, file = noise(model, 3, 8, 8), tmp_path / "m.onnx"
    exported = export_onnx(model, file, images, datasets.normalize, free_size=True)
    assert exported.shape == ("batch", 1, "height", "width")
    assert exported.errors["answer"] < 1e-5
    session = opened(file)
    for number, height, width in ((1, 8, 8), (2, 12, 8), (5, 16, 24)):
        images = noise(model, number, height, width)
        (found,) = session.run(None, {"pixels": images.numpy()})
        with torch.no_grad():
            wanted = carried(name, model, (height, width))(datasets.normalize(images))
        torch.testing.assert_close(torch.from_numpy(found), wanted, atol=1e-5, rtol=1e-4)
    for height, width in ((8 + step - 1, 8), (8, 8 + step - 1)):
        with pytest.raises(Exception, match="Reshape"):  # rows would be left out in silence
            session.run(None, {"pixels": noise(model, 1, height, width).numpy()})
    with pytest.raises(ValueError, match="the model takes 8x8"):  # again
        model(torch.zeros(1, 1, 16, 16))


@pytest.mark.parametrize(("old", "new"), [(16, 13), (16, 21), (16, 16), (37, 8), (4, 1), (1, 3)])
def test_places_are_carried_as_torch_resizes(old, new):
    wanted = F.interpolate(torch.eye(old)[None, None], (new, old), mode="bicubic", antialias=True)
    torch.testing.assert_close(bicubic(old, new), wanted[0, 0], atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_a_model_is_as_it_was_behind_the_block():
    model, images = create_model("vit_micro_patch2_8").eval(), torch.zeros(1, 1, 8, 8)
    before = model(images)
    # Nested, and of a wrapper that shows its parts as its own.
    compiled = torch.compile(model, backend="eager")
    with pytest.raises(KeyError), any_size(model), any_size(compiled):
        assert model(torch.zeros(1, 1, 4, 12)).shape == (1, 10)
        raise KeyError
    assert "forward" not in vars(model.position) and not model.tokenizer._forward_pre_hooks
    assert torch.equal(model(images), before)
    with pytest.raises(ValueError, match="the model takes 8x8"):
        model(torch.zeros(1, 1, 4, 12))
    model.position.forward = lambda tokens: tokens  # of the user's
    with any_size(model):
        assert not torch.equal(model(images), before)


def test_one_row_of_patches_and_a_model_inside_another_are_free_too(tmp_path):
    torch.manual_seed(0)
    model = create_model("vit_micro_patch2_8", image_size=(2, 16)).eval()
    images, file = noise(model, 1, 2, 16), tmp_path / "m.onnx"
    export_onnx(torch.nn.Sequential(model), file, images, datasets.normalize, free_size=True)
    images = noise(model, 2, 6, 4)
    (found,) = opened(file).run(None, {"pixels": images.numpy()})
    with torch.no_grad():
        wanted = carried("vit", model, (6, 4))(datasets.normalize(images))
    torch.testing.assert_close(torch.from_numpy(found), wanted, atol=1e-5, rtol=1e-4)
    with pytest.raises(Exception, match="Reshape"):
        opened(file).run(None, {"pixels": noise(model, 1, 7, 8).numpy()})


def test_maps_and_tokens_of_any_size(tmp_path):
    torch.manual_seed(0)
    model = create_model("vit_nopos_micro_patch2_8").eval()
    file = tmp_path / "m.onnx"
    export_onnx(
        model, file, noise(model, 1, 8, 8), datasets.normalize, attention=True, tokens=True,
        free_size=True,
    )  # fmt: skip
    images, session = noise(model, 2, 12, 8), opened(file)
    names = [each.name for each in session.get_outputs()]
    given = session.run(names, {"pixels": images.numpy()})
    found = dict(zip(names, map(torch.from_numpy, given), strict=True))
    with torch.no_grad(), any_size(model), capture_attention(model) as maps:
        model(datasets.normalize(images))
    for path, wanted in maps.items():
        assert wanted.shape == (2, 4, 25, 25)
        torch.testing.assert_close(found[f"attention:{path}"], wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "name",
    ["vit_pos2d_micro_patch1_8", "linformer_vit_micro_patch2_8", "resnet8_unshared_digits"],
)  # fmt: skip
def test_a_model_of_one_size_says_so_and_writes_nothing(name, tmp_path):
    model = create_model(name).eval()
    words = r"takes images of 8x8 alone, not of 16x8 \(.*\): leave the size fixed, or build the mo"
    with pytest.raises(ExportError, match=words):
        export_onnx(
            model, tmp_path / "m.onnx", noise(model, 1, 8, 8), datasets.normalize, free_size=True
        )
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="the model takes 8x8"):
        model(torch.zeros(1, 1, 16, 8))
