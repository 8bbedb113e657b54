"""The live figure has the study's canvas and the detector's answers, and its task is solved."""

import numpy as np
import pytest
import torch

from vitbook import datasets
from vitbook.figures import set_of_answers
from vitbook.figures.set_of_answers.canvas import TENTHS, enlarged, laid
from vitbook.figures.set_of_answers.detector import check_computed, detector_weights, said_of
from vitbook.studies.detection import canvases, load_detector, make_canvases, make_detector

OFFERED = [50, 21, 57, 133, 75, 30, 12, 15, 53, 87]  # a digit of each class, held out


class Script(np.random.Generator):
    """Dice that fall as told."""

    def __init__(self, *falls):
        super().__init__(np.random.PCG64())
        self.falls = list(falls)

    def integers(self, *_):
        return self.falls.pop(0)

    uniform = integers


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits", "test").images[OFFERED]


def test_the_same_digits_at_the_same_places_are_the_same_canvas(monkeypatch, js):
    images = datasets.load("digits", "test").images[:4]
    placed = [(3, 2, 5, 13), (0, 30, 1, 11), (2, 10, 16, 20), (3, 22, 25, 15)]
    falls = [
        fall for which, left, top, tenths in placed for fall in (which, tenths / 10, left, top)
    ]
    monkeypatch.setattr(canvases.np.random, "default_rng", lambda seed: Script(4, *falls))
    ((canvas,),) = make_canvases("test", 1).images
    sizes = enlarged(images.numpy())
    assert canvas.any() and (laid(sizes, canvases.SIDE, placed) == canvas.numpy()).all()
    patches = [[{"width": p.shape[1], "height": p.shape[0], "pixels": p.ravel().tolist()}
                for p in each] for each in sizes]  # fmt: skip
    live = js("set_of_answers/canvas", "[...laidOut(s, 40, p)]", s=patches, p=placed)
    assert live == canvas.flatten().tolist()


def test_digits_of_all_sizes_are_cut_and_enlarged_alike():
    images = datasets.load("digits", "test").images[:40]
    for digit, sizes in zip(images, enlarged(images.numpy()), strict=True):
        for tenths, ours in zip(TENTHS, sizes, strict=True):
            assert (ours == canvases._enlarged(canvases._ink(digit[0]), tenths / 10)).all()


def test_answers_are_the_detectors():
    torch.manual_seed(1)
    for model in (load_detector()[0], make_detector(num_queries=7).eval()):
        weights = detector_weights(model)
        for (canvas,) in make_canvases("test", 5, seed=2).images:
            said = said_of(weights, 4, (5, 5), canvas.numpy())
            check_computed(model, said, canvas.numpy())
            logits, boxes = (each[0].detach() for each in model(canvas[None, None] / 127.5 - 1))
            torch.testing.assert_close(torch.tensor(said.boxes), boxes, atol=2e-3, rtol=0)
            chances = torch.tensor(said.chances)
            torch.testing.assert_close(chances, logits.softmax(-1), atol=5e-3, rtol=0)


@pytest.mark.parametrize("part", [{"deformable": True}, {"mixing": False}])
def test_arms_that_the_page_does_not_compute_are_refused(part, digits):
    with pytest.raises(
        ValueError, match="the page does not know Detector: .* is (extra|missing), exp"
    ):
        set_of_answers(make_detector(**part), digits)


def test_queries_have_regions_and_the_eighth_digit_finds_none(digits, js):
    """What the reader is asked to find, in the page's own words."""
    figure, (model, _) = set_of_answers(load_detector()[0], digits), load_detector()
    assert len(figure.pieces[0]) * 3 / 4 < 350_000  # bytes
    weights, sizes = detector_weights(model), enlarged(digits.numpy())
    shapes = [[{"height": p.shape[0], "width": p.shape[1]} for p in each] for each in sizes]

    def page(expression, placed):
        said = said_of(weights, 4, (5, 5), laid(sizes, 40, placed))
        found = {"chances": said.chances.tolist(), "boxes": said.boxes.tolist()}
        cuts = "p.map((one) => cutOf(s, 40, one))"
        return js("set_of_answers/canvas", expression.replace("CUTS", cuts), s=shapes, p=placed,
                  found=found)  # fmt: skip

    way = [page("tellersOf(CUTS, found)", [[7, left, 24, 15]])[0] for left in range(0, 31, 2)]
    assert len(set(way) - {-1}) >= 4
    placed = figure.data["start"]["placed"]
    for which in range(5):
        assert page("overlooked(CUTS, tellersOf(CUTS, found))", placed) == -1, len(placed)
        free = js("set_of_answers/canvas", "freest(s, 40, p, w, 15)", s=shapes, p=placed, w=which)
        placed = [*placed, free]
    assert page("overlooked(CUTS, tellersOf(CUTS, found))", placed) >= 0
