import pytest

from vitbook import datasets, load_checkpoint
from vitbook.analysis import layer_redundancy
from vitbook.studies.cnn_designs import redundancy

MICRO = "digits-vit_micro_patch2_8-digits-seed0"


def test_the_row_says_what_the_library_measures(tmp_path):
    (row,) = redundancy(checkpoints=[MICRO], out=tmp_path, device="cpu")
    assert row.subject == "digits" and row.settings["images"] == 355
    images = datasets.normalize(datasets.load("digits", "test").images)
    found, (line,) = layer_redundancy(load_checkpoint(MICRO).model, images), row.rows
    assert line["channels"] == pytest.approx(found.channels, abs=1e-3)
    assert line["share"] == pytest.approx(found.share, abs=1e-4)
    assert line["likeness"] == pytest.approx(found.likeness, abs=1e-4)
