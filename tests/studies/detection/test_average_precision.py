"""Average precision: by hand, by the code that comes with COCO, and its laws."""

import contextlib
import io

import numpy as np
import pytest
import torch

from vitbook.studies.detection.average_precision import Found, Judged, duplicates, found_by
from vitbook.studies.detection.canvases import Objects, make_canvases
from vitbook.studies.detection.detector import Answers


def found(*answers):
    """Score, label and box of each."""
    scores, labels, boxes = zip(*answers, strict=True) if answers else ((), (), ())
    return Found(
        torch.tensor(scores, dtype=torch.float32),
        torch.tensor(labels, dtype=torch.int64),
        torch.tensor(boxes, dtype=torch.float32).view(-1, 4),
    )


def there(*objects):
    labels, boxes = zip(*objects, strict=True)
    return Objects(torch.tensor(boxes), torch.tensor(labels))


LEFT, RIGHT = [0.2, 0.5, 0.2, 0.2], [0.8, 0.5, 0.2, 0.2]
NOWHERE = [0.5, 0.1, 0.1, 0.1]


def test_precision_by_hand():
    """A hit, a miss, a hit: precision 1 up to half of the objects, then 2/3."""
    judged = Judged(
        [found((0.9, 1, LEFT), (0.8, 1, NOWHERE), (0.7, 1, RIGHT))],
        [there((1, LEFT), (1, RIGHT))],
    )
    expected = (51 + 50 * 2 / 3) / 101
    assert judged.precision().ap50 == judged.precision().ap == pytest.approx(expected)


def test_a_box_that_is_off_counts_up_to_its_overlap():
    off = [0.25, 0.5, 0.2, 0.2]  # a quarter aside: IoU 0.6
    judged = Judged([found((0.9, 1, off))], [there((1, LEFT))])
    assert judged.precision().ap50 == 1 and judged.precision().ap == pytest.approx(0.2, abs=0.11)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([], 0),
        ([(0.9, 2, LEFT)], 0),  # another class
        ([(0.9, 1, LEFT), (0.8, 1, LEFT)], 1),  # a duplicate behind all hits
        ([(0.8, 1, LEFT), (0.9, 1, NOWHERE)], 0.5),  # surer of nothing
    ],
)
def test_precision_of_one_object(answers, expected):
    judged = Judged([found(*answers)], [there((1, LEFT))])
    assert judged.precision().ap50 == pytest.approx(expected)


def test_duplicates_before_a_hit_cost():
    twice = found((0.9, 1, LEFT), (0.8, 1, LEFT), (0.7, 1, RIGHT))
    judged = Judged([twice], [there((1, LEFT), (1, RIGHT))])
    assert judged.precision().ap50 == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_duplicates_are_counted_among_sure_answers():
    two = there((1, LEFT), (1, RIGHT))
    answers = found((0.9, 1, LEFT), (0.8, 3, LEFT), (0.4, 1, LEFT), (0.9, 1, NOWHERE))
    assert duplicates([answers], [two]) == 0.5
    assert duplicates([found()], [two]) == 0


def random_answers(images=60, seed=0):
    """Objects of canvases, told again with errors; scores have ties."""
    dice = torch.Generator().manual_seed(seed)
    objects, answers = make_canvases("test", images, seed).objects, []
    for each in objects:
        source = torch.randint(len(each), (10,), generator=dice)
        boxes = each.boxes[source] + 0.03 * torch.randn(10, 4, generator=dice)
        boxes[:, 2:].clamp_(min=0.02)
        other = torch.randint(10, (10,), generator=dice)
        labels = torch.where(torch.rand(10, generator=dice) < 0.75, each.labels[source], other)
        answers.append(Found(torch.randint(20, (10,), generator=dice) / 20, labels, boxes))
    return answers, objects


def test_precision_as_coco_counts_it():
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools, to compare with")
    from pycocotools.cocoeval import COCOeval

    answers, objects = random_answers()

    def as_pixels(box):
        x, y, wide, high = (1000 * box.double()).tolist()
        return [x - wide / 2, y - high / 2, wide, high]

    def rows(many):
        return [
            {"image_id": image + 1, "category_id": int(label) + 1, "bbox": as_pixels(box)}
            for image, each in enumerate(many)
            for label, box in zip(each.labels, each.boxes, strict=True)
        ]

    truth, told = rows(objects), rows(answers)
    for number, row in enumerate(truth):
        row |= {"id": number + 1, "area": row["bbox"][2] * row["bbox"][3], "iscrowd": 0}
    scores = torch.cat([each.scores for each in answers]).tolist()
    told = [row | {"score": score} for row, score in zip(told, scores, strict=True)]
    with contextlib.redirect_stdout(io.StringIO()):
        reference = coco.COCO()
        reference.dataset = {
            "info": {}, "annotations": truth, "images": [{"id": i + 1} for i in range(60)],
            "categories": [{"id": label + 1} for label in range(10)],
        }  # fmt: skip
        reference.createIndex()
        judge = COCOeval(reference, reference.loadRes(told), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    ours = Judged(answers, objects).precision()
    assert [ours.ap, ours.ap50] == pytest.approx(judge.stats[:2].tolist(), abs=1e-12)


def test_what_coco_counted_once():
    """The number that pycocotools 2.0.11 gave for these answers, where it is not installed."""
    ours = Judged(*random_answers()).precision()
    assert (ours.ap50, ours.ap) == pytest.approx((AP50, AP), abs=1e-6)


AP50, AP = 0.510712451, 0.206798823


def test_an_image_drawn_twice_is_an_image_twice():
    answers, objects = random_answers(6)
    answers = [  # no ties, whose order may differ
        Found(each.scores + 1e-3 * torch.arange(10) + 1e-2 * n, each.labels, each.boxes)
        for n, each in enumerate(answers)
    ]  # fmt: skip
    times = np.array([2, 0, 1, 1, 0, 2])
    copied = [n for n, often in enumerate(times) for _ in range(often)]
    again = Judged([answers[n] for n in copied], [objects[n] for n in copied]).precision()
    weighted = Judged(answers, objects).precision(times)
    assert (weighted.ap50, weighted.ap) == pytest.approx((again.ap50, again.ap), abs=0.03)


def test_an_interval_holds_the_whole_and_shrinks_with_images():
    few, many = (Judged(*random_answers(n)).intervals(100)["ap"] for n in (20, 160))
    assert many[1] < many[0] < many[2] and many[2] - many[1] < few[2] - few[1]
    perfect = [
        Found(torch.ones(len(each)), each.labels, each.boxes) for each in random_answers(20)[1]
    ]
    assert Judged(perfect, random_answers(20)[1]).intervals(20)["ap50"] == [1, 1, 1]


def test_the_likeliest_class_is_told_without_no_object():
    logits = torch.tensor([[[0.0, 2.0, 5.0], [3.0, 0.0, 0.0]]])
    (each,) = found_by(Answers(logits, torch.full((1, 2, 4), 0.5)))
    shares = logits.softmax(-1)
    assert each.labels.tolist() == [1, 0]
    torch.testing.assert_close(each.scores, torch.stack([shares[0, 0, 1], shares[0, 1, 0]]))


def test_nothing_to_find_is_refused():
    empty = Objects(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(ValueError, match="1 images without any object"):
        Judged([found()], [empty])
    with pytest.raises(ValueError, match="answers to 2 images, objects of 1"):
        Judged([found(), found()], [there((1, LEFT))])
