"""The files that a page fetches: whole, shared, and computing what torch computes."""

import hashlib
import json

import numpy as np
import onnxruntime
import pytest
import torch
from page_graphs import NAME, NAMER, PageModel, write_page_model

from vitbook import datasets
from vitbook.analysis import capture_attention
from vitbook.export.page_model import GRAPH, PIECE_BYTES
from vitbook.models import change_input
from vitbook.models.weights.pretrained import PACKAGED, weights_folder

here = pytest.mark.skipif(
    not all(PACKAGED[name].kept(weights_folder()).is_file() for name in (NAME, NAMER)),
    reason="needs the pretrained weights: `vitbook weights fetch`",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    return folder, write_page_model(folder, datasets.load("photos", "all").images[:1])


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
    total = weights + manifest["graph"]["bytes"]
    assert total <= 31_000_000, "what a reader has to load, before it is deflated"
    names = {file.name for file in folder.iterdir()}
    assert names == {"manifest.json", GRAPH, *(piece["file"] for piece in manifest["pieces"])}


@here
@pytest.mark.slow
@pytest.mark.parametrize("size", [(112, 112), (140, 98)])
def test_the_graph_with_its_weights_computes_what_torch_does(written, size, tmp_path):
    folder, manifest = written
    pieces = [(folder / piece["file"]).read_bytes() for piece in manifest["pieces"]]
    (tmp_path / manifest["weights"]).write_bytes(b"".join(pieces))
    (tmp_path / GRAPH).write_bytes((folder / GRAPH).read_bytes())
    height, width = size
    image = datasets.load("photos", "all", image_size=max(size)).images[3:4, :, :height, :width]
    session = onnxruntime.InferenceSession(tmp_path / GRAPH)
    names = [each.name for each in session.get_outputs()]
    found = dict(zip(names, session.run(names, {"pixels": image.numpy()}), strict=True))
    model = PageModel().eval()
    change_input(model.body, size)
    with torch.no_grad(), capture_attention(model) as maps:
        wanted = model(image)
    assert len(maps) == 12 and set(manifest["answers"]) == set(wanted) - {"embedded", "saliency"}
    for name, each in wanted.items():
        apart = np.abs(found[f"answer:{name}"] - each.numpy()).max() / each.abs().max().item()
        assert apart < 0.15, f"{name} is {apart:.3f} away"
    for name, each in maps.items():
        apart = np.abs(found[f"attention:{name}"] - each.numpy()).max() / each.max().item()
        assert apart < 0.3, f"{name} is {apart:.3f} away"
    assert set(manifest["sizes"][f"{height}x{width}"]["outputs"]) == set(names)
    assert manifest["lacks"] == [] and len(manifest["layers"]) == 12
