import pytest
import torch

from vitbook import datasets, load_checkpoint
from vitbook.studies.tokens_to_token import evidence, moved, moves

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


def test_the_evidence_says_what_three_seeds_at_the_ceiling_may_say():
    found = evidence()
    assert {len(set(claim.comparison.steps)) for claim in found.claims} == {1}
    verdicts = {claim.name: found.verdict(claim.name) for claim in found.claims}
    assert verdicts.pop("Photographs") == "shows"
    assert set(verdicts.values()) == {"at the ceiling"}
    parts, leads, printed = found.tables
    assert parts.lines[0]["adds at 1 px"] == "–" and len(parts.lines) == 6
    for resnet, ours in zip(leads.lines[:3], leads.lines[3:], strict=True):
        plain, recipe, lead = (
            float(cell.rstrip(" %"))
            for cell in (resnet["accuracy"], resnet["by T2T-ViT's recipe"], ours["accuracy"])
        )
        assert recipe - plain > 0.5 * (lead - plain)  # as the page says
    assert sum("page" in line["agrees with"] for line in printed.lines) >= 5
