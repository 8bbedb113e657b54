"""The panel: controls with a kernel, the page's own figure without one."""

import io
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from small_inputs import NAMES, blind_model, digits, digits_model

from vitbook import create_model
from vitbook.analysis import attention_rollout, capture_attention
from vitbook.figures import Figure, panel
from vitbook.figures.attention_gallery.view import spotlight
from vitbook.figures.panel.upload import MOST_BYTES, read_upload, uploads
from vitbook.figures.parts.drawing import png

pytest.importorskip("ipywidgets")


@pytest.fixture
def with_kernel(monkeypatch, without_kernel):
    monkeypatch.delenv("VITBOOK_STATIC")


@pytest.fixture
def model():
    return digits_model()


@pytest.fixture
def images():
    return digits()


@pytest.fixture
def made(with_kernel, model, images):
    return panel(model, images, names=NAMES, start=(1, 2), head=(2, 1))


@pytest.fixture
def looked(model, images):
    """What the library says: maps "images layers heads queries keys"."""
    with torch.no_grad(), capture_attention(model) as maps:
        model(images / 127.5 - 1)
    return torch.stack(list(maps.values()), 1)


@pytest.mark.parametrize(("built", "several"), [(True, False), (False, True)])
def test_without_a_kernel_it_is_the_figure(monkeypatch, model, images, built, several):
    if not built:
        monkeypatch.delenv("VITBOOK_STATIC")
        monkeypatch.setitem(sys.modules, "ipywidgets", None)
    given = {"ours": model, "again": model} if several else model.train()
    figure = panel(given, images, title="A title", names=["a", "b", "c"], head=(1, 0), task="Do.")
    assert isinstance(figure, Figure) and figure.title == "A title"
    assert figure.name == ("attention_maps" if several else "attention_gallery")
    assert figure.data["start"]["layer"] == 1 and figure.data["task"] == "Do."
    assert figure.data["labels" if several else "names"] == ["a", "b", "c"]
    assert model.training != several, "the model is left as it was"


def test_it_starts_as_it_was_told(made, looked):
    assert made.choice == {"photo": 0, "name": "one", "token": (1, 2), "layer": 2, "head": 1,
                           "fusion": None}  # fmt: skip
    expected = looked[0, 2, 1, 7, 1:].reshape(4, 4).numpy()
    assert made.map == pytest.approx(expected, abs=1e-6)


def shows(made, weights, top=None):
    """Whether the enlarged map of the view is this one."""
    return png(spotlight(weights, float(weights.max()) if top is None else top)) in made.view.value


def test_every_control_changes_the_view_to_what_capture_attention_saw(made, looked):
    at = {"photo": 0, "row": 2, "column": 3, "layer": 3, "head": 2}
    for name, value in (("photo", 2), ("row", 4), ("column", 1), ("layer", 1), ("head", 4)):
        before = made.view.value
        getattr(made, name).value = value
        at[name] = value
        query = 1 + 4 * (at["row"] - 1) + at["column"] - 1
        row = looked[at["photo"], at["layer"] - 1, at["head"] - 1, query]
        expected = row[1:].reshape(4, 4).numpy()
        assert made.map == pytest.approx(expected, abs=1e-6)
        assert made.view.value != before and shows(made, made.map)
        assert f"{row[0]:.3f} of its weight to prefix tokens" in made.view.value
    made.asks.value = "class token"
    assert made.row.disabled and made.choice["token"] == "class token"
    expected = looked[2, 0, 3, 0, 1:].reshape(4, 4).numpy()
    assert made.map == pytest.approx(expected, abs=1e-6) and shows(made, made.map)


@pytest.mark.parametrize("how", ["mean", "max", "min", "rollout"])
def test_heads_are_fused_as_the_library_does(made, model, images, looked, how):
    made.fusion.value = how
    assert made.head.disabled and made.choice["head"] is None and made.choice["fusion"] == how
    maps = looked[0, 2]
    if how == "rollout":
        made.layer.value = 4
        ready = images[:1] / 127.5 - 1
        expected = attention_rollout(model, ready, query=6)[0].numpy()
    else:
        fused = maps.mean(0) if how == "mean" else getattr(maps, f"a{how}")(0)
        expected = fused[7, 1:].reshape(4, 4).numpy()
    assert made.map == pytest.approx(expected, abs=1e-6) and shows(made, made.map)
    one_head = looked[0, made.layer.value - 1, 1, 7, 1:].reshape(4, 4).numpy()
    assert np.abs(made.map - one_head).max() > 1e-3, "a null: it is not the head of before"


def test_several_models_share_one_scale(with_kernel, model, images):
    made = panel({"ours": model, "<null>": blind_model()}, images, head=(0, 0))
    maps = made.map
    top = max(float(each.max()) for each in maps.values())
    assert all(shows(made, each, top) for each in maps.values())
    assert "&lt;null&gt;" in made.view.value and "<null>" not in made.view.value


def test_models_of_different_depth_need_panels_of_their_own(with_kernel, model, images):
    other = torch.nn.Sequential(model)  # the same inside a wrapper
    assert panel({"ours": model, "wrapped": other}, images).choice["photo"] == 0
    shallow = create_model("vit_micro_patch2_8")
    del shallow.encoder.blocks[2:]
    with pytest.raises(ValueError, match="different numbers of layers or heads"):
        panel({"ours": model, "shallow": shallow}, images)


@pytest.mark.parametrize("library", ["timm", "torchvision", "transformers"])
def test_models_of_other_libraries(with_kernel, library):
    images = torch.randint(0, 256, (1, 3, 32, 32), dtype=torch.uint8)
    if library == "timm":
        timm = pytest.importorskip("timm")
        model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2)
    elif library == "torchvision":
        tv = pytest.importorskip("torchvision.models.vision_transformer")
        model = tv.VisionTransformer(32, 16, 2, 3, 48, 96, num_classes=5)
    else:
        hf = pytest.importorskip("transformers")
        model = hf.ViTModel(hf.ViTConfig(image_size=32, patch_size=16, hidden_size=48,
                                         num_hidden_layers=2, num_attention_heads=3,
                                         intermediate_size=96))  # fmt: skip
    made = panel(model, images, start="class token", head=(1, 2))
    with torch.no_grad(), capture_attention(model.eval()) as maps:
        model(images / 127.5 - 1)
    expected = list(maps.values())[1][0, 2, 0, 1:].reshape(2, 2).numpy()
    assert made.map == pytest.approx(expected, abs=1e-6)


def encoded(image, kind="PNG", **more):
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


def hand_over(made, name, content):
    """A file as the browser sends it to ipywidgets 8."""
    file = {"name": name, "type": "", "size": len(content), "content": memoryview(content),
            "last_modified": 1_700_000_000_000}  # fmt: skip
    made.upload.set_state({"value": [file]})


def test_a_photograph_of_ones_own_is_shown_and_chosen(made, model):
    grey = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) * 3)
    hand_over(made, "mine.png", encoded(grey))
    assert made.choice["name"] == "mine.png" and made.choice["photo"] == 3
    assert "as it came" in made.said.value
    ready = torch.from_numpy(np.asarray(grey).copy())[None, None] / 127.5 - 1
    with torch.no_grad(), capture_attention(model) as maps:
        model(ready)
    expected = list(maps.values())[2][0, 1, 7, 1:].reshape(4, 4).numpy()
    assert made.map == pytest.approx(expected, abs=1e-6)
    made.photo.value = 0
    assert made.choice["name"] == "one"


def turned():
    """Red above, blue below; its EXIF says that it is to be turned by a quarter."""
    image = Image.new("RGB", (40, 20), "red")
    image.paste("blue", (0, 0, 20, 20))
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(image, "JPEG", exif=exif, quality=95)


def deep():
    return encoded(Image.fromarray(np.full((20, 20), 40_000, np.uint16)))


def clear():
    image = Image.new("RGBA", (20, 20), (255, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 20, 10))
    return encoded(image)


def moving():
    frames = [Image.new("RGB", (20, 20), color) for color in ("green", "red")]
    return encoded(frames[0], save_all=True, append_images=frames[1:])


GREEN, BLUE, RED, WHITE = (0, 128, 0), (0, 0, 255), (255, 0, 0), (255, 255, 255)
KINDS = {  # colours of the upper and the lower end
    "turned by its EXIF": (turned(), BLUE, RED),
    "CMYK": (encoded(Image.new("CMYK", (20, 20), (0, 255, 255, 0)), "JPEG"), RED, RED),
    "16 bits": (deep(), (155, 155, 155), (155, 155, 155)),
    "transparent": (clear(), WHITE, RED),
    "animated": (moving(), GREEN, GREEN),
    "a palette": (encoded(Image.new("RGB", (20, 20), "blue").convert("P")), BLUE, BLUE),
    "one pixel": (encoded(Image.new("RGB", (1, 1), "red")), RED, RED),
}


@pytest.mark.parametrize(("content", "upper", "lower"), KINDS.values(), ids=KINDS)
def test_odd_files_are_read_as_a_viewer_shows_them(content, upper, lower):
    image, said = read_upload("odd", content, (28, 28), 3)
    assert image.shape == (3, 28, 28) and image.dtype == np.uint8 and said.startswith("odd")
    for row, color in ((1, upper), (-2, lower)):
        assert np.abs(image[:, row, 14].astype(int) - color).max() <= 12


HOSTILE = {
    "empty": (b"", "is empty"),
    "no image": (b"<svg onload=alert(1)>", "begin with 3c 73 .* are no JPEG or PNG"),
    "an animated GIF": (encoded(Image.new("P", (4, 4)), "GIF"), "are no JPEG or PNG"),
    "cut short": (encoded(Image.new("RGB", (64, 64), "red"), "JPEG")[:400], "do not decode"),
    "enormous": (encoded(Image.new("1", (20_000, 20_000))), "more than 64 million pixels"),
    "many bytes": (bytes(MOST_BYTES + 1), "has 50 MB, expected at most 50"),
}


@pytest.mark.parametrize(("content", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_gets_one_sentence_and_the_panel_lives(made, content, words):
    with pytest.raises(ValueError, match=words):
        read_upload("<b>bad", content, (8, 8), 1)
    before, view = made.choice, made.view.value
    hand_over(made, "<b>bad", content)
    assert made.choice == before and made.view.value == view
    assert "&lt;b&gt;bad" in made.said.value and "<b>" not in made.said.value
    made.layer.value = 1
    assert made.view.value != view


def test_a_file_of_ipywidgets_7_is_read_too():
    assert uploads({"a.png": {"metadata": {}, "content": b"x"}}) == [("a.png", b"x")]
    file = {"name": "a.png", "content": memoryview(b"x")}
    assert uploads((file,)) == [("a.png", b"x")] and uploads(()) == []


def test_what_the_model_cannot_show_is_said_and_the_panel_lives(with_kernel, model, images):
    def normalize(x):  # the second image brings NaN
        return x / 127.5 - 1 + (torch.nan if torch.equal(x[0], images[1]) else 0)

    made = panel(model, images, normalize=normalize)
    view = made.view.value
    made.photo.value = 1
    assert "non-finite numbers" in made.said.value and made.view.value == view
    made.photo.value = 2
    assert made.view.value != view


def test_without_pillow_an_upload_says_what_to_install(monkeypatch, made):
    monkeypatch.setitem(sys.modules, "PIL", None)
    hand_over(made, "mine.png", b"x")
    assert "pip install" in made.said.value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": torch.nn.Linear(2, 2)}, "Linear does not say its grid_size: pass grid_size="),
        ({"model": {}}, "model came empty"),
        ({"start": "class"}, "start came as 'class', expected a row and column"),
        ({"head": (0, 4)}, r"head came as \(0, 4\), expected a layer under 4 and a head under 4"),
    ],
)
def test_bad_input_gets_one_sentence(with_kernel, model, images, change, words):
    arguments = {"model": model, "images": images} | change
    with pytest.raises(ValueError, match=words):
        panel(arguments.pop("model"), arguments.pop("images"), **arguments)
