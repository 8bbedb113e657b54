import pytest
import torch

import vitbook
from vitbook import datasets
from vitbook.analysis import deletion, edge_maps
from vitbook.studies import attribution as study


def test_each_quarter_of_a_collage_is_the_photograph_that_was_named():
    names = ["coffee", "cat", "temple", "flower"]
    image, quarters = study.collage(names, 64)
    photos = datasets.load("photos", "all", image_size=32)
    for name, quarter in zip(names, quarters, strict=True):
        shown = image[:, quarter].view(3, 32, 32)
        assert torch.equal(shown, photos.images[photos.class_names.index(name)])
    assert torch.equal(quarters.sum(0), torch.ones(64, 64).long())


def test_a_row_of_removals_is_what_deletion_says(tmp_path):
    (row,) = study.removals(num_images=2, out=tmp_path, device="cpu")
    lines = {line["name"]: line for line in row.rows}
    assert {"AttnLRP", "occlusion", "edges", "the mask"} < set(lines)
    model = vitbook.load_checkpoint(study.READER).model
    test = datasets.load("cluttered_digits", "test")
    images = datasets.normalize(test.images[:2])
    maps = edge_maps(images, (8, 8))
    for way in ("black", "imputed"):
        found = deletion(
            model, images, test.labels[:2], maps, baseline=way, steps=study.STEPS
        ).areas
        assert lines["edges"][way][0] == pytest.approx(found.mean().item(), abs=1e-3)
        assert lines["edges"][f"{way} lead"] == [0, 0, 0]


def test_the_digit_is_what_the_edges_find():
    model = vitbook.load_checkpoint(study.READER).model
    test, masks = datasets.load("cluttered_digits", "test"), datasets.digit_masks("test")[:24]
    images = datasets.normalize(test.images[:24])
    found = study.digit_last(model, images, test.labels[:24], masks)
    edges = deletion(model, images, test.labels[:24], edge_maps(images, (8, 8))).areas.mean()
    assert edges < 0.5 * found["random"] < found["digit last"]


def test_the_evidence_has_a_line_for_each_explanation():
    tables = {table.title: table.lines for table in study.evidence().tables}
    names = {line["explanation"] for line in tables["All explanations, and four controls"]}
    assert {"AttnLRP", "rollout", "edges", "the mask"} < names
    assert {line["explanation"] for line in tables["Deletion, with what a cell becomes"]} == names
    assert all("," not in name or name == "Grad-CAM, no mean" for name in names)


def test_filled_holes_tell_attnlrp_from_the_edges_better_than_squares():
    assert study.removed().settings["steps"] == study.STEPS
    (row,) = (row for row in study.removed().rows if row["name"] == "AttnLRP")
    assert row["mean"] == pytest.approx(study.scores()["AttnLRP"]["deletion"], abs=1e-3)
    assert row["imputed lead"][0] > 2 * row["mean lead"][0] > 2 * row["mean lead"][1] > 0
    assert min(study.removal_ranks().values()) > 0.9
    assert study.lead("AttnLRP", "mean") == study.told("AttnLRP", "deletion lead")
