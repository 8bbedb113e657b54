import pytest
import torch

from vitbook import load_checkpoint
from vitbook.analysis import mirror_similarity, position_tables
from vitbook.studies import positions
from vitbook.studies.positions import mirrors

FLIPPED = "positions_flip-vit_mini_w48_patch4_32-seed0-8a6a1a42"
OTHER = "cifar10-vit_mini_patch4_32-quick-seed0"


def test_the_row_says_what_the_library_measures(tmp_path):
    (row,) = mirrors(checkpoints=[FLIPPED, OTHER], out=tmp_path)
    assert row.subject == "cifar10" and [line["run"] for line in row.rows] == [FLIPPED, OTHER]
    table = position_tables(load_checkpoint(OTHER).model)["position"]
    for key, upside_down in (("across", False), ("down", True)):
        found = mirror_similarity(*table, upside_down=upside_down)
        assert row.rows[1][key] == pytest.approx(found.mirrored - found.others, abs=1e-4)


def test_places_without_a_direction_are_refused(tmp_path, monkeypatch):
    given = position_tables(load_checkpoint(FLIPPED).model)["position"]
    table = tuple(torch.zeros_like(each) if torch.is_tensor(each) else each for each in given)
    monkeypatch.setattr(positions, "position_tables", lambda _: {"position": table})
    with pytest.raises(ValueError, match="places without a direction"):
        mirrors(checkpoints=[FLIPPED], out=tmp_path)
    assert not list(tmp_path.iterdir())
