from dataclasses import replace

import pytest
import torch

import vitbook
from vitbook import datasets
from vitbook.analysis import EXPLANATIONS, deletion, edge_maps, pointing
from vitbook.models.catalog import fresh_twin
from vitbook.studies import attribution as study
from vitbook.studies.attribution import scores, tables
from vitbook.training import at_scale


def test_each_quarter_of_a_collage_is_the_photograph_that_was_named():
    names = ["coffee", "cat", "temple", "flower"]
    image, quarters = study.collage(names, 64)
    photos = datasets.load("photos", "all", image_size=32)
    for name, quarter in zip(names, quarters, strict=True):
        shown = image[:, quarter].view(3, 32, 32)
        assert torch.equal(shown, photos.images[photos.class_names.index(name)])
    assert torch.equal(quarters.sum(0), torch.ones(64, 64).long())


@pytest.fixture
def few_steps(monkeypatch):
    """Of deletion: what is compared has as many on both sides."""
    monkeypatch.setattr(scores, "STEPS", 4)


def test_a_row_of_removals_is_what_deletion_says(tmp_path, few_steps, monkeypatch):
    some = {name: EXPLANATIONS[name] for name in ("AttnLRP", "occlusion")}
    monkeypatch.setattr(scores, "EXPLANATIONS", some)
    (row,) = scores.removals(num_images=2, out=tmp_path, device="cpu")
    lines = {line["name"]: line for line in row.rows}
    assert {"AttnLRP", "occlusion", "edges", "the mask"} < set(lines)
    model = vitbook.load_checkpoint(study.READER).model
    test = datasets.load("cluttered_digits", "test")
    images = datasets.normalize(test.images[:2])
    maps = edge_maps(images, (8, 8))
    for way in ("black", "imputed"):
        found = deletion(
            model, images, test.labels[:2], maps, baseline=way, steps=scores.STEPS
        ).areas
        assert lines["edges"][way][0] == pytest.approx(found.mean().item(), abs=1e-3)
        assert lines["edges"][f"{way} lead"] == [0, 0, 0]


def test_the_digit_is_what_the_edges_find():
    model = vitbook.load_checkpoint(study.READER).model
    test, masks = (
        datasets.load("cluttered_digits", "test"),
        datasets.answer_masks("cluttered_digits", "test", 24),
    )
    images = datasets.normalize(test.images[:24])
    found = study.digit_last(model, images, test.labels[:24], masks)
    edges = deletion(model, images, test.labels[:24], edge_maps(images, (8, 8))).areas.mean()
    assert edges < 0.5 * found["random"] < found["digit last"]


def test_the_evidence_has_a_line_for_each_explanation():
    found = {table.title: table.lines for table in tables.evidence().tables}
    names = {line["explanation"] for line in found["All explanations, and four controls"]}
    assert {"AttnLRP", "rollout", "edges", "the mask"} < names
    assert {line["explanation"] for line in found["Deletion, with what a cell becomes"]} == names
    assert all("," not in name or name == "Grad-CAM, no mean" for name in names)


def test_filled_holes_tell_attnlrp_from_the_edges_better_than_squares():
    assert scores.recorded_removals().settings["steps"] == scores.STEPS
    found = study.scored()
    row = found.removed["AttnLRP"]
    assert row["mean"] == pytest.approx(found.scores["AttnLRP"]["deletion"], abs=1e-3)
    assert row["imputed lead"][0] > 2 * row["mean lead"][0] > 2 * row["mean lead"][1] > 0
    assert min(found.ranks().values()) > 0.9
    assert found.lead("AttnLRP", "mean") == found.told("AttnLRP", "deletion lead")


def test_words_are_the_scores():
    words = study.scored().words({"occ": "occlusion", "edges": "edges"})
    row = study.scored().scores["occlusion"]
    assert float(words["occ-del"]) == pytest.approx(row["deletion"][0], abs=0.006)
    assert words["occ-del-ci"].startswith(words["occ-del"]) and "edges-twin" not in words
    assert float(words["occ-twin"]) == pytest.approx(row["twin"][0], abs=0.006)


def test_what_is_scored_at_full_strength_is_what_the_measurement_records(few_steps, monkeypatch):
    """The page's own reader, asked as one that was trained here; of fewer images."""
    found = replace(at_scale("planted"), scale="gpu")
    monkeypatch.setattr(
        scores, "_removals", lambda model, given: [{"name": str(len(given.images))}]
    )
    given = study.planted(most=2)
    here, recorded = study.scored(found, given), study.scored()
    assert here.scores.keys() == recorded.scores.keys()
    assert here.removed.keys() == {"2"}  # they are tested above
    assert here.scores["edges"].keys() | {"knows_model"} == recorded.scores["edges"].keys()
    model, (images, targets, masks) = found.model("reader"), given
    maps = EXPLANATIONS["AttnLRP"](model, images, targets)
    assert here.scores["AttnLRP"]["pointing"][0] == pytest.approx(
        pointing(maps, masks).mean().item(), abs=1e-3
    )
    twins = EXPLANATIONS["AttnLRP"](fresh_twin(model), images, targets)
    assert here.scores["AttnLRP, untrained twin"]["pointing"][0] == pytest.approx(
        pointing(twins, masks).mean().item(), abs=1e-3
    )
