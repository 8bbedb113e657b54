import pytest
import torch

from vitbook import create_model, datasets, load_checkpoint
from vitbook.analysis import mirror_similarity, position_tables
from vitbook.layers import RotaryPosition2D
from vitbook.studies.positions import drawings, measures

FLIPPED = "positions_flip-vit_mini_w48_patch4_32-seed0-8a6a1a42"
OTHER = "cifar10-vit_mini_patch4_32-quick-seed0"
ROTARY = "positions_pixels-vit_rope_micro_patch2_8-seed0-16a00cdb"
TABLE = "digits-vit_micro_patch2_8-digits-seed0"


def test_the_row_says_what_the_library_measures(tmp_path):
    (row,) = measures.mirrors(checkpoints=[FLIPPED, OTHER], out=tmp_path)
    assert row.subject == "cifar10" and [line["run"] for line in row.rows] == [FLIPPED, OTHER]
    table = position_tables(load_checkpoint(OTHER).model)["position"]
    for key, upside_down in (("across", False), ("down", True)):
        found = mirror_similarity(*table, upside_down=upside_down)
        assert row.rows[1][key] == pytest.approx(found.mirrored - found.others, abs=1e-4)


def test_positions_without_a_direction_are_refused(tmp_path, monkeypatch):
    given = position_tables(load_checkpoint(FLIPPED).model)["position"]
    table = tuple(torch.zeros_like(each) if torch.is_tensor(each) else each for each in given)
    monkeypatch.setattr(measures, "position_tables", lambda _: {"position": table})
    with pytest.raises(ValueError, match="positions without a direction"):
        measures.mirrors(checkpoints=[FLIPPED], out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_digits_are_read_at_sizes_that_were_not_learned(tmp_path, monkeypatch):
    monkeypatch.setattr(measures, "SIZES", (8, 12))
    (row,) = measures.resolutions(checkpoints=[ROTARY, TABLE], out=tmp_path)
    read = {(line["run"], line["way"]): line["accuracy"] for line in row.rows}
    assert set(read) == {
        (ROTARY, "carried"), (ROTARY, "shuffled"), (ROTARY, "continued"),
        (TABLE, "carried"), (TABLE, "shuffled"),
    }  # fmt: skip
    model, test = load_checkpoint(ROTARY).model.eval(), datasets.load("digits", "test")
    with torch.no_grad():
        right = model(datasets.normalize(test.images)).argmax(1) == test.labels
    plain = right.float().mean().item()
    assert read[ROTARY, "carried"][0] == read[ROTARY, "continued"][0]
    assert read[ROTARY, "carried"][0] == pytest.approx(plain, abs=1e-5)
    assert all(read[run, "shuffled"][1] < read[run, "carried"][1] - 0.3 for run in (ROTARY, TABLE))


def test_continued_angles_keep_their_step():
    learned, larger = (create_model("vit_rope_micro_patch2_8", image_size=n) for n in (8, 16))
    step = _angle_between_neighbours(learned)
    assert _angle_between_neighbours(larger) == pytest.approx(step / 2, abs=1e-5)
    assert _angle_between_neighbours(measures.continued(larger, (4, 4))) == pytest.approx(
        step, abs=1e-5
    )


def _angle_between_neighbours(model) -> float:
    """Of the fastest pair, which turns with the row, in the middle of the grid."""
    (part,) = {each for each in model.modules() if isinstance(each, RotaryPosition2D)}
    rows, columns = part.grid_size
    first = 1 + (rows // 2 - 1) * columns
    ends = [torch.atan2(part.sin[i, 0], part.cos[i, 0]) for i in (first, first + columns)]
    return (ends[1] - ends[0]).item() % (2 * torch.pi)


def test_moved_patches_change_nothing_that_is_not_told():
    photo, order = datasets.load("photos", "all", image_size=32).images[0], list(range(64))[::-1]
    assert max(measures.changes(photo, order, told=0)) < 1e-12
    assert min(measures.changes(photo, order, told=1)) > 1e-2


def test_a_tile_stands_where_its_position_is():
    each = torch.arange(64.0 * 64).reshape(64, 64)
    (tiled,) = drawings.tiles({"a map": each}).values()
    assert torch.equal(tiled[8 * 2 : 8 * 3, 8 * 5 : 8 * 6], each[8 * 2 + 5].reshape(8, 8))


def test_the_drawing_has_the_shapes_of_the_model():
    with torch.device("meta"):
        model = create_model("vit_rope_micro_patch1_8")
        tokens = model.embed(torch.zeros(1, 1, 8, 8))[0, model.num_prefix_tokens :]
    attention = model.encoder.blocks[0].attention
    drawn = repr(drawings.entries())
    assert f"tokens → {tokens.shape[0]} × {tokens.shape[1]} →" in drawn
    assert f"→ {tokens.shape[0]} × {tokens.shape[1] // attention.num_heads} →" in drawn
