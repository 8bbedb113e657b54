import pytest
import torch

from vitbook import datasets, load_checkpoint
from vitbook.studies.tokens_to_token import accuracy_against_cost, moved, moves

SECOND = "digits-vit_micro_patch2_8-digits-seed1"


def test_what_leaves_is_lost_and_zero_comes_in():
    images = torch.arange(1, 13, dtype=torch.uint8).view(1, 1, 3, 4)
    assert moved(images, 1)[0, 0].tolist() == [[0, 1, 2, 3], [0, 5, 6, 7], [0, 9, 10, 11]]
    assert moved(images, -3)[0, 0].tolist() == [[4, 0, 0, 0], [8, 0, 0, 0], [12, 0, 0, 0]]
    assert torch.equal(moved(images, 0), images)


def test_the_row_has_a_share_for_each_move(tmp_path):
    (row,) = moves(checkpoints=[SECOND], out=tmp_path, device="cpu")
    digits, read = datasets.load("digits", "test"), row.rows[0]["accuracy"]
    assert row.settings["right"] == [-2, -1, 0, 1, 2] and len(read) == 5
    with torch.no_grad():
        answers = load_checkpoint(SECOND).model.eval()(datasets.normalize(moved(digits.images, -2)))
    right = (answers.argmax(1) == digits.labels).float().mean().item()
    assert read[0] == pytest.approx(right, abs=1e-5)
    assert read[2] > 0.95 > 0.8 > read[3]


ROWS = [
    dict(zip(("name", "family", "accuracy", "macs", "time"), row, strict=True))
    for row in (("a", "conv", 0.6, 1, 2), ("b", "conv", 0.7, 2, 1), ("c", "ViT", 0.65, 4, 3),
                ("d", "ViT", 0.8, 8, 3))
]  # fmt: skip


def test_a_panel_for_each_cost_with_the_steps_that_no_other_beats():
    figure = accuracy_against_cost(ROWS, {"macs": "multiply-adds, G", "time": "time"}, "A claim")
    assert figure.get_suptitle() == "A claim"
    macs, time = figure.axes
    assert (macs.get_xlabel(), time.get_xlabel()) == ("multiply-adds, G", "time")
    assert macs.get_xscale() == "log" and macs.get_ylim() == time.get_ylim()
    for axes, key, named in ((macs, "macs", "abd"), (time, "time", "bd")):
        conv, vit, steps = axes.lines
        assert list(conv.get_xdata()) == [row[key] for row in ROWS[:2]]
        assert list(vit.get_ydata()) == pytest.approx([65, 80])
        assert conv.get_marker() != vit.get_marker() and conv.get_color() != vit.get_color()
        assert "".join(text.get_text() for text in axes.texts) == named
        assert list(steps.get_xdata()) == [row[key] for row in ROWS if row["name"] in named]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["conv", "ViT"]


def test_a_name_does_not_cross_the_axis():
    rows = [{"name": "a long name", "family": "a", "accuracy": 0.5, "cost": 1}]
    rows += [
        {"name": f"{n}", "family": "a", "accuracy": 0.5 + n / 100, "cost": 10**n} for n in (1, 2)
    ]
    figure = accuracy_against_cost(rows, {"cost": "cost"}, "A claim")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert [name.get_ha() for name in axes.texts] == ["left", "right", "right"]
    assert all(name.get_window_extent().x0 >= axes.bbox.x0 for name in axes.texts)
    rows[0]["name"] = "a name that has no room on either side, as it is longer than a panel is wide"
    assert (
        accuracy_against_cost(rows, {"cost": "cost"}, "A claim").axes[0].texts[0].get_ha()
        == "right"
    )
