"""What the chapter on designs claims; channels that repeat each other, and channels that do not."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from vitbook import create_model, datasets, load_checkpoint, published_counts
from vitbook.analysis import cka
from vitbook.studies import cnn_designs
from vitbook.studies.cnn_designs import effective_channels, layer_redundancy, redundancy

MICRO = "digits-vit_micro_patch2_8-digits-seed0"


def test_independent_channels_count_all_and_copies_count_once():
    own = torch.linalg.qr(torch.randn(64, 8, generator=torch.manual_seed(0))).Q
    own = torch.linalg.qr(own - own.mean(0)).Q  # no two have anything in common
    assert effective_channels(own) == pytest.approx(8)
    assert effective_channels(torch.cat([own, -3 * own], dim=1)) == pytest.approx(8)


def test_neither_units_nor_shape_nor_a_constant_channel_matter():
    outputs = torch.randn(4, 9, 6, generator=torch.manual_seed(1))
    found = effective_channels(outputs)
    assert 1 < found < 6
    assert effective_channels(outputs * torch.arange(1, 7) + 5) == pytest.approx(found)
    assert effective_channels(outputs.flatten(0, 1)) == pytest.approx(found)
    constant = torch.cat([outputs, torch.ones(4, 9, 1)], dim=-1)
    assert effective_channels(constant) == pytest.approx(found)


@pytest.mark.parametrize(
    ("outputs", "what"),
    [
        (torch.ones(1, 4), "1 observations"),
        (torch.full((5, 4), torch.nan), "finite numbers"),
        (torch.ones(5, 4), "never change"),
    ],
)
def test_what_has_no_answer_is_refused(outputs, what):
    with pytest.raises(ValueError, match=what):
        effective_channels(outputs)


def test_neither_tiny_nor_huge_channels_are_lost():
    outputs = torch.randn(50, 6, generator=torch.manual_seed(2), dtype=torch.float64)
    found = effective_channels(outputs)
    mixed = torch.tensor([1e-20, 1, 1e15, 1, 1e-300, 1e300], dtype=torch.float64)
    for units in (1e-200, 1e200, mixed):
        assert effective_channels(outputs * units) == pytest.approx(found)


def test_a_constant_that_a_mean_would_round_is_one():
    tenths = torch.full((1000, 5), 0.1, dtype=torch.float64)
    with pytest.raises(ValueError, match="5 channels that never change"):
        effective_channels(tenths)
    with pytest.raises(ValueError, match="0 channels that never change"):
        effective_channels(torch.empty(5, 0))


def test_a_layers_share_is_of_its_own_width():
    wide, turned = nn.Linear(6, 12), nn.Linear(12, 3)
    model = nn.Sequential(nn.Sequential(wide), nn.Sequential(turned))
    images = torch.randn(40, 2, 1, 6, generator=torch.manual_seed(3))
    found = layer_redundancy(model, images, ["0", "1"])
    first = wide(images)
    used = [effective_channels(first), effective_channels(turned(first))]
    assert found.channels == pytest.approx(sum(used) / 2)
    assert found.share == pytest.approx((used[0] / 12 + used[1] / 3) / 2)
    assert found.likeness == pytest.approx(cka(model, model, images, ["0"], ["1"]).item())


def test_blocks_of_ours_and_of_one_layer():
    images = torch.randn(8, 1, 8, 8, generator=torch.manual_seed(4))
    model = create_model("vit_dense_micro_patch2_8").train()  # its blocks differ in width
    found = layer_redundancy(model, images)
    assert model.training and 0 < found.share < 1 and 0 < found.likeness <= 1
    one = layer_redundancy(model, images, ["encoder.blocks.0"])
    assert one.likeness != one.likeness and one.channels >= 1  # no neighbour


def test_the_row_says_what_the_library_measures(tmp_path):
    (row,) = redundancy(checkpoints=[MICRO], out=tmp_path, device="cpu")
    assert row.subject == "digits" and row.settings["images"] == 355
    images = datasets.normalize(datasets.load("digits", "test").images)
    found, (line,) = layer_redundancy(load_checkpoint(MICRO).model, images), row.rows
    assert line["channels"] == pytest.approx(found.channels, abs=1e-3)
    assert line["share"] == pytest.approx(found.share, abs=1e-4)
    assert line["likeness"] == pytest.approx(found.likeness, abs=1e-4)


@pytest.fixture(scope="module")
def found():
    return cnn_designs.evidence()


def test_designs_are_compared_at_equal_cost_and_equal_steps(found):
    plain = {
        stem: published_counts.macs(f"{stem}_micro_patch2_8", None) for stem in ("vit", "t2t_vit")
    }
    for claim in found.claims:
        if claim.note == cnn_designs.EQUAL and "CIFAR" not in claim.name:
            model = claim.ours[0].model
            share = (
                published_counts.macs(model, None) / plain[claim.theirs[0].model.split("_micro")[0]]
            )
            assert 0.95 < share < 1.05, model
        assert len(set(claim.comparison.steps)) == 1
    assert all(
        found[cnn_designs.claim_on(name)].comparison.ours.seeds > 6 for name in cnn_designs.DESIGNS
    )


def test_corrected_for_their_number_no_design_is_above_plain_and_dense_is_below(found):
    told = {name: found.verdict(cnn_designs.claim_on(name)) for name in cnn_designs.DESIGNS}
    assert "agrees" not in told.values() and told["Dense"] == "contradicts"


def test_all_digits_are_at_the_ceiling_and_one_run_shows(found):
    told = {claim.name: found.verdict(claim.name) for claim in found.claims}
    assert {each for name, each in told.items() if name.endswith("all digits")} == {
        "at the ceiling"
    }
    assert told["SE on CIFAR-10"] == told["Half the cost on CIFAR-10"] == "shows"


def test_the_chapter_links_claims_that_the_page_has_first(found):
    text = (Path(__file__).resolve().parents[2] / "book/cnn_designs.ipynb").read_text()
    linked = re.findall(r"\{evidence\}`([^`]+)`", text)
    assert linked and {*linked} <= {claim.name for claim in found.claims[:8]}
