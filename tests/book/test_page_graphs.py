"""The files that a page fetches: whole, shared, and computing what torch computes."""

import hashlib
import json

import numpy as np
import onnxruntime
import page_graphs
import pytest
import torch
from page_graphs import NAME, NAMER, PageModel, write_page_model

from vitbook import datasets
from vitbook.analysis import capture_attention
from vitbook.export.page_model import PIECE_BYTES
from vitbook.models.weights.pretrained import PACKAGED, weights_folder

SIZES = (112,)
here = pytest.mark.skipif(
    not all(PACKAGED[name].kept(weights_folder()).is_file() for name in (NAME, NAMER)),
    reason="needs the pretrained weights: `vitbook weights fetch`",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    photos = datasets.load("photos", "all", image_size=112).images[:1]
    with pytest.MonkeyPatch.context() as patch:  # one of its sizes, the quick one
        patch.setattr(page_graphs, "SIZES", SIZES)
        return folder, write_page_model(folder, photos)


@here
@pytest.mark.slow
def test_pieces_are_what_the_manifest_says(written):
    folder, manifest = written
    assert json.loads((folder / "manifest.json").read_text())["pieces"] == manifest["pieces"]
    for piece in manifest["pieces"]:
        content = (folder / piece["file"]).read_bytes()
        assert len(content) == piece["bytes"] <= PIECE_BYTES
        assert hashlib.sha256(content).hexdigest() == piece["sha256"]
    weights = sum(piece["bytes"] for piece in manifest["pieces"])
    graphs = sum(size["graph"]["bytes"] for size in manifest["sizes"].values())
    assert weights + graphs <= 31_000_000, "what a reader has to load, before it is deflated"
    names = {file.name for file in folder.iterdir()}
    assert names == {"manifest.json", *(f"{size}.onnx" for size in SIZES),
                     *(piece["file"] for piece in manifest["pieces"])}  # fmt: skip


@here
@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_graph_with_the_shared_weights_computes_what_torch_does(written, size, tmp_path):
    folder, manifest = written
    pieces = [(folder / piece["file"]).read_bytes() for piece in manifest["pieces"]]
    (tmp_path / manifest["weights"]).write_bytes(b"".join(pieces))
    (tmp_path / "graph.onnx").write_bytes((folder / f"{size}.onnx").read_bytes())
    image = datasets.load("photos", "all", image_size=size).images[3:4]
    session = onnxruntime.InferenceSession(tmp_path / "graph.onnx")
    names = [each.name for each in session.get_outputs()]
    found = dict(zip(names, session.run(names, {"pixels": image.numpy()}), strict=True))
    model = PageModel(size).eval()
    with torch.no_grad(), capture_attention(model) as maps:
        wanted = model(image)
    assert len(maps) == 12 and set(manifest["answers"]) == set(wanted) - {"embedded", "saliency"}
    for name, each in wanted.items():
        apart = np.abs(found[f"answer:{name}"] - each.numpy()).max() / each.abs().max().item()
        assert apart < 0.15, f"{name} is {apart:.3f} away"
    for name, each in maps.items():
        apart = np.abs(found[f"attention:{name}"] - each.numpy()).max() / each.max().item()
        assert apart < 0.3, f"{name} is {apart:.3f} away"
    assert set(manifest["sizes"][str(size)]["outputs"]) == set(names)
    assert manifest["lacks"] == [] and len(manifest["layers"]) == 12
