import pytest
import torch

import vitbook
from vitbook import datasets
from vitbook.analysis import feature_maps, layer_tokens
from vitbook.studies.feature_maps import blocks, by_block, channel_lines, evidence, silence, silent
from vitbook.studies.feature_maps.drawings import TWO_SIDED

IMAGE = torch.zeros(1, 8, 8, dtype=torch.uint8)


def test_each_line_has_one_scale_around_zero():
    lines = {"small": torch.randn(3, 4, 4), "large": 50 * torch.randn(3, 2, 2)}
    figure = channel_lines(lines, "A claim", image=IMAGE)
    assert figure.get_suptitle() == "A claim" and len(figure.axes) == 8
    assert [figure.axes[i].texts[0].get_text() for i in (0, 4)] == ["small", "large"]
    for first, name, top in (
        (1, "small", float(lines["small"].abs().max())),
        (5, "large", float(lines["large"].abs().max())),
    ):
        for channel in range(3):
            drawn = figure.axes[first + channel].images[0]
            assert drawn.get_clim() == (pytest.approx(-top), pytest.approx(top))
            assert (drawn.get_array() == lines[name][channel].numpy()).all()


def test_zero_is_all_but_white():
    red, green, blue, _ = TWO_SIDED(0.5)
    assert min(red, green, blue) > 0.9


def test_a_line_of_zeros_is_drawn():
    figure = channel_lines({"layer": torch.zeros(2, 2, 2)}, "Nothing")
    assert figure.axes[0].images[0].get_clim() == (-1, 1)


def test_directions_of_known_variance():
    assert blocks.directions(torch.diag(torch.tensor([6.0, 3.0, 1.0]))) == 2
    assert blocks.directions(torch.eye(10)) == 9
    torch.manual_seed(0)
    tokens = torch.randn(4, 50, 3) @ torch.randn(3, 20)  # in three directions of twenty
    assert blocks.token_directions(tokens + 5 * torch.randn(20)) <= 3
    with pytest.raises(ValueError, match="all tokens are the same"):
        blocks.token_directions(torch.ones(2, 3, 4))


def test_patches_of_one_kind_in_all_images_are_alike():
    east, north = torch.eye(4)[:2]
    one, other = torch.stack([east, -east]), torch.stack([north, -north])
    assert blocks.most_alike(torch.stack([one, 3 * one])) == pytest.approx(1)
    assert blocks.most_alike(torch.stack([one, other])) == pytest.approx(0, abs=1e-6)
    # Of three images two are alike: one ordered pair of three.
    assert blocks.most_alike(torch.stack([one, one, other])) == pytest.approx(1 / 3)


def test_every_block_is_read_and_its_directions_are_those_of_its_tokens(tmp_path):
    (row,) = blocks.blocks(
        dataset="digits", model="digits-vit_micro_patch2_8-digits-seed0", share=0.3,
        out=tmp_path, device="cpu",
    )  # fmt: skip
    learned, fresh = row.rows[:4], row.rows[4:]
    assert [line["block"] for line in learned] == [1, 2, 3, 4]
    assert learned[-1]["ridge"][0] > 0.9 > fresh[-1]["neighbours"][0]
    for line in learned:  # of pairs: the difference of the two shares, in a narrower interval
        gap, low, high = line["ridge_less_last"]
        assert gap == pytest.approx(line["ridge"][0] - learned[-1]["ridge"][0], abs=1e-4)
        assert low <= gap <= high <= gap + 0.05
    test = datasets.load("digits", "test")
    model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model.eval()
    with torch.no_grad():
        tokens = layer_tokens(model, datasets.normalize(test.images), 2)[:, 1:]
    assert learned[2]["directions"] == blocks.token_directions(tokens)


def test_a_channel_is_cut_where_it_has_one_end_everywhere():
    maps = torch.tensor([[0.0, 0, 0], [6, 6, 6], [0, 0, 1], [6, 6, 2]])[None, :, :, None]
    at_0, at_6 = silence.cut(maps)
    assert at_0.tolist() == [[True, False, False, False]]
    assert at_6.tolist() == [[False, True, False, False]]


def test_random_weights_with_norms_that_have_seen_the_images():
    images = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    model = silence.fresh_lite(images)
    assert not model.training and len(silence.relu6_layers(model)) == 33
    with torch.no_grad():
        maps = feature_maps(model, images, ["bn1.act"])["bn1.act"]
    assert 0.3 < (maps == 0).float().mean() < 0.7  # as the norms centre what comes


def test_the_rows_behind_the_chapter_are_kept():
    assert set(by_block("directions")) == {"descendant", "fresh weights", "learned flowers"}
    assert all(len(each) in (6, 12) for each in by_block("ridge").values())
    assert silent("learned", 1) > 40 > 1 > silent("fresh", 1)
    tables = evidence().tables
    assert [len(table.lines) for table in tables] == [12, 12, 6, 16]
