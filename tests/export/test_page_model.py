"""A folder for a page: what of a model it shows, whole, shared, and read back strictly."""

from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from vitbook import create_model, datasets, load_checkpoint
from vitbook.export import ExportError, export_page, page_manifest, page_model
from vitbook.export.page_manifest import read_page_model
from vitbook.export.page_model import offered_sizes, pattern
from vitbook.export.shared_weights import ALIGNED, Shared

DIGITS = datasets.load("digits", "test").images[:2]
PHOTOS = datasets.load("photos", "all", image_size=32).images[:2]


def checkpoint(name):
    loaded = load_checkpoint(f"digits-{name}-digits-seed0")
    return loaded.model, DIGITS, loaded.class_names


def of_timm(patch_size=8, **settings):
    timm = pytest.importorskip("timm")
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=patch_size, embed_dim=24, depth=2,
        num_heads=2, num_classes=5, **settings,
    )  # fmt: skip
    return model, PHOTOS, ()


def of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8,
        image_size=32, patch_size=8, num_labels=3,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config), PHOTOS, ("cat", "cup", "tree")


# Its layers with tokens and with attention, and what it lacks.
NAMES = "class names (nobody says what its 5 logits mean)"
FAMILIES = {
    "ours": (lambda: checkpoint("vit_micro_patch2_8"), (4, 4), []),
    "t2t": (lambda: checkpoint("t2t_vit_micro_patch2_8"), (4, 4), ["1 of 5 attention maps"]),
    "linformer": (
        lambda: (create_model("linformer_vit_micro_patch2_8"), DIGITS, tuple("0123456789")),
        (4, 0), ["attention maps (4x17x8"],
    ),
    "timm": (lambda: of_timm(reg_tokens=2), (2, 2), [NAMES]),
    "a border": (
        lambda: of_timm(patch_size=7), (0, 0), ["grid of patches (they do not cover 32x32", NAMES],
    ),
    "transformers": (of_transformers, (2, 2), []),
    "convolutions": (
        lambda: checkpoint("resnet8_digits"), (0, 0),
        ["no attention runs in ResNet", "token colours (16x8x8"],
    ),
}  # fmt: skip


@cache
def exported(family):
    model, images, names = FAMILIES[family][0]()
    folder = Path(mkdtemp())
    export_page(model.eval(), folder, images, datasets.normalize, name=family, class_names=names)
    return model, names, folder


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_model_shows_and_lacks(family):
    (_, layers, lacks), (model, names, folder) = FAMILIES[family], exported(family)
    manifest, files = read_page_model(folder)
    assert {file.name for file in folder.iterdir()} == {"manifest.json", *files}
    ((sides, size),) = manifest["sizes"].items()
    shown = manifest["layers"]
    kinds = ("tokens", "attention")
    assert tuple(sum(bool(each[kind]) for each in shown) for kind in kinds) == layers
    told = "; ".join(manifest["lacks"])
    assert all(each in told for each in lacks) and bool(told) == bool(lacks), told
    assert manifest["answers"]["answer"]["classes"] == (list(names) or None)
    assert max(each["error"] for each in size["outputs"].values()) < 1e-2
    output, numbers = size["check"]
    with torch.no_grad():
        wanted = model(
            datasets.normalize(pattern(manifest["channels"], *map(int, sides.split("x"))))
        )
    assert output == manifest["answers"]["answer"]["output"]
    wanted = getattr(wanted, "logits", wanted)[0]
    torch.testing.assert_close(torch.tensor(numbers), wanted, atol=1e-5, rtol=1e-4)


def test_sizes_that_are_offered_cost_about_as_much_in_three_steps():
    sizes = offered_sizes((224, 224), (14, 14))
    grids = [(height // 14, width // 14) for height, width in sizes]
    assert grids[0] == (16, 16) and len(grids) == 21 and {(13, 20), (20, 13), (8, 8)} < set(grids)
    for step in range(3):
        cells = [rows * columns for rows, columns in grids[7 * step : 7 * step + 7]]
        assert max(cells) < 1.2 * min(cells)
    assert max(map(max, offered_sizes((1600, 1600), (4, 4)))) <= 2048
    assert set(offered_sizes((2, 2), (2, 2))) == {(2, 2)}
    assert all(high % 2 == wide % 4 == 0 for high, wide in offered_sizes((8, 16), (2, 4)))


def test_a_wrapped_model_offers_sizes_that_its_patches_divide(tmp_path, monkeypatch):
    torch.manual_seed(0)
    vit = nn.Sequential(create_model("vit_micro_patch2_8"))
    asked = []

    def and_one_that_it_does_not_take(*given):
        asked.extend(offered_sizes(*given))
        return [*asked, (7, 8)]

    monkeypatch.setattr(page_model, "offered_sizes", and_one_that_it_does_not_take)
    manifest = export_page(vit, tmp_path, DIGITS, datasets.normalize, name="m", free_size=True)
    assert next(iter(manifest["sizes"])) == "8x8"
    assert manifest["sizes"].keys() == {f"{high}x{wide}" for high, wide in asked}
    with pytest.raises(ExportError, match="has weights of torch.bfloat16: call its float"):
        export_page(vit.bfloat16(), tmp_path, DIGITS, datasets.normalize, name="m")
    with pytest.raises(ValueError, match="the shape of answer for images of 8x8 px"):
        export_page(vit.float(), tmp_path, DIGITS, datasets.normalize, name="m", map=("answer", ""))


def spoiled(value):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    model[1].bias.data[0] = value
    return model


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": spoiled(torch.nan)}, "m gives NaN or infinity in answer"),
        ({"model": spoiled(torch.inf), "precision": "int8"}, "NaN or infinity in answer"),
        ({"images": DIGITS.expand(-1, 2, -1, -1)}, "m takes 2 channels: a page gives 1 or 3"),
        ({"class_names": ("one", "two")}, "2 class names for 20000 logits"),
        ({}, "m has 2.6 MB in float16, a page takes 1.0 MB: store it in int8"),
    ],
    ids=["NaN", "infinity", "channels", "names", "limit"],
)
def test_what_a_page_cannot_take_is_refused(change, told, tmp_path, monkeypatch):
    monkeypatch.setattr(page_model, "MOST_PAGE_BYTES", 1_000_000)
    given = {"images": DIGITS, "model": nn.Sequential(nn.Flatten(), nn.Linear(64, 20_000))}
    with pytest.raises(ExportError, match=told):
        export_page(folder=tmp_path, prepare=datasets.normalize, name="m", **given | change)
    assert not list(tmp_path.iterdir())


def test_a_folder_of_an_earlier_model_is_replaced_whole(tmp_path, monkeypatch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64))
    give = partial(export_page, model, tmp_path, DIGITS, datasets.normalize, name="m")
    (tmp_path / "weights-of-mine.bin").touch()
    monkeypatch.setattr(page_model, "PIECE_BYTES", 4000)
    assert len(give()["pieces"]) == 3
    monkeypatch.undo()
    manifest = give()
    named = {manifest["graph"]["file"], *(p["file"] for p in manifest["pieces"])}
    assert {file.name for file in tmp_path.iterdir()} == named | {
        "manifest.json",
        "weights-of-mine.bin",
    }
    # An export that is cut short leaves no manifest.
    monkeypatch.setattr(page_manifest, "write_atomically", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        give()
    with pytest.raises(FileNotFoundError, match=r"holds no manifest\.json"):
        read_page_model(tmp_path)


def swap(old, new):
    return lambda file: file.write_text(file.read_text().replace(old, new))


BAD = {
    "no manifest": ("manifest.json", Path.unlink, "holds no manifest.json"),
    "no JSON": ("manifest.json", swap("{", ""), "manifest.json: "),
    "unknown format": ("manifest.json", swap("model 2", "model 9"),
                       "its format is 'vitbook page model 9', expected"),
    "a number in words": ("manifest.json", swap('"channels": 1', '"channels": "1"'),
                          "channels '1': expected a whole number"),
    "a path": ("manifest.json", swap('"graph.onnx"', '"../graph.onnx"'),
               "graph.file '../graph.onnx': expected a name without a slash"),
    "NaN": ("manifest.json", swap('"error": ', '"error": NaN, "was": '), "NaN: expected a number"),
    "no sizes": ("manifest.json", swap('"sizes": {', '"sizes": {}, "were": {'), "it has none"),
    "a side": ("manifest.json", swap('"8x8": {', '"8xsix": {'), "images of 8xsix px: two whole"),
    "a grid": ("manifest.json", swap('"grid": [\n    4', '"grid": [\n3'), "the grid for images"),
    "a finer grid": ("manifest.json", swap('"grid": [\n    4,\n    4', '"grid": [\n8,8'),
                     "the shape of tokens:encoder.blocks.0 for images of 8x8 px, [1, 17, 64]"),
    "missing piece": ("weights-00.bin", Path.unlink, "weights-00.bin is missing"),
    "short piece": ("weights-00.bin", lambda file: file.write_bytes(b"x"), "has 1 bytes"),
    "other bytes": ("graph.onnx", lambda file: file.write_bytes(file.read_bytes()[:-1] + b"!"),
                    "graph.onnx has other bytes than were written"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_folder_that_lies_is_named(name, tmp_path):
    file, spoil, told = BAD[name]
    for each in exported("ours")[2].iterdir():
        (tmp_path / each.name).write_bytes(each.read_bytes())
    spoil(tmp_path / file)
    with pytest.raises((ValueError, FileNotFoundError)) as refused:
        read_page_model(tmp_path)
    assert told in str(refused.value)


def test_equal_weights_are_stored_once_and_begin_where_a_runtime_may_read():
    shared = Shared("weights", smallest=32)

    def graph(*arrays):
        made = [onnx.numpy_helper.from_array(array, f"w{i}") for i, array in enumerate(arrays)]
        return onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], made))

    small, odd = np.ones(3, np.float32), np.arange(77, dtype=np.int8)
    large = np.arange(64, dtype=np.float32)
    first, second = graph(small, odd, large), graph(large, odd + 1)
    shared.move(first)
    shared.move(second)
    places = {}
    for made in (first, second):
        for weight in made.graph.initializer:
            place = {each.key: each.value for each in weight.external_data}
            if place:
                assert not weight.raw_data and place["location"] == "weights"
                start, length = int(place["offset"]), int(place["length"])
                assert start % ALIGNED == 0
                places.setdefault(shared.content[start : start + length].hex(), []).append(start)
    assert places == {odd.tobytes().hex(): [0], large.tobytes().hex(): [128, 128],
                      (odd + 1).tobytes().hex(): [384]}  # fmt: skip
    assert onnx.numpy_helper.to_array(first.graph.initializer[0]).tolist() == [1, 1, 1]
